package dashboards

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

const inventory = `
  webhook_auditor_webhook_info{cluster="north",type="admit",configuration="mesh",name="sidecar.example.com",service_namespace="mesh",service_name="injector",owner="helm/mesh"} 1x20
  webhook_auditor_webhook_info{cluster="south",type="admit",configuration="mesh",name="sidecar.example.com",service_namespace="mesh",service_name="injector",owner="helm/mesh"} 1x20
  webhook_auditor_webhook_reach{cluster="north",type="admit",configuration="mesh",name="sidecar.example.com",class="critical",group="",resource="pods"} 1x20
  webhook_auditor_webhook_reached_resources{cluster="north",type="admit",configuration="mesh",name="sidecar.example.com",class="critical"} 1x20
`

// TestUnhealthyWebhooks evaluates the first table: each unhealthy webhook has one row, in
// its own cluster and with what to do; without any the table has a row for that,
// and without a measurement it is empty.
func TestUnhealthyWebhooks(t *testing.T) {
	const down = `
  webhook_auditor_webhook_backend_ready{cluster="north",type="admit",configuration="mesh",name="sidecar.example.com"} 0x20
  webhook_auditor_webhook_backend_ready{cluster="south",type="admit",configuration="mesh",name="sidecar.example.com"} 1x20
`
	const failing = `
  apiserver_admission_webhook_request_total{cluster="north",type="admit",name="sidecar.example.com",code="503"} 0+60x20
  apiserver_admission_webhook_rejection_count{cluster="north",type="admit",name="sidecar.example.com",error_type="calling_webhook_error"} 0+60x20
`
	const missing = `
  webhook_auditor_finding{cluster="north",type="admit",configuration="mesh",name="sidecar.example.com",check="service-missing",severity="critical"} 1x20
`
	const command = "kubectl get deploy,svc,endpointslices,pods -n mesh"
	for _, test := range []struct {
		name, series string
		want         []map[string]string
	}{
		{"nothing measured", "", []map[string]string{{"problem": "Unknown: nothing is exported", "owner": "", "rank": ""}}},
		{"healthy", inventory, []map[string]string{{"problem": "No unhealthy webhook", "runbook": "dashboards/README.md"}}},
		{"down", inventory + down, []map[string]string{{
			"problem": "No backend is ready", "cluster": "north", "blocks": "pods", "owner": "helm/mesh", "do": command,
		}}},
		{"Service missing", inventory + down + missing, []map[string]string{{
			"problem": "Service does not exist", "do": command, "runbook": "pkg/classify/service-missing.md",
		}}},
		{"failing, its Service missing", inventory + failing + missing, []map[string]string{{
			"problem": "Service does not exist, requests are refused", "do": command, "runbook": "pkg/classify/service-missing.md",
		}}},
		{"failing, and a finding on what may come", inventory + failing + strings.ReplaceAll(missing, "service-missing", "virtual-resource"), []map[string]string{{
			"problem": "Calls fail, requests are refused", "do": command, "runbook": "rules/runbooks/WebhookFailingClosed.md",
		}}},
		{"two findings", inventory + down + missing + strings.NewReplacer("service-missing", "backend-unreachable", "critical", "warning").Replace(missing), []map[string]string{{
			"problem": "Service does not exist",
		}}},
		{"down and failing", inventory + down + failing, []map[string]string{{
			"problem": "Calls fail, requests are refused", "cluster": "north", "do": command, "rank": "1", "failed": "1", "since": "-", "p99": "-",
		}}},
		{"failing, not in the inventory", failing, []map[string]string{{
			"problem": "Calls fail, requests are refused", "owner": "unknown", "blocks": "unknown",
		}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := rows(t, test.series, unhealthyPanel().Queries[0].Expr)
			if len(got) != len(test.want) {
				t.Fatalf("%d rows: %v", len(got), got)
			}
			for i, want := range test.want {
				for label, value := range want {
					if got[i][label] != value {
						t.Errorf("%s is %q, not %q", label, got[i][label], value)
					}
				}
			}
		})
	}
}

