// Package rules holds the alerts: a table of signal alerts over the API
// server's own series, and alerts on findings, derived from the checks. It
// renders them as Prometheus, prometheus-operator and OpenShift take them.
package rules

import (
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// Alert is one alert. Everything about it is derived from this
// literal and from its runbook.
type Alert struct {
	Name string
	// Asks is what Expr asks, in one sentence.
	Asks     string
	Severity classify.Severity
	// Enhancement is the severity by OpenShift's enhancement, where it differs.
	Enhancement classify.Severity
	// For is how long Expr must hold before the alert fires, KeepFiring how long
	// the alert goes on after Expr no longer holds: groupInterval at least.
	For, KeepFiring time.Duration
	// Expr is PromQL, with Numbers as "$Name". Windows are those of production and no label names
	// the cluster: Options change both in the parsed expression.
	// No label of the result may change while the cause of the alert lasts.
	Expr string
	// Summary is one line; Description alone must be enough to act on. Both
	// are Prometheus templates.
	Summary, Description string
	// Variables is a template of what is pasted before the commands of the runbook, if it has any.
	Variables string
	// Checks are those whose findings the alert is about, if it is about findings. Their
	// runbooks are its runbooks; others have one of their own.
	Checks []*classify.Check
}

// groupInterval is that of alertmanager.yaml: what joins a group is notified before it is over.
const groupInterval = 3 * time.Minute

func (a Alert) keepFiring() time.Duration { return max(a.KeepFiring, groupInterval) }

// endedTwice selects the series of a record that have ended twice in 75 minutes.
func endedTwice(record string) string {
	return strings.ReplaceAll(`resets((RECORD ^ 0 or 0 * last_over_time(RECORD[75m]))[75m:1m]) >= 2`, "RECORD", record)
}

// RecordingRule is an expression that is recorded under its name, as
// level:metric:operations.
type RecordingRule struct {
	// Asks is what Expr asks, in one sentence.
	Name, Asks, Expr string
	// Labels are added to the record; they distinguish records that share a name.
	Labels map[string]string
}

// Group is a group of rules. Prometheus evaluates one after the other: the
// records, in their order, then the alerts.
type Group struct {
	Name string
	// Interval is how often the group is evaluated; 0 stands for as often as
	// Prometheus evaluates by default. Other groups read what is recorded as it
	// was last, which Prometheus looks for in the last five minutes: with what they
	// read, a group is evaluated every three at most.
	Interval       time.Duration
	RecordingRules []RecordingRule
	Alerts         []Alert
}

// Groups returns all rules. Prometheus evaluates the groups at the same time, so
// what a group reads of those before it may be one evaluation old.
func Groups() []Group {
	return []Group{
		historyGroup,
		latencyGroup,
		callsGroup,
		{Name: resourcesGroup, Alerts: resourceAlerts},
		policiesGroup,
		{
			Name: "webhook-auditor-findings", RecordingRules: findingRecords,
			Alerts: append(findingAlerts(classify.Checks), expiresSoon(classify.Checks)),
		},
		{Name: selfGroup, Alerts: selfAlerts},
		inputsGroup(),
	}
}

// alertNames are those of the alerts of the groups.
func alertNames(groups []Group) []string {
	var out []string
	for _, g := range groups {
		out = append(out, lists.Map(g.Alerts, func(a Alert) string { return a.Name })...)
	}
	return out
}

// runbooks are the paths of the alert's runbooks in the repository.
func (a Alert) runbooks() []string {
	if len(a.Checks) == 0 {
		return []string{a.runbook()}
	}
	return lists.Map(a.Checks, func(c *classify.Check) string { return "pkg/classify/" + c.Name + ".md" })
}

// runbook is the path of the alert's runbook, as a template.
func (a Alert) runbook() string {
	if len(a.Checks) == 0 {
		return "rules/runbooks/" + a.Name + ".md"
	}
	return "pkg/classify/{{ $labels.check }}.md"
}
