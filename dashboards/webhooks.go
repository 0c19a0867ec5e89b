package dashboards

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
)

// selected is each webhook that the variables let through.
var selected = scope{
	admission:  `cluster=~"$cluster",type=~"$type",name=~"$name"`,
	conversion: `cluster=~"$cluster",type=~"$type",crd_name=~"$name"`,
	auditor:    `cluster=~"$cluster",type=~"$type",name=~"$name"`,
	window:     rateWindow,
}

// webhooks is the board to open first: is anything wrong, and with whom?
func webhooks() Board {
	return Board{
		Name:        "webhooks",
		Title:       "Webhooks",
		Description: "Is a webhook slow, failing or rejecting? Latency, failures and rejections of all admission and conversion webhooks next to what they intercept.",
		Variables: []Variable{
			clusterVariable,
			{
				Name: "type", Label: "Type", Description: "Which webhooks to look at.",
				Metric: "webhook_auditor_webhook_info", Value: "type", All: ".*",
				Fixed: []Choice{{"mutating", "admit"}, {"validating", "validating"}, {"conversion", "conversion|"}},
			},
			{
				Name: "name", Label: "Webhook", Description: "The name of a webhook, or of the CRD that it converts.",
				Metric: "webhook_auditor_webhook_info", Value: "name", All: ".*",
			},
			logs,
		},
		Alerts:  `type=~"$type",name=~"$name"`,
		Changes: `type=~"$type"`,
		Links:   []Link{toBoard("All clusters", "fleet"), toBoard("The auditor", "auditor")},
		Rows: []Row{
			{Panels: append(summaryPanels(), unhealthyPanels()...)},
			{Title: "Latency per webhook", Panels: latencyPanels()},
			{Title: "Failures and rejections per webhook", Panels: failurePanels()},
			{Title: "Per resource", Panels: resourcePanels()},
			{Title: "Admission policies", Panels: policyPanels()},
			{Title: "All admission", Panels: overallPanels()},
			{Title: "Inventory", Panels: inventoryPanels()},
			{Title: "Certificates", Panels: certificatePanels()},
			{Title: "Conditions", Panels: conditionPanels()},
		},
	}
}

var clusterVariable = Variable{
	Name: "cluster", Label: "Cluster", Description: "The cluster, where the store holds several.",
	Metric: promql.Requests, Value: "cluster", All: ".*", GrafanaOnly: true,
}

// logs is where the logs of backends are: the first data source for them that
// Grafana has.
var logs = Variable{Name: "logs", Plugin: "loki", Hidden: true, GrafanaOnly: true}

// keptParameters is what all links between boards keep: where the data comes from and
// when.
const keptParameters = "${datasource:queryparam}&${__url_time_range}"

// toBoard leads to another board without the choices that mean nothing there.
func toBoard(title, name string) Link {
	return Link{Title: title, URL: "/d/webhook-auditor-" + name + "?${cluster:queryparam}&" + keptParameters}
}

// backToBoard leads back to all webhooks with the choices made there, which
// drillDown handed on.
func backToBoard() Link {
	return Link{Title: "All webhooks", URL: "/d/webhook-auditor-webhooks?var-type=${all_type:raw}&var-name=${all_name:raw}&${cluster:queryparam}&" + keptParameters}
}

// keptChoices are the choices of the board of all webhooks.
var keptChoices = []Variable{{Name: "all_type", All: ".*", Hidden: true}, {Name: "all_name", All: ".*", Hidden: true}}

// drillDown leads from a series or a row to the board of its webhook, in its
// own cluster. field is where Grafana finds the labels: __field.labels or
// __data.fields.
func drillDown(field string) []Link {
	return []Link{{
		Title: "Open this webhook",
		URL: fmt.Sprintf("/d/webhook-auditor-webhook?var-type=${%[1]s.type}&var-name=${%[1]s.name}&var-cluster=${%[1]s.at}"+
			"&var-all_type=${type:raw}&var-all_name=${name:raw}&%[2]s", field, keptParameters),
	}, pageOf(field+".type", field+".name")}
}

// linkCluster is the column that drillDown takes the cluster from.
var linkCluster = Column{Field: "at", Title: "At", Unit: unitText, Hidden: true}

// typeNames are the usual names of types.
var typeNames = []Text{{Value: "admit", Text: "mutating"}}

