package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// The records of the findings.
const (
	registered  = `cluster_type_configuration_name_namespace:webhook_auditor_webhook:last5m`
	scrapedInfo = `cluster_type_configuration_name_namespace:webhook_auditor_webhook:count5m`
	// critical has conversions, too: a finding on one is critical only where controllers stop.
	critical         = `cluster_type_configuration_name:webhook_auditor_reach_vital:last5m`
	reportedFindings = `cluster_check_severity_type_configuration_name:webhook_auditor_finding:last5m`
)

const perRegistration = `(type, configuration, name)`

// held is how long findings stay after the last auditor was scraped, in
// seconds: its end is no all-clear. How old the last snapshot is bounds it.
const held = "2700"

// All is read over 5 minutes: a failed scrape or a restart must not let an alert
// start anew. Nor must it where auditors disagree: a registration keeps the namespace
// that it has for as long as one of them says so, or its backend is down.
var findingRecords = []RecordingRule{
	{
		Name: scrapedInfo, Asks: "What do auditors say of the webhooks with findings, and how often?",
		Expr: `sum by (type, configuration, name, namespace, failure_policy, service_name) (label_replace(
			count_over_time(webhook_auditor_webhook_info[5m]) and on ` + perRegistration + ` last_over_time(webhook_auditor_finding[5m]), "namespace", "$1", "service_namespace", "(.*)"))`,
	},
	{
		Name: registered, Asks: "Where are their backends, and what do their failures do? One that is down stays where it was.",
		Expr: strings.NewReplacer(
			"PER", perRegistration, "INFO", scrapedInfo, "REGISTERED", registered, "CHECKS", strings.Join(backendChecks(), "|"),
		).Replace(`
			topk by PER (1, REGISTERED and on PER last_over_time(webhook_auditor_finding{check=~"CHECKS"}[5m]) and on (type, configuration, name, failure_policy, service_name) INFO)
			or on PER topk by PER (1, INFO and on (type, configuration, name, namespace, failure_policy, service_name) REGISTERED)
			or on PER topk by PER (1, INFO)
			or on PER group by PER (last_over_time(webhook_auditor_finding[5m]))`),
	},
	{
		Name: critical, Asks: "Which webhooks reach what the cluster depends on?",
		Expr: `
			group by ` + perRegistration + ` (last_over_time(webhook_auditor_webhook_reach{` + vitalClasses + `}[5m]) or last_over_time(webhook_auditor_webhook_info{type="conversion"}[5m]))
			or on ` + perRegistration + ` (` + critical + ` unless on () ` + auditorSeen + `)`,
	},
	{
		Name: reportedFindings, Asks: "What does the auditor find, or did it up to 45 minutes ago, when it was last seen?",
		Expr: `
			max by (check, severity, type, configuration, name, group, resource) (last_over_time(webhook_auditor_finding[5m]))
			* on ` + perRegistration + ` group_left (namespace, failure_policy, service_name) ` + registered + `
			or ` + reportedFindings + ` unless on () ` + auditorSeen + ` and on () time() - max(last_over_time(webhook_auditor_snapshot_timestamp_seconds[1h])) < ` + held,
	},
}

// expiresSoon is about the CA bundles of which little time is left, beside the alert that fires for a month.
func expiresSoon(checks []*classify.Check) Alert {
	i := slices.IndexFunc(checks, func(c *classify.Check) bool { return c.Name == "ca-bundle-expiring" })
	out := Alert{
		Name: "WebhookCaBundleExpiresSoon", Severity: classify.Warning, For: time.Hour, Checks: checks[i : i+1],
		Expr: `FOUND{CHECKS, severity="warning"} ^ 0 * on PER group_left () (min by PER (last_over_time(webhook_auditor_webhook_ca_bundle_not_after_timestamp_seconds[5m])) - time() < 86400 * $expiresSoonDays)`,
	}
	complete(&out)
	expires := strings.NewReplacer("within 30 days", "in {{ $value | humanizeDuration }}", "Impact: None yet.", "Then no call can succeed.")
	out.Summary, out.Description = expires.Replace(out.Summary), expires.Replace(out.Description)
	return out
}

// findingAlerts derives the alerts from the checks: one for each name, about the findings of all that have it.
func findingAlerts(checks []*classify.Check) []Alert {
	var alerts []Alert
	for _, c := range checks {
		for _, a := range alertsOf(c) {
			if i := slices.IndexFunc(alerts, func(b Alert) bool { return a.Name == b.Name }); i >= 0 {
				alerts[i].Checks = append(alerts[i].Checks, c)
				continue
			}
			alerts = append(alerts, a)
		}
	}
	for i := range alerts {
		complete(&alerts[i])
	}
	return alerts
}

// alertsOf are the alerts on the findings of a check. Of its critical findings, those
// on webhooks that reach nothing which the cluster depends on warn, where it has a
// warning: as the alerts on the calls that fail for the same reason do.
func alertsOf(c *classify.Check) []Alert {
	var out []Alert
	add := func(name, expr string, severity classify.Severity) {
		out = append(out, Alert{Name: name, Severity: severity, Expr: expr, For: c.For, Checks: []*classify.Check{c}})
	}
	pages, warns := c.Alerts[classify.Critical], c.Alerts[classify.Warning]
	switch {
	case pages != "" && warns != "":
		add(pages, `FOUND{CHECKS, severity="critical"} and on PER CRITICAL`, classify.Critical)
		add(warns, `max without (severity) (FOUND{CHECKS, severity="warning", type!="conversion"} or FOUND{CHECKS, severity="critical"} unless on PER CRITICAL)`, classify.Warning)
	case pages != "":
		add(pages, `FOUND{CHECKS, severity="critical"}`, classify.Critical)
	case warns != "":
		add(warns, `FOUND{CHECKS, severity="warning"}`, classify.Warning)
	}
	if c.ConversionAlert != "" {
		out[0].KeepFiring = outlasting
		add(c.ConversionAlert, `FOUND{CHECKS, severity="warning", type="conversion"}`, classify.Warning)
	}
	if name := c.Alerts[classify.Info]; name != "" {
		add(name, `FOUND{CHECKS, severity="info"}`, classify.Info)
	}
	return out
}

