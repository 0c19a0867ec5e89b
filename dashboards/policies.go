package dashboards

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/promql"
)

// What API servers count of admission policies: of those that validate, the failed
// checks alone.
const (
	validationChecks = promql.Validations + `{cluster=~"$cluster",enforcement_action=`
	failedMutations  = promql.Mutations + `{cluster=~"$cluster",error_type!="no_error"}`
)

// byPolicy is the rate of the counters by policy, the ten most of the chosen time range.
func byPolicy(counters ...string) string {
	countedIn := func(window string) string {
		rates := lists.Map(counters, func(c string) string { return "rate(" + c + window + ")" })
		return "sum by (cluster, policy) (" + either(rates...) + ")"
	}
	return topBy(countedIn(rateWindow), countedIn(rankWindow), "cluster, policy")
}

// policyPanels are about admission policies, which the variables type and name do not
// choose from.
func policyPanels() []Panel {
	chart := func(title, description string, unit Unit, queries ...Query) Panel {
		return Panel{
			Title: title, Description: description, Kind: TimeSeries, Unit: unit, Width: 8, Height: 9, Queries: queries,
		}
	}
	p99 := func(kind string) Query {
		const check = "apiserver_%[1]s_admission_policy_check_duration_seconds"
		return Query{Legend: kind, Expr: fmt.Sprintf(either(
			`histogram_quantile(0.99, sum by (le) (rate(`+check+`_bucket{cluster=~"$cluster"}[$__rate_interval])))`,
			`histogram_quantile(0.99, sum(rate(`+check+`{cluster=~"$cluster"}[$__rate_interval])))`,
		), kind)}
	}
	return []Panel{
		chart("Denials and failures",
			"Failed checks per second. Denied: refused for what users sent or, with failurePolicy Fail, because an expression failed. Failed: ignored failures, and all of mutations. The ten most of the chosen time range.",
			unitRate,
			Query{Expr: byPolicy(validationChecks + `"deny"}`), Legend: "{{policy}} denied {{cluster}}"},
			Query{Expr: byPolicy(validationChecks+`"allow"}`, failedMutations), Legend: "{{policy}} failed {{cluster}}"}),
		chart("Refused, and why",
			"Requests per second that policies refused, and what they counted. Refused without that: a policy's params or their kind are missing, or a patch makes no valid object. No series names it.",
			unitRate,
			Query{Expr: `sum by (name) (rate(` + promql.PluginSeconds + `_count{cluster=~"$cluster",name=~".+AdmissionPolicy",rejected="true"}[$__rate_interval]))`, Legend: "{{name}}"},
			Query{Expr: `sum(rate(` + validationChecks + `"deny"}[$__rate_interval]) or rate(` + failedMutations + `[$__rate_interval]))`, Legend: "counted", Total: true}),
		chart("Latency of checks, p99", "What evaluating an expression takes, where it is counted: the failed ones of policies that validate, and all mutations.", unitSeconds, p99("validating"), p99("mutating")),
	}
}
