// Package rules holds the alerts: a table of signal alerts over the API
// server's own series, and alerts on findings, derived from the checks. It
// renders them as Prometheus, prometheus-operator and OpenShift take them.
package rules

import (
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// Alert is one alert. All that is said of it anywhere is derived from this
// literal and from its runbook.
type Alert struct {
	Name     string
	Severity classify.Severity
	// Enhancement is the severity that OpenShift's enhancement gives to the
	// alert, where it differs from ours.
	Enhancement classify.Severity
	// For is how long Expr must hold before the alert fires.
	For time.Duration
	// Expr is PromQL. Windows are those of production and no label tells
	// clusters apart: Options change both in the parsed expression.
	Expr string
	// Backend selects the auditor's series that tell where the backend of the
	// webhook is; a value "$name" stands for the alert's label name. It is "" where
	// the alert is about no single webhook.
	Backend string
	// Summary is one line; Description alone must be enough to act on. Both
	// are Prometheus templates. Where there is a Backend, $namespace is its
	// namespace in the Description, and $registered are the configurations that
	// register the webhook, each after a space.
	Summary, Description string
	// Runbook is the path of the runbook in the repository; "" stands for the
	// one that has the alert's name.
	Runbook string
	// Labels are added to the alert; they tell alerts that share a name apart.
	Labels map[string]string
}

// Shared is an expression that several alerts of a group read. It is recorded
// under its name, or stands in their expressions where nothing can be recorded.
type Shared struct {
	Name, Expr string
}

// Group is a group of alerts. Prometheus evaluates one after the other, after
// what they share.
type Group struct {
	Name   string
	Shared []Shared
	Alerts []Alert
}

// inlined returns the group with all that is shared written out.
func (g Group) inlined() Group {
	out := Group{Name: g.Name}
	for _, a := range g.Alerts {
		for _, s := range g.Shared {
			a.Expr = strings.ReplaceAll(a.Expr, s.Name, "("+s.Expr+")")
		}
		out.Alerts = append(out.Alerts, a)
	}
	return out
}

// Groups returns all alerts. Prometheus evaluates the groups at the same time:
// what takes long, the latencies, delays nothing else.
func Groups() []Group {
	return []Group{
		{Name: "webhook-auditor-failures", Shared: failureShared, Alerts: failureAlerts},
		{Name: "webhook-auditor-latency", Shared: latencyShared, Alerts: latencyAlerts},
		{Name: "webhook-auditor-admission", Shared: admissionShared, Alerts: admissionAlerts},
		{Name: "webhook-auditor-conversion", Alerts: conversionAlerts},
		{Name: "webhook-auditor-resources", Alerts: resourceAlerts},
		{Name: "webhook-auditor-findings", Alerts: findingAlerts(classify.Checks)},
		{Name: "webhook-auditor-self", Shared: selfShared, Alerts: selfAlerts},
	}
}

// runbook returns the path of the alert's runbook in the repository.
func (a Alert) runbook() string {
	if a.Runbook != "" {
		return a.Runbook
	}
	return "rules/runbooks/" + a.Name + ".md"
}
