package observed

import (
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// forAlerts are the families that alerts read besides.
var forAlerts = []string{
	promql.ConversionRequests, promql.StepSeconds, promql.PluginSeconds, promql.Validations, promql.Mutations,
	promql.ManifestReloads, promql.ManifestHashes,
}

// exportedEdges are the upper bounds, in seconds, of the buckets that alerts read.
var exportedEdges = []float64{0.1, 0.5, 1, 2.5, 10}

// Exported are the API server's families that an auditor can export, as Prometheus may
// have no API server to scrape.
func Exported() []string {
	var out []string
	for _, f := range measured {
		if (f.webhookType == "" || f.webhookType == inventory.Conversion) && f.name != promql.OldConversionSeconds {
			out = append(out, f.name)
		}
	}
	return append(out, forAlerts...)
}

// ExportedName is the name under which an auditor exports a family of the API server.
func ExportedName(family string) string {
	return "webhook_auditor_observed_" + strings.TrimPrefix(family, "apiserver_")
}

// Export returns what the API servers counted of webhooks and policies, as the auditor
// exports it: sums since their start, with their addresses as the label server and the
// second of the start as server_start. Behind one address may be several, whose counters
// are apart by that.
func Export(scrapes []Scrape) []*dto.MetricFamily {
	var out []*dto.MetricFamily
	for _, name := range Exported() {
		var family *dto.MetricFamily
		for _, s := range scrapes {
			found := s.families[name]
			if found == nil {
				continue
			}
			if family == nil {
				family = &dto.MetricFamily{
					Name: new(ExportedName(name)), Type: found.Type, Help: new("As an API server counts it: " + found.GetHelp()),
				}
				out = append(out, family)
			}
			family.Metric = append(family.Metric, s.export(found)...)
		}
	}
	return out
}

// export returns the series of a family, each with the API server that it is of.
func (s Scrape) export(family *dto.MetricFamily) []*dto.Metric {
	var out []*dto.Metric
	for _, m := range family.GetMetric() {
		if family.GetName() == promql.PluginSeconds && !ofPolicies(m) {
			continue
		}
		copied := &dto.Metric{Counter: m.Counter, Gauge: m.Gauge, Untyped: m.Untyped, Label: append(
			slices.Clone(m.Label),
			&dto.LabelPair{Name: new("server"), Value: new(s.address)},
			&dto.LabelPair{Name: new("server_start"), Value: new(strconv.FormatInt(s.started.Unix(), 10))},
		)}
		slices.SortFunc(copied.Label,
			func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
		if h := m.Histogram; h != nil {
			copied.Histogram = &dto.Histogram{SampleCount: h.SampleCount, SampleSum: h.SampleSum}
			for _, b := range h.Bucket {
				if slices.Contains(exportedEdges, b.GetUpperBound()) {
					copied.Histogram.Bucket = append(copied.Histogram.Bucket, b)
				}
			}
		}
		out = append(out, copied)
	}
	return out
}

// ofPolicies reports whether the series is of the plugins of admission policies.
func ofPolicies(m *dto.Metric) bool {
	return slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
		return l.GetName() == "name" && strings.HasSuffix(l.GetValue(), "AdmissionPolicy")
	})
}
