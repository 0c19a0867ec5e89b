package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
)

// SummarySeries is how many series the summary of a cluster has at most.
const SummarySeries = 20

// summaryGroup is what a store of all clusters needs of each: one series of each
// number, three severities, two versions while an auditor is updated, and the worst
// webhooks.
func summaryGroup() Group {
	failed := `sum by (type, name) (rate(` + failedClosed + `[5m]) or rate(` + promql.FailedOpen + `[5m])) or ` + asWebhook(`sum by (crd_name) (rate(`+unconverted+`[5m]))`)
	called := `sum by (type, name) (rate(` + promql.Requests + `[5m])) or ` + asWebhook(`sum by (crd_name) (rate(`+promql.ConversionSeconds+`_count[5m]))`)
	p99 := `histogram_quantile(0.99, sum by (type, name, le) (rate(` + promql.WebhookSeconds + `_bucket[5m]))) or ` +
		asWebhook(`histogram_quantile(0.99, sum by (crd_name, le) (rate(`+promql.ConversionSeconds+`_bucket[5m])))`)
	threshold := `1.001 * max by (type, name) (webhook_auditor_webhook_latency_threshold_seconds)` // a quantile on the edge of a bucket is rounded
	info := `max by (type, configuration, name) (webhook_auditor_webhook_info)`
	return Group{Name: "webhook-auditor-summary", RecordingRules: []RecordingRule{
		{Name: promql.SummaryWebhooks, Expr: `count(` + info + `)`},
		{Name: promql.SummaryFailing, Expr: `count((` + failed + `) > 0) or 0 * count(` + called + `)`},
		{Name: promql.SummarySlow, Expr: `count((` + p99 + `) > on (type, name) ` + threshold + `) or 0 * count(` + called + `)`},
		{Name: promql.SummaryWithoutBackend, Expr: `count(max by (type, configuration, name) (webhook_auditor_webhook_backend_ready) == 0) or 0 * count(` + info + `)`},
		{Name: promql.SummaryFindings, Expr: `max by (severity) (webhook_auditor_findings{acknowledged="false"})`},
		{Name: promql.SummaryTimestamp, Expr: `max(webhook_auditor_snapshot_timestamp_seconds)`},
		{Name: promql.SummaryVersions, Expr: `topk(2, group by (version) (webhook_auditor_build_info))`},
		{Name: promql.SummaryWorstFailing, Expr: `topk(5, clamp_max(((` + failed + `) > 0) / on (type, name) (` + called + `), 1))`},
		{Name: promql.SummaryWorstLatency, Expr: `topk(3, (` + p99 + `) > 0)`},
	}}
}

// telemetry are the series of the summary that name nothing of the cluster's owner:
// what OpenShift's telemetry could send.
var telemetry = []string{promql.SummaryWebhooks, promql.SummaryFailing, promql.SummaryFindings}

// The forms of the summary alone.
const (
	ACM         Form = "acm"          // Advanced Cluster Management, which records it in each cluster
	RemoteWrite Form = "remote-write" // what a Prometheus sends of it
	Telemetry   Form = "telemetry"    // entries of OpenShift's allowlist of telemetry
)

// SummaryForms lists the forms of the summary.
var SummaryForms = []Form{PrometheusRule, RuleFile, Thanos, Mimir, ACM, RemoteWrite, Telemetry}

// RenderSummary returns the summary of a cluster in the form.
func RenderSummary(form Form, o Options) ([]byte, error) {
	if !slices.Contains(SummaryForms, form) {
		return nil, fmt.Errorf("--form=%s: must be one of %q with --fleet-summary", form, SummaryForms)
	}
	if o.Selector != "" {
		return nil, fmt.Errorf("--selector: must be given without --fleet-summary: what is recorded of a selection cannot be distinguished")
	}
	o.compact = form != RuleFile
	groups, err := o.rendered([]Group{summaryGroup()})
	if err != nil {
		return nil, err
	}
	switch form {
	case PrometheusRule:
		return write([]any{o.object(form, groups[0])})
	case ACM:
		return acmAllowlist(groups[0])
	case RemoteWrite:
		return write([]any{relabelling(groups[0])})
	case Telemetry:
		return write([]any{allowed(telemetry)})
	}
	return write([]any{ruleFileOf(form, groups)})
}

