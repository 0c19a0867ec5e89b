package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/document"
)

// TestOperationsSaysWhatWasRun: the tables of OPERATIONS.md are those of the records, there
// is a record of each release that is pinned, and none of another.
func TestOperationsSaysWhatWasRun(t *testing.T) {
	releases, err := pinned(".")
	if err != nil {
		t.Fatal(err)
	}
	records, err := recorded(".", releases)
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != len(releases) {
		t.Fatalf("%d records of %d releases: run make e2e-matrix", len(records), len(releases))
	}
	for i, r := range records {
		if r.Kubernetes != releases[i].version || len(r.Seconds) != len(columns) || len(r.Series) < 15 {
			t.Errorf("the record of %s is of %s, with %d columns and %d series: run make e2e-matrix RELEASES=%s",
				releases[i].version, r.Kubernetes, len(r.Seconds), len(r.Series), releases[i].name)
		}
	}
	text, err := os.ReadFile("../../manifests/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range []document.Section{runs(records), exported(records)} {
		if want, err := section.ReplaceIn(string(text)); err != nil || want != string(text) {
			t.Errorf("OPERATIONS.md differs from the records (%v): run make e2e-matrix", err)
		}
	}
	files, err := filepath.Glob("recorded/*.json")
	if err != nil || len(files) != len(releases) {
		t.Errorf("recorded are %s, pinned %v (%v)", strings.Join(files, ", "), releases, err)
	}
}
