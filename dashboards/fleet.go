package dashboards

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
)

// fleet is the board about all clusters of a store: which of them needs attention. It
// reads the few series that the rules record of each cluster, so that it answers for a
// hundred.
func fleet() Board {
	return Board{
		Name:        "fleet",
		Title:       "Webhooks of all clusters",
		Description: "Which clusters have unhealthy webhooks? One click into each. Needs the rules that print rules --fleet-summary prints.",
		GrafanaOnly: true,
		Variables:   []Variable{clusterVariable},
		Alerts:      `name!=""`,
		Links:       []Link{toBoard("All webhooks", "webhooks"), toBoard("The auditor", "auditor")},
		Rows: []Row{
			{Panels: append(fleetTotals(), badClustersPanel(), failingPanel(), slowestPanel(), withoutAuditorPanel(),
				outdatedPanel())},
			{Title: "Differences between clusters", Closed: true, Panels: []Panel{driftPanel()}},
		},
	}
}

// mostRows is how many rows a table of the board has; the totals stand above.
const mostRows = 20

// summarized is what the rules record of each cluster, once: in a store, a Ruler's may
// stand beside that of the cluster.
func summarized(record, labelNames string, matchers ...string) string {
	return fmt.Sprintf("max by (%s) (%s{%s})", labelNames, record, join(append(matchers, `cluster=~"$cluster"`)...))
}

// cells are the numbers of a cluster in a table, as expressions with a series for each
// cluster where they are known.
type cells struct{ failing, slow, down, critical, warnings, age string }

var summaryCells = cells{
	failing:  summarized(promql.SummaryFailing, "cluster"),
	slow:     summarized(promql.SummarySlow, "cluster"),
	down:     summarized(promql.SummaryWithoutBackend, "cluster"),
	critical: summarized(promql.SummaryFindings, "cluster", `severity="critical"`),
	warnings: summarized(promql.SummaryFindings, "cluster", `severity="warning"`),
	age:      "(time() - " + summarized(promql.SummaryTimestamp, "cluster") + ")",
}

// staleAfter is the age in seconds from which an auditor's view of its cluster is none.
const staleAfter = 600

// badClusters is one series per cluster in which anything is wrong. Its value orders them:
// calls that fail and backends that are gone first, then critical findings, then what is
// slow.
func badClusters() string {
	c := summaryCells
	var parts []string
	for i, part := range []string{
		"1e6 * " + c.failing, "1e6 * " + c.down, "1e3 * " + c.critical, "1e3 * (" + c.age + fmt.Sprintf(" > bool %d)", staleAfter), c.slow,
	} {
		parts = append(parts, withLabel(part, "part", fmt.Sprint(i), "part"))
	}
	return "sum by (cluster) (" + either(parts...) + ") > 0"
}

// summarizedClusters is one series per cluster that the rules record anything of.
const summarizedClusters = `group by (cluster) (` + promql.SummaryFailing + `{cluster=~"$cluster"} or ` + promql.SummaryTimestamp + `{cluster=~"$cluster"})`

// withoutAuditor is one series per cluster that has none now: its API servers are
// measured, or it had one in the chosen time range.
const withoutAuditor = `group by (cluster) (` + promql.SummaryFailing + `{cluster=~"$cluster"} or last_over_time(` + promql.SummaryTimestamp + `{cluster=~"$cluster"}` + rangeWindow + `))
unless on (cluster) ` + promql.SummaryTimestamp + `{cluster=~"$cluster"}`

// versions is one series per cluster and version of an auditor in it, commonVersion the
// version that most have.
var (
	versions      = summarized(promql.SummaryVersions, "cluster, version")
	commonVersion = "topk(1, count by (version) (" + versions + "))"
	outdated      = versions + "\nunless on (version) " + commonVersion
)

// failingWebhooks is in how many clusters each webhook fails.
var failingWebhooks = "count by (type, name) (" + summarized(promql.SummaryWorstFailing, webhookLabels) + ")"

func fleetTotals() []Panel {
	out := []Panel{
		statPanel("Clusters", "Clusters of which the rules record anything.", "count("+summarizedClusters+")", blue).withUnit(unitCount, Threshold{blue, 0}),
		statPanel("Clusters in trouble", "Clusters with webhooks that fail, are slow or have no backend, with critical findings, or an auditor whose view is old.", countOrZero(badClusters(), summarizedClusters), red),
		statPanel("Failing webhooks", "Webhooks that fail in a cluster or more. One that is registered in many counts once; of each cluster, the five that fail most.", countOrZero(failingWebhooks, summaryCells.failing), red),
		statPanel("Without auditor", "Clusters without an auditor now.", countOrZero(withoutAuditor, summarizedClusters), orange),
		statPanel("Outdated auditors", "Auditors whose version is not that of most.", countOrZero(outdated, versions), orange),
	}
	for i, width := range []int{8, 8, 8, 12, 12} {
		out[i].Width = width
	}
	return out
}