// typeColumn shows the usual name of a type, and leaves its value to links.
var typeColumn = Column{Field: "type", Title: "Type", Unit: unitText, Width: 86, Texts: typeNames}

// clusterColumn is there where the store holds several clusters.
var clusterColumn = Column{Field: "cluster", Title: "Cluster", Unit: unitText, Width: 66}

const (
	grey   = "#808080"
	green  = "green"
	blue   = "blue"
	yellow = "yellow"
	orange = "orange"
	red    = "red"
)

// registeredWebhooks is one series per webhook of the inventory.
var registeredWebhooks = `max by (cluster, type, configuration, name) (webhook_auditor_webhook_info{` + selected.auditor + `})`

// unreadyBackends is one series of value 0 per webhook without a ready backend.
const unreadyBackends = `max by (cluster, type, configuration, name) (webhook_auditor_webhook_backend_ready{cluster=~"$cluster",type=~"$type",name=~"$name"}) == 0`

// findingsIn is one series per finding: one about several resources counts once.
func findingsIn(matcher string, s scope) string {
	return `max by (cluster, severity, check, type, configuration, name) (webhook_auditor_finding{` + join(matcher, s.auditor) + `})`
}

// firingAlerts is one series per webhook and alert of severity critical or
// warning.
const firingAlerts = `max by (cluster, alertname, severity, type, name) (ALERTS{cluster=~"$cluster",alertname=~"Webhook.*",alertstate="firing",severity=~"critical|warning",type=~"$type",name=~"$name"})`

// rulesLoaded is there where the project's rules record anything.
const rulesLoaded = `max by (cluster) (cluster_type_configuration_name_namespace:webhook_auditor_webhook:last5m{cluster=~"$cluster"})`

func statPanel(title, description, expr, color string) Panel {
	return Panel{
		Title: title, Description: description, Kind: Stat, Unit: unitCount, Width: 4, Height: 3,
		Queries:    []Query{{Expr: expr}},
		Thresholds: []Threshold{{green, 0}, {color, 1}},
		Unknown:    "unknown",
	}
}

// widened gives the panels room for their titles, on half a screen too.
func widened(width int, panels []Panel) []Panel {
	for i := range panels {
		panels[i].Width = width
	}
	return panels
}

func summaryPanels() []Panel {
	called := `sum by (` + webhookLabels + `) (` + promql.Requests + `{` + selected.admission + `})`
	return widened(8, []Panel{
		statPanel("Failing webhooks", "Webhooks of which some calls fail now, whether that refuses the request or not.", countOrZero("("+selected.failures()+") > 0", called), red),
		statPanel("No backend", "Webhooks without a ready backend now: the Service, its port or its endpoints are missing.", countOrZero(unreadyBackends, registeredWebhooks), red),
		statPanel("Slow webhooks", "Webhooks whose p99 is above their threshold.",
			countOrZero("("+selected.latency("0.99")+")\n> on ("+webhookLabels+") "+selected.threshold(), called), orange),
		statPanel("Critical findings", "Findings of severity critical, of the chosen webhooks.", countOrZero(findingsIn(`severity="critical"`, selected), registeredWebhooks), red),
		statPanel("Warnings", "Findings of severity warning, of the chosen webhooks.", countOrZero(findingsIn(`severity="warning"`, selected), registeredWebhooks), orange),
		statPanel("Alerts", "Alerts of severity critical or warning about these webhooks that are firing. Unknown where the rules are not loaded.", countOrZero(firingAlerts, rulesLoaded), orange),
	})
}

// unhealthyPanels are the tables of the first screen: which webhooks, what is wrong
// with them and what to do.
func unhealthyPanels() []Panel {
	return []Panel{unhealthyPanel(), changesPanel(), {
		Title:       "Findings, the worst first",
		Description: "Wrong configurations of webhooks, and the first command for each. At most twenty; the totals stand above.",
		Kind:        Table, Unit: unitCount, Width: 24, Height: 9,
		Queries: []Query{{Expr: orNone(explained("topk(20, 2 * "+findingsIn(`severity="critical"`, selected)+"\nor "+findingsIn(`severity="warning"`, selected)+")", selected),
			registeredWebhooks, "severity", "none")}},
		Columns: []Column{
			{Field: "severity", Title: "Severity", Unit: unitText, Width: 75, Texts: severities},
			{Field: "check", Title: "Check", Unit: unitText, Width: 162, Links: []Link{runbook}},
			{Field: "name", Title: "Webhook", Unit: unitText, Width: 235, Links: drillDown("__data.fields")},
			messageColumn,
			commandColumn,
			typeColumn,
			clusterColumn,
			linkCluster,
		},
	}}
}

