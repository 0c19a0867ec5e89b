package dashboards

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// problem is one way in which a webhook is unhealthy.
type problem struct {
	message string
	runbook string // path in the repository
	expr    string
}

// problems are all ways, the worst first: each webhook is listed with the first
// that applies.
func problems() []problem {
	return []problem{
		{"Calls fail, requests are refused", "rules/runbooks/WebhookFailingClosed.md", "(" + selected.closed() + ") > 0"},
		{"No backend is ready", "pkg/classify/no-ready-endpoints.md", "min by (" + webhookLabels + ") (" + unreadyBackends + ")"},
		{"Calls fail, requests pass unchecked", "rules/runbooks/WebhookFailingOpen.md", "(" + selected.open() + ") > 0"},
		{
			"Slow for what it intercepts", "rules/runbooks/WebhookCriticalResourceSlow.md",
			"(" + selected.latency("0.99") + ")\n> on (" + webhookLabels + ") " + selected.threshold(),
		},
		{"A critical finding", "pkg/classify/README.md", "max by (" + webhookLabels + ") (" + findingsIn(`severity="critical"`, selected) + ")"},
		{"An alert fires", "rules/README.md", "max by (" + webhookLabels + ") (" + named(firingAlerts) + ")"},
	}
}

// named leaves out alerts about no webhook.
func named(alerts string) string {
	return strings.Replace(alerts, `name=~"$name"`, `name=~"$name",name!=""`, 1)
}

// unhealthyWebhooks is one series per unhealthy webhook: its problem, what to read, and
// its rank.
func unhealthyWebhooks() string {
	var out []string
	all := problems()
	for i, t := range all {
		// Within a rank the worst is first.
		expr := fmt.Sprintf("(%d + clamp_max((%s) / 1000, 0.9))", len(all)-i, t.expr)
		expr = withLabel(expr, "problem", t.message, "problem")
		expr = withLabel(expr, "runbook", t.runbook, "runbook")
		out = append(out, withLabel(expr, "rank", fmt.Sprint(i+1), "rank"))
	}
	return fmt.Sprintf("topk(%d, %s)", topSeries, strings.Join(out, "\nor on ("+webhookLabels+") "))
}

// evidence is 1 for each webhook that has any series.
func evidence() string {
	return either(
		fmt.Sprintf("group by (%s) (webhook_auditor_webhook_info{%s})", webhookLabels, selected.auditor),
		fmt.Sprintf("group by (%s) ("+promql.Requests+"{%s})", webhookLabels, selected.admission),
		fmt.Sprintf("group by (%s) (%s)", webhookLabels, asWebhook(promql.ConversionSeconds+"_count{"+selected.conversion+"}")),
		fmt.Sprintf("group by (%s) (%s)", webhookLabels, named(firingAlerts)),
	)
}

// registration are the labels of where a webhook is registered.
const registration = "configuration, owner, service_namespace, service_name"

// criticalReach is one series per webhook and critical resource that it
// intercepts.
var criticalReach = fmt.Sprintf(`max by (%s, group, resource) (webhook_auditor_webhook_reach{class="critical",%s})`, webhookLabels, selected.auditor)

// criticalTotal is how many critical resources each webhook intercepts, where
// there are any.
var criticalTotal = fmt.Sprintf(`max by (%s) (webhook_auditor_webhook_reached_resources{class="critical",%s})`, webhookLabels, selected.auditor)

// blocks is one series per webhook that intercepts critical resources: how many
// and one of them.
func blocks() string {
	example := fmt.Sprintf(`label_join(%s, "one", ".", "resource", "group")`, criticalReach)
	example = fmt.Sprintf(`label_replace(%s, "one", "$1", "one", "(.*)[.]")`, example)
	number := fmt.Sprintf(`count_values by (%s) ("number", %s > 0)`, webhookLabels, criticalTotal)
	both := fmt.Sprintf("%s\n* on (%s) group_left (one) topk by (%s) (1, %s)", number, webhookLabels, webhookLabels, example)
	both = fmt.Sprintf(`label_join(%s, "blocks", " critical, as ", "number", "one")`, both)
	both = fmt.Sprintf(`label_replace(%s, "blocks", "$1", "blocks", "1 critical, as (.+)")`, both)
	return fmt.Sprintf("%s\nor on (%s) %s", both, webhookLabels, withLabel("("+isRegistered+")", "blocks", nothingCritical, "blocks"))
}

// isRegistered is one series per webhook that the auditor knows.
var isRegistered = fmt.Sprintf("max by (%s) (webhook_auditor_webhook_info{%s})", webhookLabels, selected.auditor)

const nothingCritical = "nothing critical"

