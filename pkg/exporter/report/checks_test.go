package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report/reporttest"
)

func TestPrintChecks(t *testing.T) {
	var checks []*classify.Check
	for _, c := range testChecks {
		// Under a name of its own it has no runbook that changes the golden file.
		renamed := *c
		renamed.Name = "test-" + c.Name
		checks = append(checks, &renamed)
	}
	golden.Compare(t, "checks.md", reporttest.Rendered(t, func(b *bytes.Buffer) error { return writeChecks(b, checks) }))
}

func TestPrintChecksHasThemAll(t *testing.T) {
	text := string(reporttest.Rendered(t, func(b *bytes.Buffer) error { return WriteChecks(b) }))
	for _, c := range classify.Checks {
		if !strings.Contains(text, "| ["+c.Name+"]("+c.Name+".md) |") {
			t.Errorf("check %s lacks its row", c.Name)
		}
	}
}
