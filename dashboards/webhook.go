package dashboards

import (
	"fmt"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// oneWebhook is the webhook that the board "Webhook" is about. A webhook and a CRD may
// have the same name, so conversions count for the type "conversion" alone.
var oneWebhook = scope{
	admission:  `cluster=~"$cluster",type="$type",name="$name"`,
	conversion: `cluster=~"$cluster",crd_name="$name"`,
	auditor:    `cluster=~"$cluster",type="$type",configuration=~"$configuration",name="$name"`,
	guard:      ` and on (type) label_replace(vector(1), "type", "$type", "", "")`,
	window:     rateWindow,
}

// webhook is the board about one webhook, with all its series.
func webhook() Board {
	const info = `webhook_auditor_webhook_info{cluster=~"$cluster",type="$type"`
	return Board{
		Name:        "webhook",
		Title:       "Webhook",
		Description: "One webhook: what it does, what it reaches, what is wrong with it, who answers its calls and who owns it.",
		Variables: slices.Concat([]Variable{
			clusterVariable,
			{
				Name: "type", Label: "Type", Description: "The type of the webhook.", Metric: "webhook_auditor_webhook_info", Value: "type",
				Fixed: []Choice{{"mutating", "admit"}, {"validating", "validating"}, {"conversion", "conversion"}},
			},
			{
				Name: "configuration", Label: "Configuration", Description: "The object that registers the webhook, where several register the same name.",
				Metric: info + `}`, Value: "configuration", All: ".*",
			},
			{
				Name: "name", Label: "Webhook", Description: "The name of the webhook, or of the CRD that it converts.",
				Metric: info + `,configuration=~"$configuration"}`, Value: "name",
			},
			logs,
		}, keptChoices),
		Alerts:  `type="$type",name="$name"`,
		Changes: `type="$type",configuration=~"$configuration"`,
		Links:   []Link{backToBoard(), toBoard("The auditor", "auditor"), pageOf("type:percentencode", "name:percentencode")},
		Rows: []Row{
			{Panels: append(webhookStats(), failuresPanel(), registrationPanel(), findingsPanel(), alertsPanel(),
				reachPanel())},
			{Title: "Calls", Panels: callPanels()},
			{Title: "Backend", Panels: backendPanels()},
			{Title: "Latency that it is part of, match conditions", Closed: true, Panels: seldomPanels()},
		},
	}
}

func (p Panel) withUnit(unit Unit, thresholds ...Threshold) Panel {
	p.Unit, p.Thresholds = unit, thresholds
	return p
}

func (p Panel) withTexts(texts ...Text) Panel {
	p.Texts = texts
	return p
}

// webhookStats are the four numbers that an incident asks for first.
func webhookStats() []Panel {
	whole := oneWebhook.withWindow(rangeWindow)
	return widened(6, []Panel{
		statPanel("Backend", "Whether the backend has a ready endpoint.",
			`min(max by (cluster, configuration) (webhook_auditor_webhook_backend_ready{`+oneWebhook.auditor+`}))`, red).
			withUnit(unitCount, Threshold{red, 0}, Threshold{green, 1}).withTexts(Text{"0", "not ready", red},
			Text{"1", "ready", green}),
		statPanel("Failed calls", "Share of calls in the chosen time range that failed, whether that refused the request or not.", overallRatio(whole.failures(), whole.calls()), red).
			withUnit(unitPercent, Threshold{green, 0}, Threshold{orange, 0.001}, Threshold{red, 0.01}),
		statPanel("If it fails", "What becomes of requests while the webhook fails.",
			fmt.Sprintf(`max(max by (cluster) (webhook_auditor_webhook_failure_impact{impact="closed",%[1]s}) or 0 * max by (cluster) (webhook_auditor_webhook_failure_impact{impact="open",%[1]s}))`, oneWebhook.admission), orange).
			withUnit(unitCount, Threshold{blue, 0}, Threshold{orange, 1}).withTexts(Text{"0", "pass", blue},
			Text{"1", "refuse", orange}),
		statPanel("p99 latency", "One call of a hundred now takes longer than this.", "max("+oneWebhook.latency("0.99")+")", red).
			withUnit(unitSeconds, Threshold{blue, 0}, Threshold{orange, 0.5}, Threshold{red, 1}),
	})
}

// untilExpiry is the days until the first of the webhook's certificates expires.
func untilExpiry(title, description, metric string) Panel {
	left := fmt.Sprintf(`min((max by (cluster, configuration) (%s{%s}) - time()) / 86400)`, metric, oneWebhook.auditor)
	return statPanel(title, description, left, red).withUnit(unitDays, Threshold{red, -1e9}, Threshold{orange, 7},
		Threshold{green, 30})
}

// budgetPanel is what is left of the calls that may fail: one of a hundred, in
// thirty days. It is asked of one webhook alone: of all, it would read more
// samples than Prometheus allows.
func budgetPanel() Panel {
	month := oneWebhook.withWindow("[30d]")
	left := "clamp_min(1 - 100 * " + overallRatio(month.failures(), month.calls()) + ", 0)"
	return statPanel("Failure budget left", "What is left of the failure budget of the last thirty days: one call of a hundred may fail.", left, red).
		withUnit(unitPercent, Threshold{orange, 0}, Threshold{green, 0.25}).withTexts(Text{"0", "spent", red})
}

func registeredOnce() string {
	return `max by (cluster, configuration) (webhook_auditor_webhook_info{` + oneWebhook.auditor + `})`
}

func registrationPanel() Panel {
	const labels = "cluster, type, configuration, failure_policy, match_policy, backend, service_namespace, service_name, approved, owner"
	info := `max by (` + labels + `) (webhook_auditor_webhook_info{` + oneWebhook.auditor + `})`
	changed := `max by (cluster, type, configuration) (webhook_auditor_webhook_configuration_changed_timestamp_seconds{cluster=~"$cluster",type="$type",configuration=~"$configuration"})`
	expr := fmt.Sprintf("(time() - %s) * on (cluster, type, configuration) group_right () %s\nor -1 * %s", changed, info, info)
	for _, label := range []string{"owner", "match_policy", "service_namespace", "service_name"} {
		expr = withDefault("("+expr+")", label, "none")
	}
	return Panel{
		Title:       "Registration and owner",
		Description: "What the configuration says, who installed it, and how long ago it changed. One row per configuration that registers this name.",
		Kind:        Table, Unit: unitText, Width: 24, Height: 4,
		Queries: []Query{{Expr: orNone("topk(20, "+expr+")", anyRegistered, "configuration", "Not registered")}},
		Columns: []Column{
			{Field: "configuration", Title: "Configuration", Unit: unitText, Width: 230},
			clusterColumn,
			{
				Field: "A", Title: "Changed ago", Unit: unitAge, Width: 105,
				Texts: []Text{{Value: "-1", Text: "unknown"}, {Value: "0", Text: " "}},
			},
			{Field: "failure_policy", Title: "On failure", Unit: unitText, Width: 90},
			{Field: "owner", Title: "Owner", Unit: unitText, Width: 120},
			{Field: "service_namespace", Title: "Namespace", Unit: unitText, Width: 120, Links: []Link{logsOf}},
			{Field: "service_name", Title: "Service", Unit: unitText, Width: 120},
			{Field: "match_policy", Title: "Match", Unit: unitText, Width: 95},
			{Field: "backend", Title: "Backend", Unit: unitText, Width: 85},
			{Field: "approved", Title: "Approved", Unit: unitText},
		},
	}
}

// anyRegistered is there where the auditor exports anything of the cluster.
const anyRegistered = `max by (cluster) (webhook_auditor_webhook_info{cluster=~"$cluster"})`

// logsOf leads to the logs of the namespace that the backend runs in.
var logsOf = Link{
	Title: "Logs of the namespace, in Loki", Outside: true,
	URL: `/explore?schemaVersion=1&panes={"logs":{"datasource":"${logs:raw}","queries":[{"refId":"A","expr":"{namespace=\"${__data.fields.service_namespace}\"}"}],"range":{"from":"${__from}","to":"${__to}"}}}`,
}

func findingsPanel() Panel {
	names := []string{"info", "warning", "critical"}
	byRank := func(n int) string {
		findings := fmt.Sprintf(`max by (cluster, severity, check, type, configuration, name, group, resource) (webhook_auditor_finding{severity=%q,%s})`, names[n-1], oneWebhook.auditor)
		return withLabel(findings, "rank", fmt.Sprint(len(names)+1-n), "rank")
	}
	return Panel{
		Title:       "Findings and runbooks",
		Description: "The findings on it, and the first command for each. The check leads to its runbook.",
		Kind:        Table, Unit: unitCount, Width: 24, Height: 7,
		Queries: []Query{{Expr: orNone(explained("topk(20, "+withDefault(withReachedName(fmt.Sprintf("(3 * %s\nor 2 * %s\nor %s)",
			byRank(3), byRank(2), byRank(1))), "what", "all of it")+")", oneWebhook), registeredOnce(), "severity", "none")}},
		Columns: []Column{
			{Field: "rank", Title: "#", Unit: unitText, ConsoleOnly: true},
			{Field: "severity", Title: "Severity", Unit: unitText, Width: 90, Texts: severities},
			{Field: "check", Title: "Check", Unit: unitText, Width: 190, Links: []Link{runbook}},
			messageColumn,
			commandColumn,
			{Field: "what", Title: "Resource", Unit: unitText, Width: 140},
		},
	}
}

func reachPanel() Panel {
	return Panel{
		Title:       "Resources it reaches",
		Description: "The critical, virtual and sensitive resources that it is called for, at most fifty.",
		Kind:        Table, Unit: unitCount, Width: 24, Height: 7,
		Queries: []Query{{Expr: orNone("topk(50, "+withReachedName(`max by (cluster, class, group, resource) (webhook_auditor_webhook_reach{`+oneWebhook.auditor+`})`)+")",
			registeredOnce(), "what", "None that is critical, virtual or sensitive")}},
		Columns: []Column{
			{Field: "what", Title: "Resource", Unit: unitText},
			{Field: "class", Title: "Class", Unit: unitText, Width: 95},
		},
	}
}

func alertsPanel() Panel {
	countOf := func(severity string) string {
		return `max by (cluster, alertname, alertstate, severity) (ALERTS{severity="` + severity + `",cluster=~"$cluster",alertname=~"Webhook.*",type="$type",name="$name"})`
	}
	return Panel{
		Title:       "Alerts",
		Description: "Alerts about it, firing or about to, the worst first. The name leads to the list of alerts with their runbooks.",
		Kind:        Table, Unit: unitCount, Width: 24, Height: 6,
		Queries: []Query{{Expr: orNone(fmt.Sprintf("topk(20, 3 * %s\nor 2 * %s\nor %s)", countOf("critical"), countOf("warning"), countOf("info")), rulesLoaded, "severity", "none")}},
		Columns: []Column{
			{Field: "severity", Title: "Severity", Unit: unitText, Width: 90, Texts: severities},
			{Field: "alertname", Title: "Alert", Unit: unitText, Links: []Link{{Title: "Runbook", URL: report.Project + "/blob/main/rules/ALERTS.md#:~:text=${__data.fields.alertname:raw}", Outside: true}}},
			{Field: "alertstate", Title: "State", Unit: unitText, Width: 80},
		},
		Unknown: "Unknown: the rules are not loaded.",
	}
}

func failuresPanel() Panel {
	return Panel{
		Title:       "Failures and rejections",
		Description: "Calls that failed and refused the request, that failed and let it pass, and that the webhook answered with no.",
		Kind:        TimeSeries, Unit: unitRate, Width: 24, Height: 8,
		Queries: []Query{
			{Expr: "sum(" + oneWebhook.closed() + ")", Legend: "failed, request refused", Color: red},
			{Expr: "sum(" + oneWebhook.open() + ")", Legend: "failed, request passed", Color: orange},
			{Expr: "sum(" + oneWebhook.rejections() + ")", Legend: "rejected", Color: blue},
			{Expr: "sum(" + oneWebhook.calls() + ")", Legend: "all calls", Total: true},
		},
	}
}

func callPanels() []Panel {
	quantile := func(q, legend string) Query { return Query{Expr: oneWebhook.latency(q), Legend: legend} }
	threshold := `max by (cluster) (webhook_auditor_webhook_latency_threshold_seconds{` + oneWebhook.admission + `})`
	return []Panel{
		{
			Title:       "Latency",
			Description: "The time that its calls take, and from where on the auditor calls it slow.",
			Kind:        TimeSeries, Unit: unitSeconds, Width: 12, Height: 9,
			Queries: []Query{quantile("0.9", "p90"), quantile("0.99", "p99"), {Expr: threshold, Legend: "threshold", Total: true}},
		},
		{
			Title:       "Calls by operation or versions",
			Description: "How often the API server calls it: admissions by their operation, conversions by the versions between which they convert.",
			Kind:        StackedTimeSeries, Unit: unitRate, Width: 12, Height: 9,
			Queries: []Query{
				{Expr: `sum by (operation) (rate(` + promql.Requests + `{cluster=~"$cluster",type="$type",name="$name"}[$__rate_interval]))`, Legend: "{{operation}}"},
				{Expr: "sum by (from_version, to_version) (" + oneWebhook.conversions("_count", "") + ")", Legend: "{{from_version}} to {{to_version}}"},
			},
		},
	}
}

// seldomPanels are those that most webhooks have nothing for.
func seldomPanels() []Panel {
	return []Panel{
		{
			Title:       "Latency that all admission webhooks add to the resources it reaches",
			Description: "Mean seconds that the whole chain adds to a write of a critical, virtual or sensitive resource in its reach; this webhook is one part of it. The ten worst of the chosen time range.",
			Kind:        TimeSeries, Unit: unitSeconds, Width: 24, Height: 8,
			Queries: []Query{{
				Expr: withResourceName("(" +
					topBy(inReach(admissionLatency(rateWindow)), inReach(admissionLatency(rankWindow)),
						resourceLabels) + ")"),
				Legend: "{{what}} {{cluster}}",
			}},
		},
		{
			Title:       "Match conditions",
			Description: "Calls that its matchConditions spared, and evaluations of them that failed: with failurePolicy Fail a failed one refuses the request, and no other series shows it.",
			Kind:        TimeSeries, Unit: unitRate, Width: 24, Height: 8,
			Queries: []Query{
				{Expr: `sum by (operation) (rate(` + promql.Exclusions + `{cluster=~"$cluster",kind="webhook",name="$name"}[$__rate_interval]))`, Legend: "{{operation}} spared"},
				{Expr: `sum by (operation) (rate(` + promql.MatchConditionErrors + `{cluster=~"$cluster",kind="webhook",name="$name"}[$__rate_interval]))`, Legend: "{{operation}} failed"},
			},
		},
	}
}

// inReach keeps the resources that the webhook reaches.
func inReach(expr string) string {
	return fmt.Sprintf("(%s) and on (cluster, group, resource) max by (cluster, group, resource) (webhook_auditor_webhook_reach{%s})", expr, oneWebhook.auditor)
}

func backendPanels() []Panel {
	state := func(metric string) string {
		return `min by (cluster) (max by (cluster, configuration) (` + metric + `{` + oneWebhook.auditor + `}))`
	}
	return append(widened(8, []Panel{
		budgetPanel(),
		untilExpiry("CA expires in", "Until the last valid CA of its bundle expires.", "webhook_auditor_webhook_ca_bundle_not_after_timestamp_seconds"),
		untilExpiry("Certificate expires in", "Until the certificate expires that it showed to the last probe.", "webhook_auditor_webhook_serving_certificate_not_after_timestamp_seconds"),
	}), Panel{
		Title:       "Backend over time",
		Description: "Whether an endpoint was ready, and whether the probe's TLS dial succeeded. Empty stretches: it could not be known.",
		Kind:        StateTimeline, Unit: unitCount, Width: 24, Height: 6,
		Queries: []Query{
			{Expr: orUnknown(state("webhook_auditor_webhook_backend_ready")), Legend: "endpoints {{cluster}}"},
			{Expr: state("webhook_auditor_webhook_probe_success"), Legend: "probe {{cluster}}"},
		},
		Texts: []Text{{"1", "ready", green}, {"0", "not ready", red}, unknownState},
	})
}