// commandColumn is that of a command to paste, which opens in full.
var commandColumn = Column{Field: "do", Title: "First command", Unit: unitText, Width: 340, Wrap: true}

// messageColumn says what the check of a row found: no series has the finding's own words.
var messageColumn = Column{
	Field: "message", Title: "Message", Unit: unitText, Width: 270, Wrap: true, GrafanaOnly: true, Texts: summaries(),
}

// summaries are what checks find, in the words of this table, else in their causes or summaries.
func summaries() []Text {
	return lists.Map(classify.Checks, func(c *classify.Check) Text {
		return Text{Value: c.Name, Text: cmp.Or(shortened[c.Name], strings.TrimSuffix(cmp.Or(c.Cause, c.Summary), "."))}
	})
}

// shortened are texts of two lines, for summaries that are longer: Grafana makes a row as high as
// the name of the check needs, and cuts a third line. The cause of serving-certificate is
// not that of a certificate which only expires soon.
var shortened = map[string]string{
	"virtual-resource":       "A webhook intercepts what is never stored, as reviews or pods/binding",
	"bundle-conflict":        "A file holds a CA bundle that an injector replaces: applies conflict",
	"same-node-service":      "A webhook's Service leads to Pods on the API server's own node alone",
	"backend-selector":       "A webhook's Service selects no Pods, wrong ones, or ones not ready",
	"service-elsewhere":      "A webhook's Service is missing, and one like it or elsewhere exists",
	"host-port":              "Pods behind a webhook share a port of the host with another process",
	"cluster-url":            "The API server's host may not reach the URL of a webhook",
	"platform-limits":        "GKE or EKS closes the port, or Autopilot or OLM refuses the webhook",
	"mirror-pods":            "A mutating webhook or policy may have mirror Pods refused",
	"label-opt-out":          "A label of the object or namespace takes requests out of a webhook",
	"any-pod-may-call":       "Any Pod may send the webhook reviews: no NetworkPolicy closes its port",
	"ca-bundle-missing":      "A webhook has no CA bundle: the API server trusts public CAs alone",
	"issued-certificate":     "The Certificate of cert-manager is for another Service or Secret",
	"apply-without-type":     "A policy refuses scaling, evictions, tokens or exec for lack of a type",
	"policy-expression":      "An expression of a policy fails for a kind that the policy matches",
	"serving-certificate":    "The probe finds no certificate, or one that is refused now or soon",
	"network-policy":         "NetworkPolicies probably shut the API server out of a webhook's Pods",
	"mesh-strict":            "A mesh takes its own mutual TLS alone, which no API server speaks",
	"bootstrap-deadlock":     "A webhook refuses its own Pods: once all are gone, nothing starts",
	"install-order":          "A webhook refuses what is installed with it, as it cannot serve yet",
	"uninstall-order":        "Objects stay when a webhook is uninstalled: their deletion is stuck",
	"control-plane-path":     "A webhook can keep out nodes, leaders or the control plane",
	"blocks-auditor":         "A webhook can stop webhook-auditor from starting or keeping its lease",
	"critical-resource":      "An unapproved third-party webhook is called for critical resources",
	"core-resource":          "An unapproved openshift-* webhook is called for stock resources",
	"run-level-zero":         "A webhook is called for core resources on run level 0, without opt-in",
	"connect-intercepted":    "Exec, attach, port-forward or proxy in system namespaces needs a webhook",
	"delete-path":            "Deleting or evicting Pods, or deleting namespaces, needs a webhook",
	"budget-exceeded":        "Webhooks of one request take longer, or are more, than Policy allows",
	"chain-outlasts-request": "Webhooks of a request can outlast it: in spite of Ignore it is refused",
	"single-endpoint":        "A webhook of critical resources has one ready endpoint, or one node",
	"eviction-blocked":       "A PodDisruptionBudget never lets Pods behind a webhook be evicted",
	"dead-rule":              "A rule names only resources that no webhook or policy is asked about",
	"policy-without-effect":  "A policy has no binding, or a binding no policy: neither does anything",
	"resource-names-gap":     "A policy by resourceNames misses the deletion of whole collections",
	"never-called":           "No API server called a webhook for a week, as Prometheus knows",
	"equivalent-gap":         "A webhook with matchPolicy Exact misses other versions of the resource",
	"subresource-gap":        "Subresources change unasked what a validating webhook or policy checks",
	"duplicate-name":         "Webhooks of one type share a name: metrics of API servers merge them",
	"review-version":         "A webhook does not take version v1 of the API server's reviews",
	"conversion-unneeded":    "A CRD of one version names a conversion webhook that is never called",
	"approval-invalid":       "An approval or an opt-in has no effect: its value says nothing",
}

