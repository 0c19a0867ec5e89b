package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/document"
)

// TestOperationsSaysWhatWasRun: the tables of docs/operate.md are those of the records, which
// are of releases that are pinned.
func TestOperationsSaysWhatWasRun(t *testing.T) {
	releases, err := pinned(".")
	if err != nil {
		t.Fatal(err)
	}
	records, err := recorded(".", releases)
	if err != nil {
		t.Fatal(err)
	}
	if len(records) == 0 {
		t.Fatal("there are no records: run make e2e-matrix")
	}
	for _, r := range records {
		if !slices.ContainsFunc(releases, func(p release) bool { return p.version == r.Kubernetes }) || len(r.Seconds) == 0 {
			t.Errorf("there is a record of %s with %d columns: run make e2e-matrix", r.Kubernetes, len(r.Seconds))
		}
	}
	text, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range []document.Section{runs(records), exported(records)} {
		if want, err := section.ReplaceIn(string(text)); err != nil || want != string(text) {
			t.Errorf("docs/operate.md differs from the records (%v): run make e2e-matrix", err)
		}
	}
	files, err := filepath.Glob("recorded/*.json")
	if err != nil || len(files) != len(records) {
		t.Errorf("recorded are %s, %d of them releases of releases.tsv (%v)", strings.Join(files, ", "), len(records), err)
	}
}
