package operator

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// PolicyReports is the API of the policy report that is written.
type PolicyReports string

// The APIs of policy reports. Their results have the same fields.
const (
	NoPolicyReports PolicyReports = "off"
	OpenReports     PolicyReports = "openreports"
	WGPolicy        PolicyReports = "wgpolicy"
)

// policyReports are the objects that are written, by API. The source of a
// ClusterPolicyReport stands in its results alone.
var policyReports = map[PolicyReports]target{
	OpenReports: {
		GroupVersionResource: schema.GroupVersionResource{Group: "openreports.io", Version: "v1alpha1", Resource: "clusterreports"},
		kind:                 "ClusterReport",
		name:                 manager,
		content:              map[string]any{"source": manager},
	},
	WGPolicy: {
		GroupVersionResource: schema.GroupVersionResource{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "clusterpolicyreports"},
		kind:                 "ClusterPolicyReport",
		name:                 manager,
	},
}

// The bounds of a policy report: etcd takes objects of 1.5 MiB.
const (
	maxResults = 500
	maxFix     = 800
)

const resultCategory = "Admission and conversion webhooks"

// results are the findings as results of a policy report, the worst first. How many more
// there are is stated in the last one.
func results(r *classify.Report) []any {
	out, shown := []any{}, r.Findings[:min(maxResults, len(r.Findings))]
	uids := uidsOf(r)
	for _, f := range shown {
		out = append(out, resultOf(f, uids[f.Webhook]))
	}
	if more := len(r.Findings) - len(shown); more > 0 {
		out = append(out, map[string]any{
			"source": manager, "policy": manager, "category": resultCategory, "severity": "info", "result": "skip",
			"message": fmt.Sprintf("%d more findings, none of them worse, are left out; webhook-auditor audit lists all", more),
		})
	}
	return out
}

// resultOf is a result of both APIs, on the object that registers the webhook. It has no
// timestamp: one that is written anew would change with each restart.
func resultOf(f *classify.Finding, uid string) map[string]any {
	version, kind := f.Webhook.Type.RegisteredBy().ToAPIVersionAndKind()
	subject := map[string]any{"apiVersion": version, "kind": kind, "name": f.Webhook.Configuration}
	if uid != "" {
		subject["uid"] = uid
	}
	properties := map[string]any{"webhook": f.Webhook.Name, "type": string(f.Webhook.Type), "runbook": report.RunbookURL(f.Check.Name)}
	if f.Fix != "" {
		properties["fix"] = text.Shorten(f.Fix, maxFix)
	}
	if f.Resource != (inventory.Resource{}) {
		properties["resource"] = f.Resource.String()
	}
	outcome := outcomeOf(f)
	return map[string]any{
		"source": manager, "policy": f.Check.Name, "category": resultCategory, "severity": severities[f.Severity],
		"result": outcome, "scored": outcome == "fail",
		"message":   text.Shorten(fmt.Sprintf("%s %s %s", f.Webhook.Type.Noun(), f.Webhook.Name, f.Message), maxMessage),
		"resources": []any{subject}, "properties": properties,
	}
}

// severities are those of policy reports.
var severities = map[classify.Severity]string{classify.Critical: "critical", classify.Warning: "medium", classify.Info: "info"}

// outcomeOf is "warn" where it is no failure, and "skip" where a user
// acknowledged it.
func outcomeOf(f *classify.Finding) string {
	switch {
	case f.Acknowledged:
		return "skip"
	case f.Severity == classify.Critical:
		return "fail"
	}
	return "warn"
}

// summary counts all findings, those that are left out as well.
func summary(r *classify.Report) map[string]any {
	t := r.Totals()
	return map[string]any{
		"pass": int64(0), "error": int64(0),
		"fail": int64(t.Critical),
		"warn": int64(t.Warning + t.Info),
		"skip": int64(t.Acknowledged),
	}
}
