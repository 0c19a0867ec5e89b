package rules

import (
	"fmt"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// The records of the findings.
const (
	// registered are the registrations with findings, labelled with the namespaces
	// of their backends.
	registered = `cluster_type_configuration_name_namespace:webhook_auditor_webhook:last5m`
	// critical are the registrations that reach what the cluster's stability
	// depends on, conversions among them: a finding on one is critical only where
	// controllers stop.
	critical = `cluster_type_configuration_name:webhook_auditor_reach_vital:last5m`
)

const perRegistration = `(type, configuration, name)`

// All is read over 5 minutes: a failed scrape or a restart must not let an alert
// start anew.
var findingRecords = []RecordingRule{
	{
		Name: registered,
		Expr: `
			topk by ` + perRegistration + ` (1, sum by (type, configuration, name, namespace) (label_replace(
				count_over_time(webhook_auditor_webhook_info[5m]) and on ` + perRegistration + ` last_over_time(webhook_auditor_finding[5m]), "namespace", "$1", "service_namespace", "(.*)")))
			or on ` + perRegistration + ` group by ` + perRegistration + ` (last_over_time(webhook_auditor_finding[5m]))`,
	},
	{
		Name: critical,
		Expr: `
			group by ` + perRegistration + ` (last_over_time(webhook_auditor_webhook_reach{` + vitalClasses + `}[5m]))
			or on ` + perRegistration + ` group by ` + perRegistration + ` (last_over_time(webhook_auditor_webhook_info{type="conversion"}[5m]))`,
	},
}

func findingsGroup(checks []*classify.Check) Group {
	return Group{Name: "webhook-auditor-findings", RecordingRules: findingRecords, Alerts: findingAlerts(checks)}
}

// findingAlerts derives the alerts from the checks: one for each check and
// severity that has one. Those of several checks may share a name; the label
// check distinguishes them.
func findingAlerts(checks []*classify.Check) []Alert {
	var alerts []Alert
	for _, c := range checks {
		for _, severity := range classify.Severities {
			alerts = append(alerts, alertsOf(c, severity)...)
		}
	}
	return alerts
}

// alertsOf are the alerts on the findings of a check of one severity.
func alertsOf(c *classify.Check, severity classify.Severity) []Alert {
	name := c.Alerts[severity]
	if name == "" {
		return nil
	}
	all := finding{check: c, severity: severity}
	switch {
	case severity == classify.Critical && c.NonCriticalAlert != "":
		pages, warns := all, all
		pages.only = ` and on ` + perRegistration + ` ` + critical
		warns.only = ` unless on ` + perRegistration + ` ` + critical
		return []Alert{pages.alert(name, classify.Critical), warns.alert(c.NonCriticalAlert, classify.Warning)}
	case severity == classify.Warning && c.ConversionAlert != "":
		admission, conversions := all, all
		admission.types, conversions.types = `, type!="conversion"`, `, type="conversion"`
		return []Alert{admission.alert(name, classify.Warning), conversions.alert(c.ConversionAlert, classify.Warning)}
	}
	return []Alert{all.alert(name, severity)}
}

// finding selects findings of a check.
type finding struct {
	check    *classify.Check
	severity classify.Severity
	types    string // a matcher more, if any
	only     string // which registrations, if not all
}

func (f finding) alert(name string, severity classify.Severity) Alert {
	return Alert{
		Name:        name,
		Severity:    severity,
		For:         f.check.For,
		KeepFiring:  f.keepFiring(severity),
		Expr:        f.expr(name),
		Summary:     subjectOf(f.check) + ` {{ $labels.name }}: ` + found(f.check),
		Description: describe(f.check),
		Runbook:     "pkg/classify/" + f.check.Name + ".md",
		Labels:      map[string]string{"check": f.check.Name},
	}
}

// keepFiring outlasts the failures of the calls, which are counted for a while
// after the backend is back: an alert on them, inhibited by this page until then,
// would page after the recovery.
func (f finding) keepFiring(severity classify.Severity) time.Duration {
	if severity != classify.Critical || f.check.NonCriticalAlert == "" {
		return 0
	}
	return 4 * time.Minute
}

// held is how long findings stay after the last auditor was scraped, in
// seconds: its end is no all-clear. How old the last snapshot is bounds it.
const held = "2700"

// expr are the findings of the check, labelled with the namespaces of the
// backends. Where no auditor is scraped, the alerts stay that are active, and
// an active alert keeps the namespace that it has.
func (f finding) expr(alert string) string {
	return strings.NewReplacer(
		"REGISTERED", registered, "PER", perRegistration,
		"MATCHERS", fmt.Sprintf(`check=%q, severity=%q%s`, f.check.Name, f.severity, f.types),
		"ONLY", f.only,
		"ACTIVE", fmt.Sprintf(`ALERTS{alertname=%q, check=%q}`, alert, f.check.Name),
		"SEEN", auditorSeen,
	).Replace(`
		max by (type, configuration, name, group, resource) (last_over_time(webhook_auditor_finding{MATCHERS}[5m])ONLY)
		* on PER group_left (namespace) (
			topk by PER (1, group by (type, configuration, name, namespace) (ACTIVE))
			or on PER REGISTERED
		)
		or
		group by (type, configuration, name, group, resource, namespace) (ACTIVE)
		unless on () SEEN
		and on () time() - max(last_over_time(webhook_auditor_snapshot_timestamp_seconds[1h])) < ` + held)
}

// describe says what was found and, in the words of the check's runbook, what
// it does and what to do about it.
func describe(c *classify.Check) string {
	var b strings.Builder
	if c.Find == nil {
		b.WriteString(`{{ if eq $labels.type "mutatingpolicy" }}MutatingAdmissionPolicy{{ else }}ValidatingAdmissionPolicy{{ end }} {{ $labels.name }}: ` + found(c) +
			" Impact: " + firstParagraph(c.Runbook(), "Impact") + " Mitigation: " + firstParagraph(c.Runbook(), "Mitigation") + printsFinding + findingVariables(c.Runbook()))
		return b.String()
	}
	b.WriteString(`{{ if eq $labels.type "admit" }}Mutating{{ else if eq $labels.type "conversion" }}Conversion{{ else }}Validating{{ end }} webhook {{ $labels.name }}`)
	b.WriteString(`{{ if ne $labels.type "conversion" }} of configuration {{ $labels.configuration }}{{ end }}`)
	b.WriteString(`{{ with $labels.resource }}, called for {{ . }}{{ with $labels.group }} of {{ . }}{{ end }}{{ end }}`)
	sections := []string{"Impact", "Mitigation"}
	if c.NonCriticalAlert != "" {
		b.WriteString(`{{ with $service }}, which calls Service {{ $labels.namespace }}/{{ . }}{{ end }}: ` + found(c) + impactOfPolicy + itsBackend)
		sections = sections[1:]
	} else {
		b.WriteString(`{{ with $labels.namespace }}, backend in namespace {{ . }}{{ end }}: ` + found(c))
	}
	for _, section := range sections {
		if text := firstParagraph(c.Runbook(), section); text != "" {
			b.WriteString(" " + section + ": " + text)
		}
	}
	b.WriteString(printsFinding)
	b.WriteString(findingVariables(c.Runbook()))
	return b.String()
}

const printsFinding = ` "webhook-auditor audit" prints the finding in full.`

// subjectOf is what the check is about.
func subjectOf(c *classify.Check) string {
	if c.Find == nil {
		return "Policy"
	}
	return "Webhook"
}

// impactOfPolicy is what happens while a webhook cannot be called.
const impactOfPolicy = `{{ if eq $labels.type "conversion" }} Its objects cannot be read in another version than they are stored in.` +
	`{{ else if eq $policy "Fail" }} Its failurePolicy is Fail: every request that it intercepts is refused.` +
	`{{ else if eq $policy "Ignore" }} Its failurePolicy is Ignore: requests pass without what it checks or changes.` +
	`{{ else }} What it intercepts is refused, or passes without it where its failurePolicy is Ignore.{{ end }}`

// findingVariables set the variables of the commands in a check's runbook.
func findingVariables(runbook string) string {
	var names, values []string
	for _, v := range [][2]string{
		{"KIND", "$kind"},
		{"CONFIGURATION", "$labels.configuration"},
		{"NAME", "$labels.name"},
		{"NAMESPACE", "$labels.namespace"},
		{"SERVICE", "$service"},
		{"CRD", "$labels.name"},
		{"RESOURCE", "$labels.resource"},
	} {
		if strings.Contains(runbook, "$"+v[0]) {
			names, values = append(names, v[0]), append(values, v[1])
		}
	}
	if len(names) == 0 {
		return ""
	}
	out := variables(strings.Join(names, " "), strings.Join(values, " "))
	if names[0] == "KIND" {
		out = kindVariable + out
	}
	return out
}

// found continues a sentence about the webhook with what the check finds.
func found(c *classify.Check) string {
	return strings.NewReplacer(" that a webhook ", " that it ", "an admission policy ", "it ").Replace(lowerFirst(c.Summary))
}

// firstParagraph returns the first paragraph of the section of a runbook as
// plain text on one line.
func firstParagraph(runbook, section string) string {
	_, rest, found := strings.Cut(runbook, "\n## "+section+"\n")
	if !found {
		return ""
	}
	text, _, _ := strings.Cut(strings.TrimSpace(rest), "\n\n")
	text = strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "`", "")
	if announced, ends := strings.CutSuffix(text, ":"); ends {
		return announced + ", as the runbook shows."
	}
	return text
}

// lowerFirst makes a sentence the continuation of another.
func lowerFirst(sentence string) string {
	first, rest, _ := strings.Cut(sentence, " ")
	return strings.ToLower(first) + " " + rest
}
