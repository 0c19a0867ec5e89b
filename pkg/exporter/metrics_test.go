package exporter

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	collectorversion "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

func current(r *classify.Report) func() *classify.Report {
	return func() *classify.Report { return r }
}

// authority is a bundle of certificates with the expiries.
func authority(notAfter ...time.Time) *inventory.Authority {
	a := &inventory.Authority{}
	for _, expiry := range notAfter {
		a.Certificates = append(a.Certificates, inventory.Certificate{NotAfter: expiry})
		if expiry.After(a.NotAfter) {
			a.NotAfter = expiry
		}
	}
	return a
}

// exposed returns the families as /metrics shows them, without HELP and TYPE.
func exposed(t *testing.T, r *classify.Report, names ...string) string {
	t.Helper()
	full := make([]string, len(names))
	for i, n := range names {
		full[i] = Prefix + n
	}
	text := must.Get(testutil.GatherAndFormat(collector{current(r), Families, newRegistry()}, expfmt.TypeTextPlain, full...))(t)
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			out.WriteString(line)
		}
	}
	return out.String()
}

func TestFamilies(t *testing.T) {
	r := reporttest.Report()
	r.Profiles[2].Webhook.Backend.Authority = authority(reporttest.Taken.Add(time.Hour), reporttest.Taken.Add(48*time.Hour), reporttest.Taken.Add(24*time.Hour))
	r.Snapshot.WatchErrors = map[inventory.Resource]int64{{Name: "services"}: 0, {Group: "apiextensions.k8s.io", Name: "customresourcedefinitions"}: 2}
	var all []string
	for _, f := range Families {
		all = append(all, f.Name)
	}
	golden.Compare(t, "metrics.txt", []byte(exposed(t, r, append(all, seriesDropped.Name)...)))
}

// TestContract: what rules, boards and scripts rely on. A name that goes from here
// breaks a user.
func TestContract(t *testing.T) {
	want := map[string][]string{
		"policy_info":                                             {"type", "name", "failure_policy", "param_kind", "bound", "owner"},
		"webhook_info":                                            {"type", "configuration", "name", "failure_policy", "match_policy", "backend", "service_namespace", "service_name", "approved", "owner"},
		"webhook_timeout_seconds":                                 {"type", "configuration", "name"},
		"webhook_latency_threshold_seconds":                       {"type", "name", "service_namespace"},
		"webhook_failure_impact":                                  {"type", "name", "service_namespace", "impact"},
		"webhook_reach":                                           {"type", "configuration", "name", "class", "group", "resource"},
		"webhook_reached_resources":                               {"type", "configuration", "name", "class"},
		"webhook_backend_ready":                                   {"type", "configuration", "name"},
		"webhook_ca_bundle_not_after_timestamp_seconds":           {"type", "configuration", "name"},
		"webhook_probe_success":                                   {"type", "configuration", "name"},
		"webhook_probe_duration_seconds":                          {"type", "configuration", "name"},
		"webhook_serving_certificate_not_after_timestamp_seconds": {"type", "configuration", "name"},
		"webhook_configuration_changed_timestamp_seconds":         {"type", "configuration"},
		"finding":                            {"check", "severity", "type", "configuration", "name", "group", "resource"},
		"findings":                           {"severity", "acknowledged"},
		"admission_budget_seconds":           {"group", "resource", "operation"},
		"condition":                          {"condition", "status", "reason"},
		"snapshot_timestamp_seconds":         nil,
		"watch_errors_total":                 {"group", "resource"},
		"resource_version_regressions_total": nil,
	}
	got := map[string][]string{}
	for _, f := range Families {
		got[f.Name] = f.Labels
	}
	for name, labels := range want {
		if !slices.Equal(got[name], labels) {
			t.Errorf("labels of %s are %q, want %q", name, got[name], labels)
		}
	}
	for name, labels := range got {
		if _, promised := want[name]; !promised {
			t.Errorf("%s is not promised to users: add %q: %#v to want in pkg/exporter/metrics_test.go", name, name, labels)
		}
		for _, reserved := range []string{"namespace", "service", "pod"} {
			if slices.Contains(labels, reserved) {
				t.Errorf("%s has a label %q, which scrape configurations overwrite", name, reserved)
			}
		}
	}
}