// unknownTable is the text of a table without series.
const unknownTable = "Unknown: the auditor exports nothing that was chosen."

// notMeasured is the text of a chart without series.
const notMeasured = "Nothing measured in this time."

var severities = []Text{{"critical", "critical", red}, {"warning", "warning", orange}, {"info", "info", blue}, {"none", "none", green}}

func latencyPanels() []Panel {
	excess := func(s scope) string {
		return "(" + s.latency("0.99") + ")\n/ on (" + webhookLabels + ") (" + s.threshold() + ")"
	}
	return []Panel{
		{
			Title:       "p99 latency",
			Description: "One call of a hundred takes longer than this. The ten slowest webhooks of the chosen time range, and all webhooks together.",
			Kind:        TimeSeries, Unit: unitSeconds, Width: 24, Height: 9,
			Queries: []Query{
				{
					Expr:   topBy(selected.latency("0.99"), selected.withWindow(rankWindow).latency("0.99"), webhookLabels),
					Legend: "{{name}} {{cluster}}",
				},
				{Expr: allLatency("0.99"), Legend: "all admission webhooks", Total: true},
			},
			Thresholds: []Threshold{{yellow, 0.5}, {red, 1}},
			Links:      drillDown("__field.labels"),
		},
		{
			Title:       "p99 as a multiple of its threshold",
			Description: "Above 1 the webhook is slow for what it intercepts: 0.5 s where it reaches a critical resource, else 1 s, unless the Policy sets others. The ten worst of the chosen time range.",
			Kind:        TimeSeries, Unit: unitTimes, Width: 24, Height: 9,
			Queries: []Query{{
				Expr: topBy(excess(selected), excess(selected.withWindow(rankWindow)), webhookLabels), Legend: "{{name}} {{cluster}}",
			}},
			Thresholds: []Threshold{{red, 1}},
			Links:      drillDown("__field.labels"),
		},
		{
			Title:       "Time that requests wait for webhooks",
			Description: "Seconds of waiting per second: latency times calls. The first of them costs the cluster most, even if each call is quick. The ten costliest of the chosen time range.",
			Kind:        TimeSeries, Unit: unitSeconds, Width: 24, Height: 9,
			Queries: []Query{
				{
					Expr:   topBy(selected.waitTime(), selected.withWindow(rankWindow).waitTime(), webhookLabels),
					Legend: "{{name}} {{cluster}}",
				},
				{Expr: "sum(" + selected.waitTime() + ")", Legend: "all webhooks", Total: true},
			},
			Links: drillDown("__field.labels"),
		},
	}
}

// allLatency is the quantile over the calls of all admission webhooks.
func allLatency(q string) string {
	return either(
		fmt.Sprintf("histogram_quantile(%s, sum by (le) (%s))", q, selected.admissions(promql.WebhookSeconds+"_bucket", "")),
		fmt.Sprintf("histogram_quantile(%s, sum(%s))", q, selected.admissions(promql.WebhookSeconds, "")),
	)
}

func failurePanels() []Panel {
	shares := func(title, description string, part func(scope) string) Panel {
		now, whole := selected, selected.withWindow(rankWindow)
		return Panel{
			Title:       title,
			Description: description + " The ten worst of the chosen time range, and the share over all webhooks.",
			Kind:        TimeSeries, Unit: unitPercent, Width: 24, Height: 9,
			Queries: []Query{
				{
					Expr:   topBy(ratio(part(now), now.calls()), ratio(part(whole), whole.calls()), webhookLabels),
					Legend: "{{name}} {{cluster}}",
				},
				{Expr: overallRatio(part(now), now.calls()), Legend: "all webhooks", Total: true},
			},
			Links: drillDown("__field.labels"),
		}
	}
	return []Panel{
		shares("Failing closed", "Share of calls that failed and refused the request with them: failurePolicy Fail, and conversions.", scope.closed),
		shares("Failing open", "Share of calls that failed and let the request pass unchecked: failurePolicy Ignore.", scope.open),
		shares("Rejections", "Share of calls that the webhook answered with no. That is its work, unless it is many more than usual.", scope.rejections),
	}
}

