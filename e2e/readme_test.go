// Package e2e is the root of the end-to-end tests: the built webhook-auditor
// binary, a black box, against a real control plane with real webhooks. The
// tests are in suites.
package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReadmeListsEveryFolder compares the tables of the README with the folders.
func TestReadmeListsEveryFolder(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`.+?`) \\|").FindAllStringSubmatch(string(text), -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			listed = append(listed, strings.Trim(name, "`"))
		}
	}
	var folders []string
	for _, pattern := range []string{"*", "internal/*", "suites/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			info, err := os.Stat(path)
			if err == nil && info.IsDir() && !slices.Contains([]string{"bin", "internal", "suites"}, path) {
				folders = append(folders, filepath.ToSlash(path))
			}
		}
	}
	slices.Sort(listed)
	slices.Sort(folders)
	if !slices.Equal(listed, folders) {
		t.Errorf("README.md lists %q, the folders are %q: correct its tables", listed, folders)
	}
}
