package dashboards

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestCommittedForms: a file that no form writes would stay as it is. TestUpToDate of
// cmd/webhook-auditor compares the others.
func TestCommittedForms(t *testing.T) {
	committed := map[string]bool{}
	for _, form := range Committed {
		files := must.Get(Render(form, Options{}))(t)
		for name := range files {
			committed[name] = true
		}
	}
	for _, pattern := range []string{"*.json", "*.yaml"} {
		names := must.Get(filepath.Glob(pattern))(t)
		for _, name := range names {
			if !committed[name] {
				t.Errorf("%s is of no form: remove it, or add its form to Committed", name)
			}
		}
	}
}

// TestRenderTwice finds what depends on the order of maps, or counts across
// boards as the constructors of the console's SDK do.
func TestRenderTwice(t *testing.T) {
	for _, form := range Forms {
		first := must.Get(Print(form, Options{}))(t)
		for range 5 {
			again := must.Get(Print(form, Options{}))(t)
			if !bytes.Equal(first, again) {
				t.Fatalf("%s differs from one time to the next", form)
			}
		}
	}
}

func TestUnknownForm(t *testing.T) {
	if _, err := Print("pdf", Options{}); err == nil {
		t.Error("no error")
	}
}

// TestPageLinks: with the address of the status page each link to a webhook's board
// has one to its page beside it; without, nothing leads there.
func TestPageLinks(t *testing.T) {
	const page = "https://auditor.example.com"
	for _, form := range linked {
		bare := must.Get(Print(form, Options{}))(t)
		if bytes.Contains(bare, []byte("Status page")) {
			t.Errorf("%s: links to a page that has no address", form)
		}
		text := must.Get(Print(form, Options{PageURL: page + "/"}))(t)
		boards, pages := bytes.Count(text, []byte("Open this webhook")), bytes.Count(text, []byte(page+"/webhooks?type=${__"))
		if boards == 0 || pages != boards {
			t.Errorf("%s: %d links to boards of webhooks, %d to pages", form, boards, pages)
		}
		changes := bytes.Count(text, []byte(page+"/changes?configuration={{configuration}}"))
		if n := bytes.Count(text, []byte(page)); n != pages+2*len(Boards()) || changes != len(Boards()) {
			t.Errorf("%s: %d links to the page, %d of them to its changes; want two for each board beside the %d of webhooks", form, n, changes, pages)
		}
	}
	if _, err := Print(OpenShiftConsole, Options{PageURL: page}); err == nil {
		t.Error("links are printed for the console, which has none")
	}
}