func TestLint(t *testing.T) {
	r := reporttest.Report()
	r.Profiles[2].Webhook.Backend.Authority = authority(reporttest.Taken)
	duration := newOwn().Duration
	duration.Observe(.001)
	problems := must.Get(testutil.GatherAndLint(collector{current(r), Families, newRegistry(duration, collectorversion.NewCollector(program))}))(t)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// A webhook's name is unique within one configuration only, and the API server
// has no more of it. Duplicate series would fail the scrape of everything.
func TestSameNameInTwoConfigurations(t *testing.T) {
	shared := func(configuration string, b inventory.Backend) *inventory.Webhook {
		return reporttest.Webhook(inventory.Ref{Type: inventory.Mutating, Configuration: configuration, Name: "mpod.kb.io"}, b)
	}
	open := shared("kueue", reporttest.Service("kueue", "webhook"))
	open.FailurePolicy = admissionv1.Ignore
	url := inventory.Backend{Kind: inventory.BackendURL, URL: "https://example.com"}
	for _, tc := range []struct {
		name     string
		profiles []*classify.Profile
		want     string
	}{
		{"disagree", []*classify.Profile{
			{Webhook: open, Threshold: 1},
			{Webhook: shared("jobset", reporttest.Service("jobset", "webhook")), Threshold: 0.5},
		}, `webhook_auditor_webhook_failure_impact{impact="closed",name="mpod.kb.io",service_namespace="",type="admit"} 1
webhook_auditor_webhook_latency_threshold_seconds{name="mpod.kb.io",service_namespace="",type="admit"} 0.5
`},
		{"agree", []*classify.Profile{
			{Webhook: open, Threshold: 0.5},
			{Webhook: shared("jobset", reporttest.Service("kueue", "other")), Threshold: 1},
		}, `webhook_auditor_webhook_failure_impact{impact="closed",name="mpod.kb.io",service_namespace="kueue",type="admit"} 1
webhook_auditor_webhook_latency_threshold_seconds{name="mpod.kb.io",service_namespace="kueue",type="admit"} 0.5
`},
		{"one is a URL", []*classify.Profile{
			{Webhook: open, Threshold: 1},
			{Webhook: shared("jobset", url), Threshold: 1},
			{Webhook: shared("third", reporttest.Service("kueue", "webhook")), Threshold: 1},
		}, `webhook_auditor_webhook_failure_impact{impact="closed",name="mpod.kb.io",service_namespace="",type="admit"} 1
webhook_auditor_webhook_latency_threshold_seconds{name="mpod.kb.io",service_namespace="",type="admit"} 1
`},
		{
			"the same twice",
			[]*classify.Profile{{Webhook: open, Threshold: 1}, {Webhook: open, Threshold: 1}},
			`webhook_auditor_webhook_failure_impact{impact="open",name="mpod.kb.io",service_namespace="kueue",type="admit"} 1
webhook_auditor_webhook_latency_threshold_seconds{name="mpod.kb.io",service_namespace="kueue",type="admit"} 1
`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &classify.Report{Snapshot: &inventory.Snapshot{Taken: reporttest.Taken}, Profiles: tc.profiles}
			for _, p := range tc.profiles {
				r.Findings = append(r.Findings, &classify.Finding{Check: reporttest.NoEndpoints, Webhook: p.Ref, Problem: classify.Problem{Severity: classify.Critical}})
			}
			expect.Equal(t, tc.want, exposed(t, r, "webhook_failure_impact", "webhook_latency_threshold_seconds"))
			gatherPedantically(t, r)
		})
	}
}

