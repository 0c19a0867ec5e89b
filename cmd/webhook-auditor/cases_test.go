package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"webhook-auditor": main, "explain-requests": explainRequests})
}

// TestCases: what operators of webhooks reported, with the answer that is right. Each
// case is a script and its input files in one text.
func TestCases(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/cases", RequireExplicitExec: true, RequireUniqueNames: true})
}
