package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
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
		if !strings.Contains(text, "\n## "+c.Name+"\n") || !strings.Contains(text, "| ["+c.Name+"](#"+c.Name+") |") {
			t.Errorf("check %s lacks its row or its section", c.Name)
		}
		if !strings.Contains(text, section(c.Runbook())) {
			t.Errorf("check %s lacks its runbook", c.Name)
		}
	}
}

func TestSection(t *testing.T) {
	const in = "# no-ready-endpoints\n\n## Meaning\n\nText.\n\n```sh\n# not a heading\n```\n\n### Detail\n"
	const want = "### Meaning\n\nText.\n\n```sh\n# not a heading\n```\n\n#### Detail\n"
	if got := section(in); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestShortDuration(t *testing.T) {
	expect.Results(t, shortDuration, map[time.Duration]string{
		0: "0s", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Minute: "1h30m", 20 * time.Hour: "20h",
	})
}
