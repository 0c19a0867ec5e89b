package rules

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestAlertmanager holds that the example names only alerts that exist.
// check.sh and the end-to-end tests load it into the real thing.
func TestAlertmanager(t *testing.T) {
	text, err := os.ReadFile("alertmanager.yaml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\bWebhook\w+`).FindAllString(string(text), -1)
	if len(names) == 0 {
		t.Fatal("found no alert")
	}
	for _, name := range names {
		if !slices.ContainsFunc(all(), func(a Alert) bool { return a.Name == name }) {
			t.Errorf("there is no alert %s", name)
		}
	}
}
