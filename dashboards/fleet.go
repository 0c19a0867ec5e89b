package dashboards

// fleet is the board about all clusters of a store: which of them needs attention.
func fleet() Board {
	return Board{
		Name:        "fleet",
		Title:       "Webhooks of all clusters",
		Description: "Which clusters have unhealthy webhooks? A row per cluster; one click into it.",
		GrafanaOnly: true,
		Variables:   []Variable{clusterVariable},
		Alerts:      `name!=""`,
		Links:       []Link{toBoard("All webhooks", "webhooks"), toBoard("The auditor", "auditor")},
		Rows:        []Row{{Panels: []Panel{clustersPanel()}}},
	}
}

// allWebhooks is each webhook of the chosen clusters.
var allWebhooks = scope{
	admission:  `cluster=~"$cluster"`,
	conversion: `cluster=~"$cluster"`,
	auditor:    `cluster=~"$cluster"`,
	window:     rateWindow,
}

func clustersPanel() Panel {
	info := `max by (cluster, type, configuration, name) (webhook_auditor_webhook_info{cluster=~"$cluster"})`
	const known = `group by (cluster) (webhook_auditor_webhook_info{cluster=~"$cluster"} or apiserver_admission_webhook_request_total{cluster=~"$cluster"})`
	with := lookup{"cluster", known}
	number := func(rows, measured string) string {
		return "(count by (cluster) (" + rows + ")\nor 0 * count by (cluster) (" + measured + "))"
	}
	findings := func(severity string) string {
		return `max by (cluster) (webhook_auditor_findings{cluster=~"$cluster",severity="` + severity + `",acknowledged="false"})`
	}
	called := "sum by (" + webhookLabels + `) (apiserver_admission_webhook_request_total{cluster=~"$cluster"})`
	bad := func(color string) []Threshold { return []Threshold{{green, 0}, {color, 1}} }
	rows := with.number(known, "failing", number("("+allWebhooks.failures()+") > 0", called))
	rows = with.number(rows, "slow", number("("+allWebhooks.latency("0.99")+")\n> on ("+webhookLabels+") "+allWebhooks.threshold(), called))
	rows = with.number(rows, "down", number(`max by (cluster, type, configuration, name) (webhook_auditor_webhook_backend_ready{cluster=~"$cluster"}) == 0`, info))
	rows = with.number(with.number(rows, "critical", findings("critical")), "warnings", findings("warning"))
	rows = with.number(rows, "age", `(time() - max by (cluster) (webhook_auditor_snapshot_timestamp_seconds{cluster=~"$cluster"}))`)
	rows = withDefault(with.number(rows, "webhooks", "count by (cluster) ("+info+")"), "cluster", "this cluster")
	return Panel{
		Title:       "Clusters",
		Description: "Webhooks that fail or are slow now, findings that are not acknowledged, and how old the auditor's view of the cluster is. An empty cell: not measured there.",
		Kind:        Table, Unit: unitCount, Width: 24, Height: 16,
		Queries: []Query{{Expr: rows + "\nor on () " + withLabel("vector(0)", "cluster", "Unknown: no cluster exports anything.", "cluster")}},
		Columns: []Column{
			{Field: "cluster", Title: "Cluster", Unit: unitText, Links: []Link{{Title: "Open this cluster", URL: "/d/webhook-auditor-webhooks?var-cluster=${__data.fields.at}&" + keptParameters}}},
			{Field: "failing", Number: true, Title: "Failing", Unit: unitCount, Width: 100, Thresholds: bad(red)},
			{Field: "slow", Number: true, Title: "Slow", Unit: unitCount, Width: 100, Thresholds: bad(orange)},
			{Field: "down", Number: true, Title: "No backend", Unit: unitCount, Width: 110, Thresholds: bad(red)},
			{Field: "critical", Number: true, Title: "Critical", Unit: unitCount, Width: 100, Thresholds: bad(red)},
			{Field: "warnings", Number: true, Title: "Warnings", Unit: unitCount, Width: 100, Thresholds: bad(orange)},
			{Field: "age", Number: true, Title: "Auditor's age", Unit: unitSeconds, Width: 120, Thresholds: []Threshold{{green, 0}, {orange, 180}, {red, 600}}},
			{Field: "webhooks", Number: true, Title: "Webhooks", Unit: unitCount, Width: 100},
			linkCluster,
		},
		Unknown: "Unknown: no cluster exports anything.",
	}
}
