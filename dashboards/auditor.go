package dashboards

import "fmt"

// auditor is the board about the auditor itself.
func auditor() Board {
	return Board{
		Name:        "auditor",
		Title:       "Webhook auditor",
		Description: "Can the findings be trusted? Whether the auditor is up, sees the cluster and gets its conditions written.",
		Variables:   []Variable{clusterVariable},
		Alerts:      `alertname=~"WebhookAuditor.*|WebhookInputMetricsMissing"`,
		Links:       []Link{toBoard("All webhooks", "webhooks"), toBoard("All clusters", "fleet")},
		Rows: []Row{
			{Panels: healthPanels()},
			{Title: "Findings and conditions", Panels: findingPanels()},
			{Title: "Bounds and versions", Panels: boundPanels()},
		},
	}
}

// replicas is one series per process of the auditor.
const replicas = `max by (cluster, instance) (webhook_auditor_build_info{cluster=~"$cluster"})`

func healthPanels() []Panel {
	return widened(8, []Panel{
		statPanel("Replicas", "Processes that answer scrapes.", "count("+replicas+")", green).withUnit(unitCount, Threshold{red, 0}, Threshold{green, 1}),
		statPanel("Data age", "How long ago every watch was known current. Grows while one is broken.",
			`time() - min(max by (cluster) (webhook_auditor_snapshot_timestamp_seconds{cluster=~"$cluster"}))`, red).
			withUnit(unitSeconds, Threshold{green, 0}, Threshold{orange, 180}, Threshold{red, 600}),
		statPanel("Watch errors", "Failed lists and watches in the last minutes. Those of a restart of the API server pass; while they last, what the auditor knows grows old.",
			`sum(ceil(max by (cluster, group, resource) (increase(webhook_auditor_watch_errors_total{cluster=~"$cluster"}[$__rate_interval]))))`, red),
		statPanel("Write errors", "Failed writes of conditions in the last minutes.",
			`sum(ceil(max by (cluster) (increase(webhook_auditor_condition_write_errors_total{cluster=~"$cluster"}[$__rate_interval]))))`, orange),
		statPanel("Evaluation time", "p99 of what the checks take on one snapshot of the cluster.",
			`histogram_quantile(0.99, max by (le) (rate(webhook_auditor_evaluation_duration_seconds_bucket{cluster=~"$cluster"}[$__range])))`, orange).
			withUnit(unitSeconds, Threshold{green, 0}, Threshold{orange, 0.5}, Threshold{red, 1}),
		statPanel("Cluster degraded", "Whether the auditor calls the cluster degraded.",
			`max(max by (cluster) (webhook_auditor_condition{cluster=~"$cluster",condition="Degraded",status="True"} == 1)) or 0 * max(max by (cluster) (webhook_auditor_condition{cluster=~"$cluster",condition="Degraded"}))`, red).
			withTexts(Text{"0", "no", green}, Text{"1", "yes", red}),
	})
}

func findingPanels() []Panel {
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
				{Field: "A", Title: "Status", Unit: unitText, Width: 75, Texts: []Text{{"1", "True", green}, {"2", "False", green}, {"3", "Unknown", yellow}, {"4", "True", red}, {"5", "False", red}}},
				{Field: "status", Title: "Status", Unit: unitText, ConsoleOnly: true},
				{Field: "reason", Title: "Reason", Unit: unitText, Wrap: true},
			},
			Unknown: unknownTable,
		},
		{
			Title:       "Findings by severity",
			Description: "All findings that are not acknowledged.",
			Kind:        StackedTimeSeries, Unit: unitCount, Width: 24, Height: 8,
			Queries: []Query{bySeverity("info", blue), bySeverity("warning", orange), bySeverity("critical", red)},
		},
		{
			Title:       "Watch errors by resource",
			Description: "Failed lists and watches: while one fails, what the auditor knows grows old.",
			Kind:        TimeSeries, Unit: unitCount, Width: 24, Height: 8,
			Queries: []Query{{Expr: `max by (cluster, group, resource) (increase(webhook_auditor_watch_errors_total{cluster=~"$cluster"}[$__rate_interval]))`, Legend: "{{resource}} {{group}} {{cluster}}"}},
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

func boundPanels() []Panel {
	return []Panel{
		{
			Title:       "Series dropped",
			Description: "Series beyond the bounds of their families: the boards do not show them. --web.max-series sets other bounds.",
			Kind:        TimeSeries, Unit: unitCount, Width: 24, Height: 8,
			Queries: []Query{{Expr: `sum by (cluster) (max by (cluster, family) (webhook_auditor_series_dropped{cluster=~"$cluster"}))`, Legend: "{{cluster}}"}},
		},
		{
			Title:       "Versions",
			Description: "Which build each replica is.",
			Kind:        Table, Unit: unitCount, Width: 24, Height: 5,
			Queries: []Query{{Expr: `max by (cluster, instance, version, revision, goversion) (webhook_auditor_build_info{cluster=~"$cluster"})`}},
			Columns: []Column{
				{Field: "instance", Title: "Replica", Unit: unitText},
				{Field: "version", Title: "Version", Unit: unitText, Width: 150},
				{Field: "revision", Title: "Revision", Unit: unitText, Width: 360},
				{Field: "goversion", Title: "Go", Unit: unitText, Width: 110},
				clusterColumn,
			},
			Unknown: unknownTable,
		},
	}
}