// gatherPedantically fails the test on what client_golang calls inconsistent.
func gatherPedantically(t *testing.T, r *classify.Report) []*dto.MetricFamily {
	t.Helper()
	return must.Get(prometheus.Gatherers{collector{current(r), Families, newRegistry(newOwn().Duration)}}.Gather())(t)
}

func TestBounds(t *testing.T) {
	r := reporttest.Report()
	for i := range 3 * DefaultMaxSeries {
		f := *r.Findings[i%2]
		f.Webhook.Name = fmt.Sprint(i)
		r.Findings = append(r.Findings, &f)
	}
	open := len(r.Findings) - 1 // One is acknowledged.
	for _, family := range gatherPedantically(t, r) {
		switch name := strings.TrimPrefix(family.GetName(), Prefix); name {
		case "finding":
			if n := len(family.Metric); n != DefaultMaxSeries {
				t.Errorf("got %d series, want the bound %d", n, DefaultMaxSeries)
			}
		case "findings":
			// The first one is acknowledged="false", severity="critical".
			if n := family.Metric[0].GetGauge().GetValue(); n != float64(2+3*DefaultMaxSeries) {
				t.Errorf("the total of critical findings is %v, want it untruncated: %v", n, 2+3*DefaultMaxSeries)
			}
		case "series_dropped":
			checkDropped(t, family, map[string]int{Prefix + "finding": open - DefaultMaxSeries})
		}
	}
}

func checkDropped(t *testing.T, family *dto.MetricFamily, want map[string]int) {
	t.Helper()
	if len(family.Metric) != len(Families) {
		t.Errorf("got %d series of series_dropped, want one per family", len(family.Metric))
	}
	for _, m := range family.Metric {
		of := m.GetLabel()[0].GetValue()
		if got := int(m.GetGauge().GetValue()); got != want[of] {
			t.Errorf("series_dropped of %s is %d, want %d", of, got, want[of])
		}
	}
}

// The class that matters most is not what a bound drops.
func TestBoundKeepsCriticalReach(t *testing.T) {
	r := reporttest.Report()
	many := make([]inventory.Resource, 2*DefaultMaxSeries)
	for i := range many {
		many[i] = inventory.Resource{Name: fmt.Sprint("r", i)}
	}
	r.Profiles[0].ByClass[classify.ClassSensitive] = many
	got := exposed(t, r, "webhook_reach")
	expect.Equal(t, 2, strings.Count(got, `class="critical"`))
	expect.Equal(t, DefaultMaxSeries, strings.Count(got, "\n"))
}

// TestOtherBound: what a flag sets holds for each family, in proportion.
func TestOtherBound(t *testing.T) {
	for _, f := range Bounded(20_000) {
		want := 20_000
		if f.Name == "webhook_reached_resources" {
			want = 80_000
		}
		if f.bound() != want {
			t.Errorf("%s: %d series, want %d", f.Name, f.bound(), want)
		}
	}
}