func resourcePanels() []Panel {
	now, whole := selected, selected.withWindow(rankWindow)
	const seriesLabels = "cluster, group, resource"
	return []Panel{
		{
			Title:       "Latency that admission webhooks add, by resource",
			Description: "Mean seconds that all admission webhooks together add to a write: the API server's request duration with and without them. The ten worst of the chosen time range. Narrowing to a webhook does not change it.",
			Kind:        TimeSeries, Unit: unitSeconds, Width: 24, Height: 9,
			Queries: []Query{{
				Expr: withResourceName(topBy(admissionLatency(rateWindow), admissionLatency(rankWindow),
					resourceLabels)),
				Legend: "{{what}} {{cluster}}",
			}},
			Thresholds: []Threshold{{yellow, 0.5}, {red, 1}},
		},
		{
			Title:       "Failed calls, by critical or converted resource",
			Description: "Upper bound: the failed share of all calls of all webhooks that reach the critical, virtual or sensitive resource, and of the conversions of a CRD's objects. The API server does not export on which resource a call failed. The ten worst of the chosen time range.",
			Kind:        TimeSeries, Unit: unitPercent, Width: 24, Height: 9,
			Queries: []Query{{
				Expr:   withReachedName(topBy(resourceFailures(now), resourceFailures(whole), seriesLabels)),
				Legend: "{{what}} {{cluster}}",
			}},
		},
		{
			Title:       "Admission budget of critical resources",
			Description: "The longest that a write can take if every webhook of its chain uses up its timeout. Clients give up after 30 s or less, leases after 10 s. The ten longest.",
			Kind:        Table, Unit: unitSeconds, Width: 24, Height: 9,
			Queries: []Query{{Expr: fmt.Sprintf("topk(%d, %s)", topSeries, withReachedName(`max by (cluster, group, resource, operation) (webhook_auditor_admission_budget_seconds{cluster=~"$cluster"}) > 0`))}},
			Columns: []Column{
				{
					Field: "A", Title: "Seconds", Unit: unitSeconds, Width: 120, Of: 30,
					Thresholds: []Threshold{{green, 0}, {orange, 10}, {red, 30}},
				},
				{Field: "operation", Title: "Operation", Unit: unitText, Width: 120},
				{Field: "what", Title: "Resource", Unit: unitText},
				clusterColumn,
			},
			Unknown: "No webhook reaches a critical resource, or nothing is known.",
		},
	}
}

func overallPanels() []Panel {
	return []Panel{
		{
			Title:       "Latency of the admission steps, p99",
			Description: "All of admission: built-in plugins, policies and webhooks, by step and operation. If this is high and no webhook is, the cause lies in a plugin or a policy.",
			Kind:        TimeSeries, Unit: unitSeconds, Width: 24, Height: 9,
			Queries: []Query{{
				Expr: fmt.Sprintf(`label_replace(%s, "type", "mutating", "type", "admit")`, either(
					`histogram_quantile(0.99, sum by (type, operation, le) (rate(`+promql.StepSeconds+`_bucket{cluster=~"$cluster"}[$__rate_interval])))`,
					`histogram_quantile(0.99, sum by (type, operation) (rate(`+promql.StepSeconds+`{cluster=~"$cluster"}[$__rate_interval])))`,
				)),
				Legend: "{{type}} {{operation}}",
			}},
			Thresholds: []Threshold{{yellow, 0.5}, {red, 1}},
		},
	}
}

