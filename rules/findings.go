package rules

import (
	"fmt"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// findingAlerts derives the alerts from the checks: one for each check and
// severity that has one. Those of several checks may share a name; the label
// check tells them apart.
func findingAlerts(checks []*classify.Check) []Alert {
	var alerts []Alert
	for _, c := range checks {
		for _, severity := range classify.Severities {
			if name := c.Alerts[severity]; name != "" {
				alerts = append(alerts, findingAlert(c, severity, name))
			}
		}
	}
	return alerts
}

func findingAlert(c *classify.Check, severity classify.Severity, name string) Alert {
	return Alert{
		Name:        name,
		Severity:    severity,
		For:         c.For,
		Expr:        finding(c.Name, severity),
		Backend:     `webhook_auditor_webhook_info{type="$type", configuration="$configuration", name="$name"}`,
		Summary:     `Webhook {{ $labels.name }}: ` + lowerFirst(c.Summary),
		Description: describe(c),
		Runbook:     "pkg/classify/" + c.Name + ".md",
		Labels:      map[string]string{"check": c.Name},
	}
}

// finding selects the findings of a check, of all replicas. They are gauges,
// and read over 5 minutes: a failed scrape or a restart must not let an alert
// start anew.
func finding(check string, severity classify.Severity) string {
	return fmt.Sprintf(`max by (check, type, configuration, name, group, resource) (last_over_time(webhook_auditor_finding{check=%q, severity=%q}[5m]))`, check, severity)
}

// describe says what was found and, in the words of the check's runbook, what
// it does and what to do about it.
func describe(c *classify.Check) string {
	var b strings.Builder
	b.WriteString(`{{ if eq $labels.type "admit" }}Mutating{{ else if eq $labels.type "conversion" }}Conversion{{ else }}Validating{{ end }} webhook {{ $labels.name }}`)
	b.WriteString(`{{ if ne $labels.type "conversion" }} of configuration {{ $labels.configuration }}{{ end }}`)
	b.WriteString(`{{ with $labels.resource }}, called for {{ . }}{{ with $labels.group }} of {{ . }}{{ end }}{{ end }}`)
	b.WriteString(`{{ with $namespace }}, backend in namespace {{ . }}{{ end }}: `)
	b.WriteString(lowerFirst(c.Summary))
	for _, section := range []string{"Impact", "Mitigation"} {
		if text := firstParagraph(c.Runbook(), section); text != "" {
			b.WriteString(" " + section + ": " + text)
		}
	}
	b.WriteString(` "webhook-auditor audit" prints the finding in full.`)
	return b.String()
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