// twoLines are the letters of two lines of a message.
const twoLines = 74

// behindBroken matches what is wrong, the check that says so and the namespace and name of the
// Service, of a backend that cannot be called.
const behindBroken = "(?:(?:No backend|Calls fail)[^/]*/|" +
	"[^/]*/(?:no-ready-endpoints|service-unroutable|backend-unreachable|service-port-missing|service-missing))/([^/]+)/.+"

// withLook adds the label "do": the command that shows the registration or, where the label
// check is of a backend that cannot be called, the backend.
func withLook(expr string) string {
	expr = fmt.Sprintf(`label_join(%s, "do", "/", "type", "configuration")`, expr)
	for _, kind := range [][2]string{{"admit", "mutatingwebhookconfiguration"}, {"validating", "validatingwebhookconfiguration"}, {"conversion", "crd"}} {
		expr = fmt.Sprintf(`label_replace(%s, "do", "kubectl get %s $1 -o yaml", "do", "%s/(.+)")`, expr, kind[1], kind[0])
	}
	expr = fmt.Sprintf(`label_join(%s, "behind", "/", "problem", "check", "service_namespace", "service_name")`, expr)
	return fmt.Sprintf(`label_replace(%s, "do", %q, "behind", %q)`, expr, classify.LookAtBackend+" -n $1", behindBroken)
}

// explained adds to findings the message of their check and the first command.
func explained(findings string, s scope) string {
	registered := fmt.Sprintf("max by (%s, service_namespace, service_name) (webhook_auditor_webhook_info{%s})", webhookLabels, s.auditor)
	info := lookup{webhookLabels, "group by (" + webhookLabels + ") (webhook_auditor_finding{" + s.auditor + "})"}
	return fmt.Sprintf(`label_replace(%s, "message", "$1", "check", "(.+)")`, withLook(info.labels(findings, "service_namespace, service_name", registered)))
}

// causes is one series per webhook and finding on calls that fail now: its check and, as cause,
// what that found. Critical findings have the higher value.
func causes() string {
	failing := slices.DeleteFunc(slices.Clone(classify.Checks),
		func(c *classify.Check) bool { return !c.Fails() || c.Find == nil })
	found := func(severity string) string {
		return fmt.Sprintf("max by (%s, check) (webhook_auditor_finding{severity=%q,check=~%q,%s})", webhookLabels, severity, strings.Join(classify.CheckNames(failing), "|"), selected.auditor)
	}
	out := "(2 * " + found("critical") + "\nor " + found("warning") + ")"
	for _, c := range failing {
		out = fmt.Sprintf("label_replace(%s, %q, %q, %q, %q)", out, "cause", c.Cause, "check", c.Name)
	}
	return out
}

// withCause says what was found where that is why calls fail.
func withCause(rows string) string {
	rows = fmt.Sprintf(`label_join(%s, "cause", "/", "cause", "problem")`, rows)
	rows = fmt.Sprintf(`label_replace(%s, "problem", "$1, $2", "cause", "(.+)/Calls fail, (.+)")`, rows)
	rows = fmt.Sprintf(`label_replace(%s, "problem", "$1", "cause", "(.+)/[^C].+")`, rows)
	return fmt.Sprintf(`label_replace(%s, "runbook", "pkg/classify/$1.md", "check", "(.+)")`, rows)
}

