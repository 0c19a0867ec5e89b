// Package installations compares the findings on real software with what is true of
// it: the manifests of released versions, read from the Go modules that
// ship them. The list is here, the manifests are not.
package installations

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// tolerated is the share of webhooks that a check above info may hit.
const tolerated = 0.03

// document is the part of "audit -o json" that is compared here.
type document struct {
	Webhooks []json.RawMessage `json:"webhooks"`
	Findings []struct {
		Check    string `json:"check"`
		Severity string `json:"severity"`
		Name     string `json:"name"`
		Message  string `json:"message"`
	} `json:"findings"`
	Errors []struct {
		Source  string `json:"source"`
		Message string `json:"message"`
	} `json:"errors"`
}

// installation is what one module ships of one piece of software, as it is
// applied: rendered, or a base that no overlay narrows. Left out are bases
// whose overlay adds the selectors (kueue, jobset, lws, kruise, k8ssandra,
// hierarchical namespaces), and templates.
type installation struct {
	Module, Version string
	Path            string // a file or a directory of the module
	Webhooks        int    // how many there are
	Hits            []hit  // all findings above info
}

// hit is a finding above info on a webhook, and why it is right.
type hit struct{ Check, Webhook, Because string }

//go:embed testdata/installations.json
var list []byte

// TestInstallations: of real software each finding above info is one that the
// list explains, each that it explains is found, and no check hits 3 % of the
// webhooks.
func TestInstallations(t *testing.T) {
	var installations []installation
	if err := json.Unmarshal(list, &installations); err != nil {
		t.Fatal(err)
	}
	if len(installations) < 10 {
		t.Fatalf("want at least 10 installations, got %d", len(installations))
	}
	auditor, folders := build(t), download(t, installations)
	webhooks, hits := 0, map[string]int{}
	for _, i := range installations {
		t.Run(i.Module+"/"+i.Path, func(t *testing.T) {
			d := audit(t, auditor, filepath.Join(folders[i.Module+"@"+i.Version], i.Path))
			webhooks += len(d.Webhooks)
			for _, h := range compare(t, i, d) {
				hits[h.Check]++
			}
		})
	}
	for check, n := range hits {
		if share := float64(n) / float64(webhooks); share >= tolerated {
			t.Errorf("%s hits %d of %d webhooks, %.1f %%: want less than %.0f %%", check, n, webhooks, 100*share, 100*tolerated)
		}
	}
	t.Logf("%d webhooks; above info: %v", webhooks, hits)
}

// compare holds what was found against the list, and returns it.
func compare(t *testing.T, i installation, d document) []hit {
	t.Helper()
	if len(d.Webhooks) != i.Webhooks {
		t.Errorf("webhooks: %d, want %d", len(d.Webhooks), i.Webhooks)
	}
	for _, e := range d.Errors {
		t.Errorf("error: %s: %s", e.Source, e.Message)
	}
	var found []hit
	for _, f := range d.Findings {
		if f.Severity == "info" {
			continue
		}
		found = append(found, hit{Check: f.Check, Webhook: f.Name})
		if !slices.ContainsFunc(i.Hits, func(h hit) bool { return h.Check == f.Check && h.Webhook == f.Name }) {
			t.Errorf("not explained: %s %s on %s: %s", f.Severity, f.Check, f.Name, f.Message)
		}
	}
	for _, h := range i.Hits {
		if h.Because == "" || !slices.Contains(found, hit{Check: h.Check, Webhook: h.Webhook}) {
			t.Errorf("explained, but not found: %s on %s", h.Check, h.Webhook)
		}
	}
	return found
}

// build builds the auditor of this checkout, as its users build it.
func build(t *testing.T) string {
	t.Helper()
	if out, err := exec.Command("make", "-C", "../../..", "build").CombinedOutput(); err != nil {
		t.Fatalf("building the auditor: %v\n%s", err, out)
	}
	return "../../../bin/webhook-auditor"
}

// download returns the directories of the installations' modules, by
// module@version.
func download(t *testing.T, installations []installation) map[string]string {
	t.Helper()
	command := exec.Command("go", "mod", "download", "-json")
	for _, i := range installations {
		command.Args = append(command.Args, i.Module+"@"+i.Version)
	}
	command.Dir = t.TempDir()
	out, failed := command.Output()
	folders := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var module struct{ Path, Version, Dir, Error string }
		if err := d.Decode(&module); err != nil || module.Dir == "" {
			t.Fatalf("downloading %s@%s: %v: %s", module.Path, module.Version, errors.Join(failed, err), module.Error)
		}
		folders[module.Path+"@"+module.Version] = module.Dir
	}
	if exit := (*exec.ExitError)(nil); errors.As(failed, &exit) {
		t.Fatalf("downloading: %v\n%s", failed, exit.Stderr)
	}
	for _, i := range installations {
		if at := i.Module + "@" + i.Version; failed != nil || folders[at] == "" {
			t.Fatalf("downloading %s: it was not downloaded: %v", at, failed)
		}
	}
	return folders
}

func audit(t *testing.T, auditor, path string) document {
	t.Helper()
	out, err := exec.Command(auditor, "audit", "-o", "json", "--fail-on", "never", path).Output()
	if err != nil {
		t.Fatalf("auditing %s: %v", path, err)
	}
	var d document
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatalf("reading the report on %s: %v", path, err)
	}
	return d
}
