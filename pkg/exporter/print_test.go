package exporter

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	collectorversion "github.com/prometheus/client_golang/prometheus/collectors/version"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

func TestPrintChecks(t *testing.T) {
	var checks []*classify.Check
	for _, c := range testChecks {
		// Under a name of its own it has no runbook that changes the golden file.
		renamed := *c
		renamed.Name = "test-" + c.Name
		checks = append(checks, &renamed)
	}
	golden(t, "checks.md", rendered(t, func(b *bytes.Buffer) error { return writeChecks(b, checks) }))
}

func TestPrintChecksHasThemAll(t *testing.T) {
	text := string(rendered(t, func(b *bytes.Buffer) error { return WriteChecks(b) }))
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

// Everything that is exported under our prefix is documented with its labels.
func TestPrintMetricsHasThemAll(t *testing.T) {
	text := string(rendered(t, func(b *bytes.Buffer) error { return WriteMetrics(b) }))
	names := []string{seriesDropped.Series()}
	for _, f := range Families {
		names = append(names, f.Series())
	}
	descs := make(chan *prometheus.Desc, 100)
	NewEvaluationDuration().Describe(descs)
	NewConditionWriteErrors().Describe(descs)
	NewPolicyReload().Describe(descs)
	collectorversion.NewCollector(program).Describe(descs)
	close(descs)
	for d := range descs {
		names = append(names, strings.Split(d.String(), `"`)[1])
	}
	for _, name := range names {
		if n := strings.Count(text, "| `"+name+"` |"); n != 1 {
			t.Errorf("%s has %d rows, want 1", name, n)
		}
	}
}
