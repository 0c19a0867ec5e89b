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
