package operator

import (
	"encoding/json"
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
	maxResults     = 500
	maxResultBytes = 1 << 20
	maxFix         = 2000
)

// results are the findings as results of a policy report, the worst first, as
// many as the bounds allow. What is left out is stated in the last one.
func results(r *classify.Report) ([]any, error) {
	out, size := []any{}, 0
	uids := uidsOf(r.Findings[:min(maxResults, len(r.Findings))], r)
	for i, f := range r.Findings {
		text, err := json.Marshal(resultOf(f, uids[f.Webhook]))
		if err != nil {
			return nil, fmt.Errorf("writing finding %s as a result: %w", f.Check.Name, err)
		}
		size += len(text)
		if i == maxResults || size > maxResultBytes {
			return append(out, omitted(len(r.Findings)-i)), nil
		}
		var content map[string]any
		if err := json.Unmarshal(text, &content); err != nil {
			return nil, fmt.Errorf("writing finding %s as a result: %w", f.Check.Name, err)
		}
		out = append(out, content)
	}
	return out, nil
}

// policyResult is a result of both APIs. It has no timestamp: one that is written
// anew would change with each restart.
type policyResult struct {
	Source     string            `json:"source"`
	Policy     string            `json:"policy"`
	Category   string            `json:"category"`
	Severity   string            `json:"severity"`
	Result     string            `json:"result"`
	Scored     bool              `json:"scored"`
	Message    string            `json:"message"`
	Resources  []policySubject   `json:"resources,omitempty"`
	Properties map[string]string `json:"properties,omitempty"`
}

// policySubject is the object that registers a webhook.
type policySubject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

const resultCategory = "Admission and conversion webhooks"

func resultOf(f *classify.Finding, uid string) policyResult {
	properties := map[string]string{
		"webhook": f.Webhook.Name,
		"type":    string(f.Webhook.Type),
		"runbook": report.RunbookURL(f.Check.Name),
	}
	if f.Fix != "" {
		properties["fix"] = text.Shorten(f.Fix, maxFix)
	}
	if f.Resource != (inventory.Resource{}) {
		properties["resource"] = f.Resource.String()
	}
	version, kind := f.Webhook.Type.RegisteredBy().ToAPIVersionAndKind()
	outcome := outcomeOf(f)
	return policyResult{
		Source:   manager,
		Policy:   f.Check.Name,
		Category: resultCategory,
		Severity: severities[f.Severity],
		Result:   outcome,
		Scored:   outcome == "fail",
		Message:  text.Shorten(fmt.Sprintf("%s %s %s", f.Webhook.Type.Noun(), f.Webhook.Name, f.Message), maxMessage),
		Resources: []policySubject{{
			APIVersion: version,
			Kind:       kind,
			Name:       f.Webhook.Configuration,
			UID:        uid,
		}},
		Properties: properties,
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

// omitted states that results are left out.
func omitted(n int) map[string]any {
	return map[string]any{
		"source": manager, "policy": manager, "category": resultCategory, "severity": "info", "result": "skip",
		"message": fmt.Sprintf("%d more findings, none of them worse, are left out; webhook-auditor audit lists all", n),
	}
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