func certificatePanels() []Panel {
	expiry := func(title, description, metric string) Panel {
		return Panel{
			Title:       title,
			Description: description + " The ten that expire first; a webhook without such a certificate is not listed.",
			Kind:        Table, Unit: unitDays, Width: 12, Height: 9,
			Queries: []Query{{Expr: fmt.Sprintf(`bottomk(%d, (max by (cluster, type, configuration, name) (%s{%s}) - time()) / 86400)`, topSeries, metric, selected.auditor)}},
			Columns: []Column{
				{
					Field: "A", Title: "Days left", Unit: unitDays, Width: 76,
					Thresholds: []Threshold{{red, -1e9}, {orange, 7}, {green, 30}},
				},
				{Field: "name", Title: "Webhook", Unit: unitText, Width: 290, Links: drillDown("__data.fields")},
				clusterColumn,
				typeColumn, linkCluster,
				{Field: "configuration", Title: "Configuration", Unit: unitText},
			},
			Unknown: "Unknown: no such certificate was seen.",
		}
	}
	return []Panel{
		expiry("CA bundles", "When the last valid CA expires that the API server accepts from the webhook.", "webhook_auditor_webhook_ca_bundle_not_after_timestamp_seconds"),
		expiry("Serving certificates", "When the certificate expires that the webhook itself shows, as the last probe saw it. Empty while probes are off.", "webhook_auditor_webhook_serving_certificate_not_after_timestamp_seconds"),
	}
}

// conditionPanels are about the conditions and findings of clusters, which the variables type
// and name do not choose from.
func conditionPanels() []Panel {
	state := func(status string) string {
		return `max by (cluster, condition) (webhook_auditor_condition{cluster=~"$cluster",condition=~".*Error|Degraded",status="` + status + `"} == 1)`
	}
	return []Panel{
		{
			Title:       "Conditions over time",
			Description: "The conditions that the auditor reports, and what they add up to: Degraded.",
			Kind:        StateTimeline, Unit: unitCount, Width: 10, Height: 8,
			// Names that are longer are cut at their beginnings.
			Queries: []Query{{
				Expr: orUnknown(fmt.Sprintf(`label_replace(%s, "condition", "$1", "condition", "(.+?)(?:Admission)?(?:Webhook)?(?:Configuration)?Error")`,
					"("+either(state("True"), "0 * "+state("False"), "2 * "+state("Unknown"))+")")),
				Legend: "{{condition}} {{cluster}}",
			}},
			Texts: []Text{{"0", "False", green}, {"1", "True", red}, {"2", "Unknown", yellow}, unknownState},
		},
		{
			Title:       "Conditions now",
			Description: "The current status and reason of each condition.",
			Kind:        Table, Unit: unitCount, Width: 14, Height: 8,
			Queries: []Query{{Expr: conditionStates()}},
			Columns: []Column{
				clusterColumn,
				{Field: "condition", Title: "Condition", Unit: unitText, Width: 325},
				{
					Field: "A", Title: "Status", Unit: unitText, Width: 75,
					Texts: []Text{{"1", "True", green}, {"2", "False", green}, {"3", "Unknown", yellow}, {"4", "True", red}, {"5", "False", red}},
				},
				{Field: "status", Title: "Status", Unit: unitText, ConsoleOnly: true},
				{Field: "reason", Title: "Reason", Unit: unitText, Wrap: true},
			},
		},
		{
			Title:       "Findings by severity",
			Description: "All findings that are not acknowledged.",
			Kind:        StackedTimeSeries, Unit: unitCount, Width: 24, Height: 8,
			Queries: []Query{bySeverity("info", blue), bySeverity("warning", orange), bySeverity("critical", red)},
		},
	}
}

// conditionStates is one series per condition, whose value stands for what its status means:
// errors are good while False, Available and Upgradeable while True, and
// Progressing passes either way.
func conditionStates() string {
	now := func(matcher string) string {
		return `max by (cluster, condition, status, reason) (webhook_auditor_condition{cluster=~"$cluster",` + matcher + `} == 1)`
	}
	const bad = `.*Error|Degraded|EvaluationConditionsDetected`
	return either(
		now(`status="True",condition!~"`+bad+`"`),
		"2 * "+now(`status="False",condition=~"`+bad+`|Progressing"`),
		"3 * "+now(`status="Unknown"`),
		"4 * "+now(`status="True",condition=~"`+bad+`"`),
		"5 * "+now(`status="False",condition!~"`+bad+`|Progressing"`),
	)
}

func bySeverity(severity, color string) Query {
	return Query{
		Expr:   `max by (cluster, severity) (webhook_auditor_findings{cluster=~"$cluster",severity="` + severity + `",acknowledged="false"})`,
		Legend: "{{severity}} {{cluster}}", Color: color,
	}
}