// ranked are the first rows, in the order of their values, and a row with the text none
// where there are none but measured has series.
func ranked(rows, measured, label, none string) string {
	return "sort_desc(" + orNone(rows, measured, label, none) + ")"
}

func badClustersPanel() Panel {
	rows := clusterCells(fmt.Sprintf("topk(%d, %s)", mostRows, badClusters()))
	return Panel{
		Title:       "Worst clusters",
		Description: "The worst first, at most twenty: webhooks that fail or are slow now or have no backend, findings that are not acknowledged, and how old the auditor's view of the cluster is. A dash: not measured there.",
		Kind:        Table, Unit: unitCount, Width: 14, Height: 12,
		Queries: []Query{{Expr: ranked("("+rows+")", summarizedClusters, "cluster", "None is in trouble")}},
		Columns: clusterColumns(),
		Unknown: noSummary,
	}
}

// noSummary is the text of a table without the series that the rules record.
const noSummary = "Unknown: nothing is recorded by the rules that print rules --fleet-summary prints."

// acrossClusters leads to the board of a webhook in all clusters, or in that of its row.
var acrossClusters = []Link{{
	Title: "Open it there",
	URL:   "/d/webhook-auditor-webhook?var-type=${__data.fields.type}&var-name=${__data.fields.name}&var-cluster=${__data.fields.at}&" + keptParameters,
}}

// intoCluster leads to all webhooks of a row's cluster.
var intoCluster = []Link{{Title: "Open this cluster", URL: "/d/webhook-auditor-webhooks?var-cluster=${__data.fields.at}&" + keptParameters}}

func failingPanel() Panel {
	all := "count(" + summarizedClusters + ")"
	info := lookup{"type, name", "group by (type, name) (" + failingWebhooks + ")"}
	rows := info.number(fmt.Sprintf("topk(%d, %s)", mostRows, failingWebhooks), "share",
		"max by (type, name) ("+summarized(promql.SummaryWorstFailing, webhookLabels)+")")
	rows = withDefault("("+rows+`) * on () group_left (of) count_values("of", `+all+")", "of", "-")
	return Panel{
		Title:       "Failing webhooks by clusters",
		Description: "In how many clusters each fails. Of each cluster, the five that fail most. At most twenty. Worst: the share of its calls that fail in the cluster where most of them do.",
		Kind:        Table, Unit: unitCount, Width: 10, Height: 12,
		Queries: []Query{{Expr: ranked(rows, summaryCells.failing, "name", "None fails")}},
		Columns: []Column{
			{Field: "name", Title: "Webhook", Unit: unitText, Links: acrossClusters},
			{Field: "type", Title: "Type", Unit: unitText, Hidden: true},
			{Field: "A", Title: "Clusters", Unit: unitCount, Width: 75, Thresholds: []Threshold{{green, 0}, {red, 1}}},
			{Field: "of", Title: "Of", Unit: unitText, Width: 50},
			{Field: "share", Number: true, Title: "Worst", Unit: unitPercent, Width: 70},
			linkCluster,
		},
		Unknown: noSummary,
	}
}

func slowestPanel() Panel {
	slowest := summarized(promql.SummaryWorstLatency, webhookLabels)
	return Panel{
		Title:       "Slowest webhooks",
		Description: "One call of a hundred takes longer than this. Of each cluster, the three slowest. At most twenty.",
		Kind:        Table, Unit: unitSeconds, Width: 10, Height: 9,
		Queries: []Query{{Expr: "sort_desc(" + fmt.Sprintf("topk(%d, %s)", mostRows, slowest) + ")"}},
		Columns: []Column{
			{Field: "name", Title: "Webhook", Unit: unitText, Links: acrossClusters},
			{Field: "cluster", Title: "Cluster", Unit: unitText, Width: 110},
			{Field: "type", Title: "Type", Unit: unitText, Hidden: true},
			{Field: "A", Title: "p99", Unit: unitSeconds, Width: 75},
			linkCluster,
		},
		Unknown: noSummary,
	}
}

func withoutAuditorPanel() Panel {
	return Panel{
		Title:       "Missing auditors",
		Description: "Clusters whose API servers are measured, or that had an auditor in the chosen time range, and have none now. At most twenty.",
		Kind:        Table, Unit: unitSeconds, Width: 6, Height: 9,
		Queries: []Query{{Expr: ranked(fmt.Sprintf("topk(%d, %s)", mostRows, withoutAuditor), summarizedClusters, "cluster", "Each has one")}},
		Columns: []Column{{Field: "cluster", Title: "Cluster", Unit: unitText, Links: intoCluster}, linkCluster},
		Unknown: noSummary,
	}
}

