package dashboards

import "fmt"

// policyLabels identify a policy in expressions: series of policies lack the label
// type, which the expressions add, as two of different types may have one name.
const policyLabels = "cluster, type, policy"

// ofPolicies is the rate of a series of the policies of both types. A policy that
// validates counts each failed check; one that mutates counts each mutation.
func ofPolicies(series, validating, mutating, window string) string {
	one := func(kind, matcher string) string {
		return fmt.Sprintf(`label_replace(rate(apiserver_%s_admission_policy_%s{%s}%s), "type", %q, "", "")`,
			kind, series, join(matcher, `cluster=~"$cluster"`), window, kind)
	}
	return either(one("validating", validating), one("mutating", mutating))
}

func policyFailures(window string) string {
	return fmt.Sprintf("sum by (%s) (%s)", policyLabels, ofPolicies("check_total", `enforcement_action="allow"`, `error_type!="no_error"`, window))
}

func policyDenials(window string) string {
	return fmt.Sprintf(`sum by (cluster, policy) (rate(apiserver_validating_admission_policy_check_total{enforcement_action="deny",cluster=~"$cluster"}%s))`, window)
}

func policyLatency(window string) string {
	return either(
		fmt.Sprintf("histogram_quantile(0.99, sum by (%s, le) (%s))", policyLabels, ofPolicies("check_duration_seconds_bucket", "", "", window)),
		fmt.Sprintf("histogram_quantile(0.99, sum by (%s) (%s))", policyLabels, ofPolicies("check_duration_seconds", "", "", window)),
	)
}

// policyPanels are about admission policies, which the variables type and name do not
// choose from.
func policyPanels() []Panel {
	byPlugin := func(expr, plugin string) string { return withLabel(expr, "name", plugin, "name") }
	chart := func(title, description string, unit Unit, queries ...Query) Panel {
		return Panel{
			Title: title, Description: description, Kind: TimeSeries, Unit: unit, Width: 12, Height: 9,
			Queries: queries, Unknown: "Nothing counted: policies count no check that admits.",
		}
	}
	return []Panel{
		chart("Denials, by policy",
			"Failed checks per second for which ValidatingAdmissionPolicies refused requests, by what users sent or, with failurePolicy Fail, because an expression failed: the API server does not distinguish them. The ten most frequent of the chosen time range; dashed, all together.",
			unitRate,
			Query{Expr: topBy(policyDenials(rateWindow), policyDenials(rankWindow), "cluster, policy"), Legend: "{{policy}} {{cluster}}"},
			Query{Expr: "sum(" + policyDenials(rateWindow) + ")", Legend: "all policies", Total: true}),
		chart("Failures, by policy",
			"Checks per second that failed and that failurePolicy Ignore let pass, and mutations that failed, whatever became of the request. The ten worst of the chosen time range; dashed, all together.",
			unitRate,
			Query{Expr: topBy(policyFailures(rateWindow), policyFailures(rankWindow), policyLabels), Legend: "{{type}} {{policy}} {{cluster}}"},
			Query{Expr: "sum(" + policyFailures(rateWindow) + ")", Legend: "all policies", Total: true}),
		chart("Refused requests and counted denials",
			"Requests per second that admission policies refused, and the denials and failures that policies counted. Refusals without denials are those of a policy that cannot be evaluated for its params, which no series names: everything that it matches is refused.",
			unitRate,
			Query{Expr: `sum by (name) (rate(apiserver_admission_controller_admission_duration_seconds_count{name=~"(Validating|Mutating)AdmissionPolicy",rejected="true",cluster=~"$cluster"}[$__rate_interval]))`, Legend: "{{name}} refused"},
			Query{Expr: byPlugin("sum("+policyDenials(rateWindow)+")", "ValidatingAdmissionPolicy"), Legend: "{{name}} denied"},
			Query{Expr: byPlugin(`sum(rate(apiserver_mutating_admission_policy_check_total{error_type!="no_error",cluster=~"$cluster"}[$__rate_interval]))`, "MutatingAdmissionPolicy"), Legend: "{{name}} failed"}),
		chart("p99 latency, by policy",
			"Of a hundred checks that are counted, all but one take no longer: failed ones of policies that validate, and all mutations. The ten slowest of the chosen time range. The API server evaluates policies itself, within a bound on the cost of expressions.",
			unitSeconds,
			Query{Expr: topBy(policyLatency(rateWindow), policyLatency(rankWindow), policyLabels), Legend: "{{type}} {{policy}} {{cluster}}"}),
	}
}