// TestFirstCommands: the tables of findings have the first command of each, and the check
// once more for its message.
func TestFirstCommands(t *testing.T) {
	const webhook = `cluster="north",type="admit",configuration="mesh",name="sidecar.example.com"`
	for check, want := range map[string]string{
		"service-missing":      "kubectl get deploy,svc,endpointslices,pods -n mesh",
		"service-port-missing": "kubectl get deploy,svc,endpointslices,pods -n mesh",
		"no-ready-endpoints":   "kubectl get deploy,svc,endpointslices,pods -n mesh",
		"long-timeout":         "kubectl get mutatingwebhookconfiguration mesh -o yaml",
	} {
		series := inventory + "  webhook_auditor_finding{" + webhook + `,check="` + check + `",severity="critical"} 1x20` + "\n"
		for name, expr := range map[string]string{"webhooks": unhealthyPanels()[2].Queries[0].Expr, "webhook": findingsPanel().Queries[0].Expr} {
			got := rows(t, series, strings.NewReplacer(`"$type"`, `"admit"`, `"$name"`, `"sidecar.example.com"`, "$configuration", ".*").Replace(expr))
			if len(got) != 1 || got[0]["do"] != want || got[0]["message"] != check {
				t.Errorf("%s: %s: %v, want one row with %s", name, check, got, want)
			}
		}
	}
}

// TestIntercepts: the first table names one of the critical resources that a webhook
// intercepts, and how many they are.
func TestIntercepts(t *testing.T) {
	const labels = `{cluster="north",type="admit",configuration="mesh",name="sidecar.example.com"`
	for want, resources := range map[string][]string{"nothing critical": nil, "a.apps": {"a"}, "3 critical, as a.apps": {"a", "a", "a"}} {
		series := "\n  webhook_auditor_webhook_info" + labels + "} 1x20\n  webhook_auditor_webhook_backend_ready" + labels + "} 0x20"
		series += fmt.Sprintf("\n  webhook_auditor_webhook_reached_resources%s,class=\"critical\"} %dx20", labels, len(resources))
		if len(resources) > 0 {
			series += "\n  webhook_auditor_webhook_reach" + labels + ",class=\"critical\",group=\"apps\",resource=\"a\"} 1x20"
		}
		got := rows(t, series+"\n", unhealthyPanel().Queries[0].Expr)
		if len(got) != 1 || got[0]["blocks"] != want {
			t.Errorf("%v, want one row that intercepts %s", got, want)
		}
	}
}

// everything stands in for the choice All.
var everything = strings.NewReplacer("$__rate_interval", "5m", "$__range", "15m", "$cluster", ".*", "$type", ".*", "$name", ".*")

// rows evaluates the expression after 20 minutes, and returns the labels.
func rows(t *testing.T, series, expr string) []map[string]string {
	t.Helper()
	var out []map[string]string
	for _, s := range samples(t, series, expr) {
		out = append(out, s.Metric.Map())
	}
	return out
}

func values(t *testing.T, series, expr string) []float64 {
	t.Helper()
	var out []float64
	for _, s := range samples(t, series, expr) {
		out = append(out, s.F)
	}
	return out
}

// samples are the series of the expression after 20 minutes, the largest first.
func samples(t *testing.T, series, expr string) promql.Vector {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 1m\n"+strings.ReplaceAll(strings.TrimPrefix(series, "\n"), "\n\n", "\n"))
	t.Cleanup(func() { storage.Close() })
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	query := must.Get(engine.NewInstantQuery(t.Context(), storage, nil, everything.Replace(expr), time.Unix(20*60, 0)))(t)
	t.Cleanup(query.Close)
	result := query.Exec(t.Context())
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	vector := must.Get(result.Vector())(t)
	slices.SortFunc(vector, func(a, b promql.Sample) int { return int(b.F - a.F) })
	return vector
}

// TestMessages: what the board says of each check fits in two lines, is no beginning of the summary
// that ends within it, and none is written anew that would fit as it is.
func TestMessages(t *testing.T) {
	known := map[string]bool{}
	for i, text := range summaries() {
		c := classify.Checks[i]
		known[c.Name] = true
		summary := strings.TrimSuffix(c.Summary, ".")
		if len(text.Text) > twoLines {
			t.Errorf("%s: %d letters, want %d at most: %s", c.Name, len(text.Text), twoLines, text.Text)
		}
		if text.Text != summary && text.Text != c.Cause && strings.HasPrefix(summary, text.Text) {
			t.Errorf("%s: a piece of its summary: %s", c.Name, text.Text)
		}
		if shortened[c.Name] != "" && len(summary) <= twoLines && c.Cause == "" {
			t.Errorf("%s: its summary is short enough: %s", c.Name, summary)
		}
	}
	for name := range shortened {
		if !known[name] {
			t.Errorf("there is no check %s", name)
		}
	}
}