// outlasting is longer than the failures of the calls are counted after the backend is
// back: an alert on them, inhibited by this page until then, would page after the recovery.
const outlasting = 4 * time.Minute

// complete adds what depends on all checks of the alert.
func complete(a *Alert) {
	names := classify.CheckNames(a.Checks)
	matcher := fmt.Sprintf("check=%q", names[0])
	if len(names) > 1 {
		matcher = fmt.Sprintf("check=~%q", strings.Join(names, "|"))
	}
	a.Expr = strings.NewReplacer("FOUND", reportedFindings, "PER", perRegistration, "CRITICAL", critical, "CHECKS", matcher).Replace(a.Expr)
	a.Asks = a.Severity.String() + ": " + strings.Join(names, ", ") + "."
	subject := "Webhook"
	if a.Checks[0].Find == nil {
		subject = "Policy"
	}
	a.Summary = subject + ` {{ $labels.name }}: ` + perCheck(a.Checks, found)
	a.Description, a.Variables = describe(a.Checks)
}

// perCheck is a template of what is written of the check of a finding.
func perCheck(checks []*classify.Check, say func(*classify.Check) string) string {
	if len(checks) == 1 {
		return say(checks[0])
	}
	var b strings.Builder
	for i, c := range checks {
		keyword := "if"
		if i > 0 {
			keyword = "else if"
		}
		fmt.Fprintf(&b, `{{ %s eq $labels.check %q }}%s`, keyword, c.Name, say(c))
	}
	return b.String() + `{{ end }}`
}

// describe says what was found, what it does and, in one command, where to look.
func describe(checks []*classify.Check) (text, variables string) {
	c := checks[0]
	if c.Find == nil {
		const policy = `{{ if eq $labels.type "mutatingpolicy" }}mutating{{ else }}validating{{ end }}admissionpolicy {{ $labels.name }}`
		return `Policy {{ $labels.name }}: ` + found(c) + ` Delete its bindings until it is repaired. See "kubectl get ` + policy + ` -o yaml".`, findingVariables(c.Runbook())
	}
	var runbooks strings.Builder
	for _, c := range checks {
		runbooks.WriteString(c.Runbook())
	}
	look, finds, scope := itsRegistration, found(c), `{{ with $labels.resource }}, called for {{ . }}{{ with $labels.group }} of {{ . }}{{ end }}{{ end }}`
	if c.ConversionAlert != "" { // it is of no resource
		look, scope = answering+itsBackend, ""
	}
	if len(checks) > 1 { // the summary says it in a sentence
		finds = `{{ reReplaceAll "-" " " $labels.check }}.`
	}
	return `Webhook {{ $labels.name }}` + scope + `: ` + finds + consequence(c) + look, findingVariables(runbooks.String())
}

// consequence is what a finding does: what the failurePolicy that the webhook has does of
// failed calls, where the check's runbook distinguishes them, else the first
// sentences of the runbook.
func consequence(c *classify.Check) string {
	impact := firstParagraph(c.Runbook(), "Impact")
	if strings.Contains(impact, "failurePolicy: Fail") {
		when := " when its call fails"
		switch {
		case strings.Contains(c.Summary, "or will soon"):
			when = " when the API server refuses that"
		case c.Fails():
			when = ""
		}
		return `{{ with $labels.failure_policy }} Its failurePolicy is {{ . }}: requests {{ if eq . "Fail" }}are refused{{ else }}pass without it{{ end }}` + when + forReached + `.` +
			`{{ else }}{{ if eq $labels.type "conversion" }} Its objects can be read only in the version that they are stored in.{{ end }}{{ end }}`
	}
	if end := strings.Index(impact, ". "); end > 0 {
		impact = impact[:end+1]
	}
	return " Impact: " + impact
}

// itsRegistration is the command that shows the object that registers the webhook.
const itsRegistration = ` See "kubectl get {{ if eq $labels.type "conversion" }}crd {{ $labels.name }}{{ else }}{{ if eq $labels.type "admit" }}mutating{{ else }}validating{{ end }}webhookconfiguration {{ $labels.configuration }}{{ end }} -o yaml".`

// findingVariables set the variables of the commands in a check's runbook.
func findingVariables(runbook string) string {
	var names, values []string
	for _, v := range [][2]string{
		{"KIND", "$kind"},
		{"CONFIGURATION", "$labels.configuration"},
		{"NAME", "$labels.name"},
		{"NAMESPACE", "$labels.namespace"},
		{"SERVICE", "$labels.service_name"},
		{"CRD", "$labels.name"},
		{"RESOURCE", "$labels.resource"},
	} {
		if strings.Contains(runbook, "$"+v[0]) || strings.Contains(runbook, "${"+v[0]) {
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
	first, rest, _ := strings.Cut(c.Summary, " ")
	return strings.NewReplacer("a webhook's ", "its ", "a webhook in the cluster ", "it ", "a webhook ", "it ", "an admission policy ", "it ").Replace(strings.ToLower(first) + " " + rest)
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