// centralForms are those of the rules of a store of all clusters.
var centralForms = []Form{PrometheusRule, RuleFile, Thanos, Mimir}

// RenderCentral returns the rules of a store of all clusters in the form: what no cluster
// can record, as it compares them.
func RenderCentral(form Form, o Options) ([]byte, error) {
	if !slices.Contains(centralForms, form) {
		return nil, fmt.Errorf("--form=%s: must be one of %q with --fleet-central", form, centralForms)
	}
	if o.Selector != "" {
		return nil, fmt.Errorf("--selector: must be given without --fleet-central: what is recorded of a selection cannot be distinguished")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	group := o.centralGroup()
	if form == PrometheusRule {
		return write([]any{o.object(form, group)})
	}
	return write([]any{ruleFileOf(form, []monitoringv1.RuleGroup{group})})
}

// centralGroup compares the clusters of a store. Its expressions read two series of each
// webhook of each cluster, and registrations seldom change, so that they are evaluated
// every two minutes; as they count clusters, they do not group by them.
func (o Options) centralGroup() monitoringv1.RuleGroup {
	label := o.clusterLabel()
	per := func(by, metric string) string { return fmt.Sprintf("max by (%s, %s) (%s)", label, by, metric) }
	out := monitoringv1.RuleGroup{Name: "webhook-auditor-clusters", Interval: duration(o.scale(2 * time.Minute))}
	for _, r := range []RecordingRule{
		{Name: promql.FleetRegistrations, Expr: "count by (" + promql.Variant + ") (" + per(promql.Variant, "webhook_auditor_webhook_info") + ")"},
		{Name: promql.FleetTimeouts, Expr: "count_values by (" + promql.RegisteredAs + `) ("timeout", ` + per(promql.RegisteredAs, "webhook_auditor_webhook_timeout_seconds") + ")"},
		{Name: promql.FleetConfigurations, Expr: "count by (type, configuration) (" + per("type, configuration", "webhook_auditor_webhook_info") + ")"},
	} {
		out.Rules = append(out.Rules, monitoringv1.Rule{Record: r.Name, Expr: intstr.FromString(r.Expr)})
	}
	return out
}

// acmAllowlist is the ConfigMap of what Advanced Cluster Management collects of
// each cluster. It evaluates the expressions there itself.
func acmAllowlist(g monitoringv1.RuleGroup) ([]byte, error) {
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var list struct {
		RecordingRules []rule `json:"recording_rules"`
	}
	for _, r := range g.Rules {
		list.RecordingRules = append(list.RecordingRules, rule{r.Record, r.Expr.String()})
	}
	text, err := yaml.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("writing the allowlist: %w", err)
	}
	return write([]any{configMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "observability-metrics-custom-allowlist", Namespace: "open-cluster-management-observability"},
		Data:       map[string]string{"metrics_list.yaml": string(text)},
	}})
}

// configMap is a ConfigMap of texts.
type configMap struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]string `json:"data"`
}

// relabelling is the part of a remote_write that keeps the summary alone.
func relabelling(g monitoringv1.RuleGroup) any {
	var names []string
	for _, r := range g.Rules {
		names = append(names, r.Record)
	}
	return map[string]any{"write_relabel_configs": []any{
		map[string]any{"source_labels": []string{"__name__"}, "regex": strings.Join(names, "|"), "action": "keep"},
	}}
}

// allowed are the series as matchers of OpenShift's allowlist.
func allowed(names []string) any {
	var matches []string
	for _, name := range names {
		matches = append(matches, `{__name__="`+name+`"}`)
	}
	return map[string]any{"matches": matches}
}