func outdatedPanel() Panel {
	common := `label_replace(0 * ` + commonVersion + ` + 1, "most", "$1", "version", "(.+)")`
	rows := fmt.Sprintf("topk(%d, %s) * on () group_left (most) %s", mostRows, outdated, common)
	return Panel{
		Title:       "Versions behind",
		Description: "Auditors whose version is not that of most. At most twenty.",
		Kind:        Table, Unit: unitCount, Width: 8, Height: 9,
		Queries: []Query{{Expr: ranked(rows, versions, "cluster", "None")}},
		Columns: []Column{
			{Field: "cluster", Title: "Cluster", Unit: unitText, Links: intoCluster},
			{Field: "version", Title: "Version", Unit: unitText, Width: 110},
			{Field: "most", Title: "Most have", Unit: unitText, Width: 110},
			linkCluster,
		},
		Unknown: noSummary,
	}
}

// drift is one series per webhook and way to register it that is not that of most
// clusters: in how many it is so.
func drift() string {
	registrations := recordedOf(promql.FleetRegistrations, promql.Variant)
	timeouts := recordedOf(promql.FleetTimeouts, promql.RegisteredAs+", timeout")
	rarely := func(clusters string) string {
		return fmt.Sprintf("(%[2]s\n< on (%[1]s) group_left () max by (%[1]s) (%[2]s))", promql.RegisteredAs, clusters)
	}
	all := recordedOf(promql.FleetConfigurations, "type, configuration")
	missing := fmt.Sprintf("(-1 * (sum by (%s) (%s)\n- on (type, configuration) group_left () %s) > 0)", promql.RegisteredAs, registrations, all)
	return either(rarely(registrations), rarely(timeouts), withLabel(missing, "failure_policy", "not registered", "failure_policy"))
}

// recordedOf is what the rules of a store of all clusters record, once where replicas do.
func recordedOf(record, labelNames string) string {
	return fmt.Sprintf("max by (%s) (%s)", labelNames, record)
}

func driftPanel() Panel {
	rows := fmt.Sprintf("topk(%d, %s)", mostRows, drift())
	for _, label := range []string{"failure_policy", "match_policy", "service_namespace", "service_name", "timeout"} {
		rows = withDefault(rows, label, "-")
	}
	return Panel{
		Title:       "Different from most clusters",
		Description: "The same configuration differs between clusters: in so many of all it is registered like this, and otherwise in most. At most twenty.",
		Kind:        Table, Unit: unitCount, Width: 24, Height: 12,
		Queries: []Query{{Expr: ranked(rows, promql.FleetRegistrations, "name", "None")}},
		Columns: []Column{
			{Field: "name", Title: "Webhook", Unit: unitText, Links: acrossClusters},
			{Field: "type", Title: "Type", Unit: unitText, Width: 86, Texts: typeNames},
			{Field: "configuration", Title: "Configuration", Unit: unitText, Width: 180},
			{Field: "A", Title: "Clusters", Unit: unitCount, Width: 80, Thresholds: []Threshold{{green, 0}, {orange, 1}}},
			{Field: "failure_policy", Title: "failurePolicy", Unit: unitText, Width: 110},
			{Field: "match_policy", Title: "matchPolicy", Unit: unitText, Width: 100},
			{Field: "timeout", Title: "Timeout", Unit: unitText, Width: 75},
			{Field: "service_namespace", Title: "Namespace", Unit: unitText, Width: 110},
			{Field: "service_name", Title: "Service", Unit: unitText, Width: 100},
			linkCluster,
		},
		Unknown: "Unknown: nothing is recorded by the rules that print rules --fleet-central prints.",
	}
}

// clusterCells adds the numbers to rows of clusters.
func clusterCells(rows string) string {
	clusters, c := lookup{"cluster", summarizedClusters}, summaryCells
	for _, cell := range [][2]string{
		{"failing", c.failing}, {"slow", c.slow}, {"down", c.down}, {"critical", c.critical}, {"warnings", c.warnings}, {"age", c.age},
	} {
		rows = clusters.number(rows, cell[0], cell[1])
	}
	return withDefault(rows, "cluster", "this cluster")
}

func clusterColumns() []Column {
	bad := func(color string) []Threshold { return []Threshold{{green, 0}, {color, 1}} }
	return []Column{
		{Field: "cluster", Title: "Cluster", Unit: unitText, Links: intoCluster},
		{Field: "failing", Number: true, Title: "Failing", Unit: unitCount, Width: 68, Thresholds: bad(red)},
		{Field: "down", Number: true, Title: "No backend", Unit: unitCount, Width: 95, Thresholds: bad(red)},
		{Field: "slow", Number: true, Title: "Slow", Unit: unitCount, Width: 60, Thresholds: bad(orange)},
		{Field: "critical", Number: true, Title: "Critical", Unit: unitCount, Width: 74, Thresholds: bad(red)},
		{Field: "warnings", Number: true, Title: "Warnings", Unit: unitCount, Width: 84, Thresholds: bad(orange)},
		{
			Field: "age", Number: true, Title: "Age", Unit: unitSeconds, Width: 75,
			Thresholds: []Threshold{{green, 0}, {orange, 180}, {red, staleAfter}},
		},
		linkCluster,
	}
}
