// Package rules holds the alerts: a table of signal alerts over the API
// server's own series, and alerts on findings, derived from the checks. It
// renders them as Prometheus, prometheus-operator and OpenShift take them.
package rules

import (
	"cmp"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// Alert is one alert. Everything about it is derived from this
// literal and from its runbook.
type Alert struct {
	Name     string
	Severity classify.Severity
	// Enhancement is how OpenShift's enhancement differs; the zero value stands
	// for no difference.
	Enhancement Enhancement
	// For is how long Expr must hold before the alert fires, KeepFiring how long
	// the alert goes on after Expr no longer holds.
	For, KeepFiring time.Duration
	// Expr is PromQL. Windows are those of production and no label names the
	// cluster: Options change both in the parsed expression. No label of the
	// result may change while the cause of the alert lasts.
	Expr string
	// Threshold replaces "$threshold" in Expr; 0 stands for an alert without one.
	Threshold float64
	// Summary is one line; Description alone must be enough to act on. Both
	// are Prometheus templates.
	Summary, Description string
	// Runbook is the path of the runbook in the repository; "" stands for the
	// one that has the alert's name.
	Runbook string
	// Labels are added to the alert; they distinguish alerts that share a name.
	Labels map[string]string
}

// Enhancement is the severity and the threshold of an alert by OpenShift's
// enhancement, each where it differs from ours.
type Enhancement struct {
	Severity  classify.Severity
	Threshold float64
}

// RecordingRule is an expression that is recorded under its name, as
// level:metric:operations. Where nothing can be recorded, Inline stands in the
// expressions that read it, or Expr where Inline is "".
type RecordingRule struct {
	Name, Expr, Inline string
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

// inlined returns the groups that have alerts, with all records written out. Each
// alert then reads all for itself, so they are evaluated every minute at most.
func inlined(groups []Group) []Group {
	var records []RecordingRule
	for _, g := range groups {
		records = append(records, g.RecordingRules...)
	}
	var out []Group
	for _, g := range groups {
		written := Group{Name: g.Name, Interval: max(g.Interval, time.Minute)}
		for _, a := range g.Alerts {
			a.Expr = writtenOut(a.Expr, records)
			written.Alerts = append(written.Alerts, a)
		}
		if len(written.Alerts) > 0 {
			out = append(out, written)
		}
	}
	return out
}

// writtenOut replaces the names of records, and those in what replaces them. What
// stands for a record reads no record that reads it.
func writtenOut(expr string, records []RecordingRule) string {
	before := ""
	for before != expr {
		before = expr
		for _, r := range records {
			if strings.Contains(expr, r.Name) {
				expr = strings.ReplaceAll(expr, r.Name, written(r.Name, records))
			}
		}
	}
	return expr
}

// written is what stands for the records of a name, which are one but for those
// that are distinguished by their labels.
func written(name string, records []RecordingRule) string {
	var operands []string
	for _, r := range records {
		if r.Name == name {
			operands = append(operands, r.written())
		}
	}
	return strings.Join(operands, " or ")
}

// written is what stands for the record where nothing can be recorded: a series,
// which matchers may follow, or an expression.
func (r RecordingRule) written() string {
	out := cmp.Or(r.Inline, r.Expr)
	if model.LegacyValidation.IsValidMetricName(out) {
		return out
	}
	return "(" + out + ")"
}

// Groups returns all rules. Prometheus evaluates the groups at the same time, so
// what a group reads of those before it may be one evaluation old.
func Groups() []Group {
	return []Group{
		historyGroup(),
		latencyGroup,
		callsGroup(),
		{Name: resourcesGroup, Alerts: resourceAlerts},
		policiesGroup,
		findingsGroup(classify.Checks),
		{Name: "webhook-auditor-self", Alerts: selfAlerts()},
		inputsGroup(),
	}
}

// runbook returns the path of the alert's runbook in the repository.
func (a Alert) runbook() string {
	if a.Runbook != "" {
		return a.Runbook
	}
	return "rules/runbooks/" + a.Name + ".md"
}
