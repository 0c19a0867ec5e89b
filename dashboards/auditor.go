package dashboards

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
			{Title: "Over time, and versions", Panels: progressPanels()},
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
		statPanel("Series dropped", "Series beyond the bounds of their families: the boards do not show them. --web.max-series sets other bounds.",
			`sum(max by (cluster, family) (webhook_auditor_series_dropped{cluster=~"$cluster"}))`, orange),
	})
}

func progressPanels() []Panel {
	return []Panel{
		{
			Title:       "Data age over time",
			Description: "How long ago every watch was known current. It stays near a minute while all watches work.",
			Kind:        TimeSeries, Unit: unitSeconds, Width: 24, Height: 8,
			Queries: []Query{{Expr: `time() - max by (cluster) (webhook_auditor_snapshot_timestamp_seconds{cluster=~"$cluster"})`, Legend: "data age {{cluster}}"}},
		},
		{
			Title:       "Watch errors by resource",
			Description: "Failed lists and watches: while one fails, what the auditor knows grows old.",
			Kind:        TimeSeries, Unit: unitCount, Width: 24, Height: 8,
			Queries: []Query{{Expr: `max by (cluster, group, resource) (increase(webhook_auditor_watch_errors_total{cluster=~"$cluster"}[$__rate_interval]))`, Legend: "{{resource}} {{group}} {{cluster}}"}},
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
		},
	}
}
