package observed

import (
	"fmt"
	"os"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/promql"
)

// exportedText is what is exported of a family, one series in a line.
func exportedText(families []*dto.MetricFamily, name string) string {
	var out strings.Builder
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			fmt.Fprintf(&out, "%s %g %d", strings.Join(labels, ","), m.GetCounter().GetValue(), m.GetHistogram().GetSampleCount())
			for _, b := range m.GetHistogram().GetBucket() {
				fmt.Fprintf(&out, " %g:%d", b.GetUpperBound(), b.GetCumulativeCount())
			}
			out.WriteByte('\n')
		}
	}
	return out.String()
}

// TestExport: what a real API server served, under other names, with the API server that
// it is of, and without the edges that no alert reads.
func TestExport(t *testing.T) {
	text := must.Get(os.ReadFile("../../../dashboards/testdata/apiserver-metrics.txt"))(t)
	s := scrapedAt(t, noon, string(text))
	other := s
	other.address = "10.0.0.2:6443"
	families := Export([]Scrape{s, other, {address: "10.0.0.3:6443"}})
	start := fmt.Sprint(s.started.Unix())
	var want strings.Builder
	for _, server := range []string{"10.0.0.1:6443", "10.0.0.2:6443"} {
		want.WriteString("name=fail-open.example.com,operation=CREATE,server=" + server + ",server_start=" + start + ",type=validating 15 0\n")
	}
	if got := exportedText(families, "webhook_auditor_observed_admission_webhook_fail_open_count"); strings.ReplaceAll(got, "operation=CREATE,", "") != strings.ReplaceAll(want.String(), "operation=CREATE,", "") {
		t.Errorf("got\n%swant\n%s", got, want.String())
	}
	for line := range strings.Lines(exportedText(families, ExportedName(promql.WebhookSeconds))) {
		if edges := strings.Fields(line)[3:]; len(edges) != len(exportedEdges) {
			t.Errorf("the edges are %q", edges)
		}
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "webhook_auditor_observed_") {
			t.Errorf("%s is exported", f.GetName())
		}
	}
}

// TestExportedPlugins: of the admission plugins, those of policies alone are exported.
func TestExportedPlugins(t *testing.T) {
	var text strings.Builder
	text.WriteString(started(noon) + "# TYPE " + promql.PluginSeconds + " histogram\n")
	for _, plugin := range []string{"ValidatingAdmissionPolicy", "MutatingAdmissionPolicy", "NodeRestriction"} {
		labels := fmt.Sprintf(`{name=%q,rejected="true",le="+Inf"}`, plugin)
		text.WriteString(promql.PluginSeconds + "_bucket" + labels + " 3\n" + promql.PluginSeconds + "_count" + strings.Replace(labels, `,le="+Inf"`, "", 1) + " 3\n")
	}
	got := exportedText(Export([]Scrape{scrapedAt(t, noon, text.String())}), ExportedName(promql.PluginSeconds))
	if strings.Count(got, "AdmissionPolicy") != 2 || strings.Contains(got, "NodeRestriction") {
		t.Error(got)
	}
}

// TestExportedFamilies: each is read, and no name is part of another, as texts are
// renamed by them.
func TestExportedFamilies(t *testing.T) {
	all := Exported()
	for _, name := range all {
		if !concerns([]byte(name)) {
			t.Errorf("%s is not read", name)
		}
		for _, other := range all {
			if other != name && strings.Contains(other, name) {
				t.Errorf("%s is part of %s", name, other)
			}
		}
	}
}