func unhealthyPanel() Panel {
	whole := selected.withWindow(rangeWindow)
	registered := fmt.Sprintf("max by (%s, %s) (webhook_auditor_webhook_info{%s})", webhookLabels, registration, selected.auditor)
	rowsOf := lookup{webhookLabels, evidence()}
	rows := rowsOf.labels(rowsOf.labels(unhealthyWebhooks(), registration, withDefault(registered, "owner", "none")), "blocks", blocks())
	rows = rowsOf.labels(rows, "check, cause", causes())
	rows = rowsOf.number(rows, "since", "time() - min by ("+webhookLabels+`) (ALERTS_FOR_STATE{cluster=~"$cluster",alertname=~"Webhook.*",severity=~"critical|warning",type=~"$type",name=~"$name",name!=""})`)
	rows = rowsOf.number(rows, "failed", "("+ratio(whole.failures(), whole.calls())+") > 0")
	rows = rowsOf.number(rows, "p99", "("+selected.latency("0.99")+") > 0")
	rows = rowsOf.number(rows, "changed", fmt.Sprintf("time() - max by (%s) (%s * on (cluster, type, configuration) group_left () %s)", webhookLabels, registeredWebhooks, changed))
	rows = orNone("("+withDefault(withDefault(withCause(withLook(rows)), "owner", "unknown"), "blocks", "unknown")+")", registeredWebhooks, "problem", "No unhealthy webhook")
	rows += "\nor on () " + withLabel("vector(0)", "problem", "Unknown: nothing is exported", "problem")
	return Panel{
		Title:       "Unhealthy webhooks",
		Description: "A row for each webhook that fails, is slow, has no backend, a critical finding or an alert: since when an alert is pending or firing, how much of the chosen time range, what to do first, and the critical resources that it intercepts. At most ten, the worst first; the totals stand above.",
		Kind:        Table, Unit: unitPercent, Width: 24, Height: 10,
		Queries: []Query{{Expr: withDefault(withDefault(withDefault(rows, "name", "none"), "type", "none"), "runbook", "dashboards/README.md")}},
		Columns: []Column{
			{Field: "rank", Title: "#", Unit: unitText, ConsoleOnly: true},
			{Field: "name", Title: "Webhook", Unit: unitText, Width: 235, Texts: noName, Links: drillDown("__data.fields")},
			clusterColumn,
			{Field: "problem", Title: "What is wrong", Unit: unitText, Width: 220, Wrap: true, Links: []Link{{
				Title: "Runbook", URL: report.Project + "/blob/main/${__data.fields.runbook:raw}", Outside: true,
			}}},
			{Field: "since", Title: "Since", Unit: unitSeconds, Width: 75, Number: true},
			{Field: "failed", Title: "Failed", Unit: unitPercent, Width: 65, Number: true, Thresholds: []Threshold{{red, 0}}},
			{Field: "p99", Title: "p99", Unit: unitSeconds, Width: 75, Number: true},
			commandColumn,
			{Field: "type", Title: "Type", Unit: unitText, Width: 86, Texts: slices.Concat(typeNames, noName)},
			{Field: "owner", Title: "Owner", Unit: unitText, Width: 90},
			{Field: "changed", Title: "Changed", Unit: unitSeconds, Width: 80, Number: true},
			{Field: "blocks", Title: "Intercepts", Unit: unitText},
			linkCluster,
			{Field: "runbook", Title: "Runbook", Unit: unitText, Hidden: true},
		},
	}
}

// noName leaves empty what would lead to a webhook that is none.
var noName = []Text{{Value: "none", Text: " "}}

// changed is the time at which each configuration changed last.
const changed = `max by (cluster, type, configuration) (webhook_auditor_webhook_configuration_changed_timestamp_seconds{cluster=~"$cluster",type=~"$type"})`

func changesPanel() Panel {
	return Panel{
		Title:       "What changed just before",
		Description: "The configurations that changed last, the newest first: most incidents begin with one of them.",
		Kind:        Table, Unit: unitAge, Width: 24, Height: 6,
		Queries: []Query{{Expr: fmt.Sprintf("bottomk(%d, time() - %s)", topSeries, changed)}},
		Columns: []Column{
			{Field: "A", Title: "Changed ago", Unit: unitAge, Width: 110},
			{Field: "configuration", Title: "Configuration", Unit: unitText},
			typeColumn,
			clusterColumn,
		},
	}
}

// inventoryPanels show how much there is, and which resources wait for which
// webhooks.
func inventoryPanels() []Panel {
	total := statPanel("Webhooks", "Webhooks that are registered.", "count("+registeredWebhooks+")", blue).withUnit(unitCount, Threshold{blue, 0})
	informational := statPanel("Info findings", "Findings of severity info, of the chosen webhooks.",
		countOrZero(findingsIn(`severity="info"`, selected), registeredWebhooks), blue).withUnit(unitCount, Threshold{blue, 0})
	reach := func(class string) string {
		return fmt.Sprintf(`max by (cluster, type, name, class, group, resource) (webhook_auditor_webhook_reach{class=%q,%s})`, class, selected.auditor)
	}
	return append(widened(12, []Panel{total, informational}), Panel{
		Title:       "Who waits for whom",
		Description: "Which virtual, critical and sensitive resources wait for which webhooks. At most sixty pairs, virtual and critical resources first.",
		Kind:        Matrix, Unit: unitCount, Width: 24, Height: 10,
		Queries: []Query{{Expr: "topk(60, " + withReachedName("(3 * "+reach("virtual")+"\nor 2 * "+reach("critical")+"\nor "+reach("sensitive")+")") + ")"}},
		Columns: []Column{
			{Field: "name", Title: "Webhook", Unit: unitText},
			{Field: "what", Title: "Resource", Unit: unitText},
			{Field: "class", Title: "Class", Unit: unitText, ConsoleOnly: true},
		},
		Texts: []Text{{"3", "virtual", red}, {"2", "critical", orange}, {"1", "sensitive", blue}, {"0", " ", ""}},
	})
}
