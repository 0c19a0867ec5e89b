package rules

import (
	"errors"
	"fmt"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
)

// SummarySeries is how many series the summary of a cluster has at most.
const SummarySeries = 20

// summaryGroup is what a store of all clusters needs of each: one series of each
// number, three severities, two versions while an auditor is updated, and the worst
// webhooks.
func summaryGroup() Group {
	failed := `sum by (type, name) (increase(` + failedClosed + `[10m]) or increase(` + promql.FailedOpen + `[10m])) or ` + asWebhook(`sum by (crd_name) (increase(`+unconverted+`[10m]))`)
	called := `sum by (type, name) (increase(` + promql.Requests + `[10m])) or ` + asWebhook(`sum by (crd_name) (increase(`+promql.ConversionSeconds+`_count[10m]))`)
	p99 := `histogram_quantile(0.99, sum by (type, name, le) (rate(` + promql.WebhookSeconds + `_bucket[5m]))) or ` +
		asWebhook(`histogram_quantile(0.99, sum by (crd_name, le) (rate(`+promql.ConversionSeconds+`_bucket[5m])))`)
	threshold := `1.001 * max by (type, name) (webhook_auditor_webhook_latency_threshold_seconds)` // a quantile on the edge of a bucket is rounded
	info := `max by (type, configuration, name) (webhook_auditor_webhook_info)`
	return Group{Name: "webhook-auditor-summary", RecordingRules: []RecordingRule{
		{Name: promql.SummaryWebhooks, Asks: "How many webhooks are there?", Expr: `count(` + info + `)`},
		{Name: promql.SummaryFailing, Asks: "Of how many do the alerts report that calls fail?", Expr: `
			count(group by (type, name) (` + worrying + ` or ` + unanswered + ` or ` + unansweredDay + `) and on (type, name) ` + backends + `) or 0 * ` + watching},
		{Name: promql.SummarySlow, Asks: "How many are slow?", Expr: `count((` + p99 + `) > on (type, name) ` + threshold + `) or 0 * count(` + called + `)`},
		{Name: promql.SummaryWithoutBackend, Asks: "How many have no ready backend?", Expr: `count(max by (type, configuration, name) (webhook_auditor_webhook_backend_ready) == 0) or 0 * count(` + info + `)`},
		{Name: promql.SummaryFindings, Asks: "How many findings are there, by severity?", Expr: `max by (severity) (webhook_auditor_findings{acknowledged="false"})`},
		{Name: promql.SummaryTimestamp, Asks: "Of when is the auditor's view?", Expr: `max(webhook_auditor_snapshot_timestamp_seconds)`},
		{Name: promql.SummaryVersions, Asks: "Which versions run?", Expr: `topk(2, group by (version) (webhook_auditor_build_info))`},
		{Name: promql.SummaryWorstFailing, Asks: "Which five webhooks fail most?", Expr: `topk(5, clamp_max(((` + failed + `) > 0) / on (type, name) (` + called + `), 1))`},
		{Name: promql.SummaryWorstLatency, Asks: "Which three are slowest?", Expr: `topk(3, (` + p99 + `) > 0)`},
	}}
}

// RenderSummary returns the summary of a cluster in the form.
func RenderSummary(form Form, o Options) ([]byte, error) {
	printed := o.available([]Group{summaryGroup()})
	groups, err := o.rendered(printed)
	if err = errors.Join(checkFleet("--fleet-summary", form, o), err, o.checkUse(form, printed)); err != nil {
		return nil, err
	}
	return o.written(form, groups)
}

// checkFleet refuses what rules of many clusters have no use for.
func checkFleet(flag string, form Form, o Options) error {
	switch {
	case form == Markdown:
		return fmt.Errorf("--form=%s: must be one of %q with %s", form, []Form{PrometheusRule, RuleFile, Thanos, Mimir}, flag)
	case o.Selector != "":
		return fmt.Errorf("--selector: must be given without %s: what is recorded of a selection cannot be distinguished", flag)
	}
	return nil
}

// RenderCentral returns the rules of a store of all clusters in the form: what no cluster
// can record, as it compares them.
func RenderCentral(form Form, o Options) ([]byte, error) {
	if err := errors.Join(checkFleet("--fleet-central", form, o), o.check(nil), o.checkUse(form, nil)); err != nil {
		return nil, err
	}
	return o.written(form, []group{o.centralGroup()})
}

// centralGroup compares the clusters of a store. Its expressions read two series of each
// webhook of each cluster, and registrations seldom change, so that they are evaluated
// every two minutes; as they count clusters, they do not group by them.
func (o Options) centralGroup() group {
	label := o.clusterLabel()
	per := func(labelNames, metric string) string {
		return fmt.Sprintf("max by (%s, %s) (%s)", label, labelNames, metric)
	}
	out := group{RuleGroup: monitoringv1.RuleGroup{Name: "webhook-auditor-clusters", Interval: duration(2 * time.Minute)}}
	for _, r := range []RecordingRule{
		{Name: promql.FleetRegistrations, Asks: "In how many clusters is a webhook registered so?", Expr: "count by (" + promql.Variant + ") (" + per(promql.Variant, "webhook_auditor_webhook_info") + ")"},
		{Name: promql.FleetTimeouts, Asks: "And with which timeout?", Expr: "count_values by (" + promql.RegisteredAs + `) ("timeout", ` + per(promql.RegisteredAs, "webhook_auditor_webhook_timeout_seconds") + ")"},
		{Name: promql.FleetConfigurations, Asks: "In how many clusters is there a configuration?", Expr: "count by (type, configuration) (" + per("type, configuration", "webhook_auditor_webhook_info") + ")"},
	} {
		out.add(r.Asks, monitoringv1.Rule{Record: r.Name, Expr: intstr.FromString(r.Expr)})
	}
	return out
}
