package exporter

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	collectorversion "github.com/prometheus/client_golang/prometheus/collectors/version"

	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
)

// Everything that is exported under our prefix is documented with its labels.
func TestPrintMetricsHasThemAll(t *testing.T) {
	text := string(reporttest.Rendered(t, func(b *bytes.Buffer) error { return WriteMetrics(b) }))
	names := []string{seriesDropped.Series()}
	for _, f := range Families {
		names = append(names, f.Series())
	}
	descs := make(chan *prometheus.Desc, 100)
	for _, own := range newOwn().Collectors() {
		own.Describe(descs)
	}
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
