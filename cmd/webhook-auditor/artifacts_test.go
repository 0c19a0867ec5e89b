package main

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestUpToDate: what is derived from the code is committed as derived.
func TestUpToDate(t *testing.T) {
	for _, a := range artifacts() {
		files, err := a.files()
		if err != nil {
			t.Errorf("deriving %s: %v", a.name, err)
		}
		for name, want := range files {
			have, err := os.ReadFile(filepath.Join("..", "..", name))
			if err != nil {
				t.Errorf("%v: run make generate", err)
				continue
			}
			if diff := cmp.Diff(string(want), string(have)); diff != "" {
				t.Errorf("%s is not up to date, run make generate: -derived +committed\n%s", name, diff)
			}
		}
	}
}

// TestMarkedAsGenerated: reviews fold what is derived.
func TestMarkedAsGenerated(t *testing.T) {
	marks := must.Get(os.ReadFile("../../.gitattributes"))(t)
	var patterns []string
	for line := range strings.Lines(string(marks)) {
		if pattern, ok := strings.CutSuffix(strings.TrimSpace(line), " linguist-generated"); ok {
			patterns = append(patterns, pattern)
		}
	}
	for _, a := range artifacts() {
		files := must.Get(a.files())(t)
		for name := range files {
			if !marked(t, patterns, name) {
				t.Errorf("%s is derived: add it to .gitattributes", name)
			}
		}
	}
}

func marked(t *testing.T, patterns []string, name string) bool {
	t.Helper()
	return slices.ContainsFunc(patterns, func(pattern string) bool { return must.Get(path.Match(pattern, "/"+name))(t) })
}

// TestPageURL: what is no address of a page is refused before it stands in alerts.
func TestPageURL(t *testing.T) {
	for _, artifact := range []string{"rules", "dashboards"} {
		got := execute(t, "", "print", artifact, "--page-url=auditor.example.com")
		if got.code != exitUsage || !strings.Contains(got.err, "--page-url: must be a URL as https://") {
			t.Errorf("print %s: exit code %d, %s", artifact, got.code, got.err)
		}
		if got := execute(t, "", "print", artifact, "--page-url=https://auditor.example.com"); got.code != exitOK || !strings.Contains(got.out, "https://auditor.example.com/webhooks?type=") {
			t.Errorf("print %s: exit code %d, %s", artifact, got.code, got.err)
		}
	}
}