func TestSnapshotTimestampStandsStillWhileAWatchIsBroken(t *testing.T) {
	r := reporttest.Report()
	r.Snapshot.Current = time.Unix(1000, 0)
	if got, want := exposed(t, r, "snapshot_timestamp_seconds"), Prefix+"snapshot_timestamp_seconds 1000\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// large is a report on so many more webhooks, each with a finding.
func large(webhooks int) *classify.Report {
	r := reporttest.Report()
	profile, finding := r.Profiles[2], r.Findings[3]
	for i := range webhooks {
		p, w, f := *profile, *profile.Webhook, *finding
		w.Name = fmt.Sprintf("w%d.policy.example.com", i)
		p.Webhook, f.Webhook = &w, w.Ref
		r.Profiles, r.Findings = append(r.Profiles, &p), append(r.Findings, &f)
	}
	return r
}

// newOwn are the metrics of a program that evaluates nothing.
func newOwn() *Own { return NewOwn(func() float64 { return 0 }) }

// TestObserved: the series of API servers are gathered beside those of a registry, no more
// than the bound of each family.
func TestObserved(t *testing.T) {
	calls := &dto.MetricFamily{Name: new("webhook_auditor_observed_calls_total"), Help: new("Calls."), Type: dto.MetricType_COUNTER.Enum()}
	for i := range 100 {
		calls.Metric = append(calls.Metric, &dto.Metric{
			Label: []*dto.LabelPair{{Name: new("name"), Value: new(fmt.Sprint(i))}}, Counter: &dto.Counter{Value: new(float64(i))},
		})
	}
	observed := NewObserved(2, func() []*dto.MetricFamily { return append(ObservedServers(1, 3), calls) })
	families := must.Get(prometheus.Gatherers{prometheus.NewPedanticRegistry(), observed}.Gather())(t)
	var got strings.Builder
	for _, f := range families {
		m := f.Metric[len(f.Metric)-1]
		got.WriteString(fmt.Sprintf("%s %s %d %g\n", f.GetName(), f.GetType(), len(f.Metric), m.GetCounter().GetValue()+m.GetGauge().GetValue()))
	}
	const want = "webhook_auditor_apiservers GAUGE 1 3\nwebhook_auditor_observed_apiservers GAUGE 1 1\nwebhook_auditor_observed_calls_total COUNTER 16 "
	if len(got.String()) < len(want) || got.String()[:len(want)] != want {
		t.Errorf("got\n%swant\n%s…", got.String(), want)
	}
}

// catchAll is a configuration whose webhook, by one rule or by one for each of the
// resources, is called for all of them.
func catchAll(name string, resources ...string) *admissionv1.ValidatingWebhookConfiguration {
	w := admissionv1.ValidatingWebhook{Name: "all." + name + ".example.com", ClientConfig: kubetest.Client("gone", name)}
	for _, resource := range resources {
		w.Rules = append(w.Rules, kubetest.Rule("*", resource))
	}
	return kubetest.Validating(name, w)
}

// seriesOf counts the series of one configuration in a cluster with n resources.
func seriesOf(t *testing.T, c *admissionv1.ValidatingWebhookConfiguration, n int) int {
	t.Helper()
	o := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{c}}
	for i := range n {
		o.Discovered = append(o.Discovered, inventory.Served{
			Resource: inventory.Resource{Group: fmt.Sprintf("g%d.example.com", i%50), Name: fmt.Sprintf("r%d", i)},
			Version:  "v1", Kind: "Kind", Namespaced: true, Verbs: []string{"create", "update", "delete"},
		})
	}
	for _, name := range []string{"pods", "secrets", "services", "leases"} {
		o.Discovered = append(o.Discovered, inventory.Served{Resource: inventory.Resource{Name: name}, Version: "v1", Namespaced: true, Verbs: []string{"create"}})
	}
	r := reporttest.Evaluated(t, o.Snapshot(time.Unix(0, 0)))
	var names []string
	for _, f := range Families {
		names = append(names, f.Name)
	}
	return bytes.Count([]byte(exposed(t, r, names...)), fmt.Appendf(nil, "configuration=%q", c.Name))
}

// TestSeriesOfOneWebhookAreBounded: neither the resources that a cluster serves nor
// the rules of a webhook make it have more series.
func TestSeriesOfOneWebhookAreBounded(t *testing.T) {
	var many []string
	for i := range 500 {
		many = append(many, fmt.Sprintf("r%d", i))
	}
	const most = 200
	for name, resources := range map[string][]string{"everything": {"*/*"}, "one by one": many} {
		t.Run(name, func(t *testing.T) {
			c := catchAll(strings.ReplaceAll(name, " ", "-"), resources...)
			few, all := seriesOf(t, c, 50), seriesOf(t, c, 500)
			if few == 0 || all > few || all > most {
				t.Errorf("%d series with 500 resources, %d with 50, at most %d", all, few, most)
			}
			t.Logf("%d series with 500 resources, %d with 50", all, few)
		})
	}
}

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
