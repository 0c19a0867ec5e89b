package rules

import (
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// What API servers count of admission policies. An ordinary denial of a
// ValidatingAdmissionPolicy has an error_type as its failures have, a check that
// admits is not counted at all, and a policy that refuses for its configuration
// counts in the admission plugin's own series alone.
const plugins = promql.PluginSeconds + `_count`

// The records of requests that policies refused, by the plugin that evaluates them.
const (
	policiesRefused = `cluster_plugin:webhook_auditor_policies_refused:increase10m`
	policiesBroken  = `cluster_plugin:webhook_auditor_policies_broken:increase10m`
)

// The records of what policies could not evaluate: what passed, and what was not mutated.
const (
	policiesFailed  = `cluster_instance_policy_failure:webhook_auditor_policies_failed:last5m`
	policiesFailing = `cluster_policy_failure:webhook_auditor_policies_failed:increase6h_recurring`
)

// sinceBirth is an increase that has all of a counter which did not exist at the
// window's start: the first denial of a policy makes its series.
func sinceBirth(counter, plugin string) string {
	return strings.NewReplacer("COUNTER", counter, "PLUGIN", plugin).Replace(`label_replace(
			(last_over_time(COUNTER[5m]) unless last_over_time(COUNTER[5m] offset 10m)) or increase(COUNTER[10m]),
			"plugin", "PLUGIN", "", "")`)
}

// policiesDenied is how often a policy denied a request, or failed to evaluate it.
var policiesDenied = `sum by (plugin) (
	` + sinceBirth(promql.Validations+`{enforcement_action="deny"}`, "ValidatingAdmissionPolicy") + `
	or ` + sinceBirth(promql.Mutations+`{error_type!="no_error"}`, "MutatingAdmissionPolicy") + `)`

var policyRecords = []RecordingRule{
	{Name: policiesRefused, Asks: "How many requests did policies refuse in 10m, by their kind?", Expr: `sum by (plugin) (label_replace(
			increase(` + plugins + `{name=~"ValidatingAdmissionPolicy|MutatingAdmissionPolicy", rejected="true"}[10m]),
			"plugin", "$1", "name", "(.+)")) > 0`},
	{
		Name: policiesBroken, Asks: "How many were refused by no denial, where it is one in twenty, or thirty?",
		Expr: strings.NewReplacer("REFUSED", policiesRefused, "DENIED", policiesDenied).Replace(
			`(REFUSED - on (plugin) (DENIED or on (plugin) 0 * REFUSED)) > on (plugin) clamp_max(0.05 * REFUSED, 30)`,
		),
	},
	{Name: policiesFailed, Asks: "What did each API server last count of requests that policies could not evaluate?", Expr: `
		label_replace(last_over_time(` + promql.Validations + `{enforcement_action="allow"}[5m]), "failure", "open", "", "")
		or label_replace(last_over_time(` + promql.Mutations + `{error_type!="no_error"}[5m]), "failure", "mutation", "", "")`},
	{
		// They grew in the last 15 minutes and in the 15 before as well, or in three of six hours; or in three
		// slots of the six hours, and seldom. It begins while they do.
		Name: policiesFailing, Asks: "How often did they grow in six hours, where they do again and again?",
		Expr: strings.NewReplacer("COUNTER", policiesFailed, "BY", "(policy, policy_binding, failure)", "FAILING", policiesFailing).Replace(`
			sum by BY (increase(COUNTER[6h])) > 0 and on BY (
				sum by BY (increase(COUNTER[15m])) > 0 and on BY (
					sum by BY (increase(COUNTER[15m] offset 15m)) > 0 or on BY count_over_time((sum by BY (increase(COUNTER[65m])) > 0)[6h:1h]) >= 3
				)
				or on BY (
					sum by BY (increase(COUNTER[2h])) > 0
					and on BY count_over_time((sum by BY (increase(COUNTER[20m])) > 0)[6h:15m]) >= 3
					unless on BY max_over_time(sum by BY (increase(COUNTER[20m]))[2h:15m]) > 10
				)
			) and on BY (sum by BY (increase(COUNTER[4m])) > 0 or on BY FAILING)`),
	},
}

// brokenPolicies is how many requests were refused so in 10 minutes, where it was several for 15, or in three of
// six hours, and goes on: nothing begins whose cause has ended. Or it is the most of the last hour, where there were some in
// three slots of six hours, a quarter of an hour ago already, and never many.
var brokenPolicies = strings.ReplaceAll(`
	BROKEN > 0.85 * max_over_time(BROKEN[5m])
	and (count_over_time((BROKEN > 2.5)[18m:1m]) >= 14 or count_over_time((max_over_time(BROKEN[1h]) > 2.5)[6h:1h]) >= 3)
	or on (plugin) (
		max_over_time(BROKEN[1h])
		and on (plugin) count_over_time((BROKEN > 0.7)[6h:9m] offset 15m) >= 3
		unless on (plugin) max_over_time(BROKEN[2h]) > 10
	)`, "BROKEN", policiesBroken)

const (
	policyAndBinding = `{{ $labels.policy }} (binding {{ $labels.policy_binding }})`
	ofManifests      = ` manifests of {{ $labels.plugin }} on `
)

var policyVariables = variables("POLICY BINDING", "$labels.policy $labels.policy_binding")

// policiesGroup is about admission policies, and about what API servers read from disk.
var policiesGroup = Group{
	Name:           "webhook-auditor-policies",
	Interval:       time.Minute,
	RecordingRules: policyRecords,
	Alerts: []Alert{
		{
			Name: "WebhookPolicyConfigErrors", Asks: "Which kind of policy refuses requests that it does not deny?",
			Severity: classify.Warning, For: time.Minute, KeepFiring: 15 * time.Minute,
			Expr:        brokenPolicies,
			Summary:     `A {{ $labels.plugin }} refuses requests because it cannot be evaluated.`,
			Description: `A {{ $labels.plugin }} cannot be evaluated, and refused {{ $value | printf "%.0f" }} requests within 10 minutes. Params are missing or of a kind that is not served, or matchConditions or a patch fail. No series names the policy: a refused client's reply does. Delete its bindings until it is repaired, which nothing can forbid. See "kubectl get {{ if eq $labels.plugin "MutatingAdmissionPolicy" }}mutating{{ else }}validating{{ end }}admissionpolicybindings".`,
		},
		{
			Name: "WebhookPolicyFailingOpen", Asks: "Which policies let requests pass as they cannot be evaluated, again and again?",
			Severity: classify.Warning, For: time.Minute, KeepFiring: 15 * time.Minute,
			Expr:        ofPolicies("open"),
			Summary:     `Requests pass policy {{ $labels.policy }} because it cannot be evaluated.`,
			Description: `{{ $value | printf "%.0f" }} requests passed policy ` + policyAndBinding + ` unchecked in the last six hours, and it goes on, as it could not be evaluated (failurePolicy Ignore). Mostly an expression reads a field that some objects lack. Its status has warnings: "kubectl get validatingadmissionpolicy {{ $labels.policy }} -o yaml".`,
			Variables:   policyVariables,
		},
		{
			Name: "WebhookPolicyMutationsFailing", Asks: "Which policies fail to mutate, again and again?",
			Severity: classify.Warning, For: time.Minute, KeepFiring: 15 * time.Minute,
			Expr:        ofPolicies("mutation"),
			Summary:     `Mutations of policy {{ $labels.policy }} fail.`,
			Description: `{{ $value | printf "%.0f" }} mutations by policy ` + policyAndBinding + ` failed in the last six hours, and it goes on.{{ if eq $policy "Fail" }} Its failurePolicy is Fail: the requests are refused.{{ else if eq $policy "Ignore" }} Its failurePolicy is Ignore: objects lack its changes.{{ end }} Its expression or its patch does not fit some objects; a refused client's reply says why. See "kubectl get mutatingadmissionpolicy {{ $labels.policy }} -o yaml".`,
			Variables:   policyVariables,
		},
		{
			Name: "WebhookManifestsNotReloaded", Asks: "Which API servers cannot read their admission manifests?",
			Severity: classify.Warning, For: 10 * time.Minute, KeepFiring: 5 * time.Minute,
			Expr:        `sum by (instance, plugin) (` + seenCounter(promql.ManifestReloads+`{status="failure"}`) + `) > 0`,
			Summary:     `API server {{ $labels.instance }} cannot read its admission manifests.`,
			Description: `API server {{ $labels.instance }} cannot load the changed` + ofManifests + `its disk. It keeps the manifests that it read last, and will not start again once it is stopped. Correct the file in its staticManifestsDir, or put the last content back. Its log has the error: "kubectl -n kube-system logs -l component=kube-apiserver --tail=-1 | grep manifest".`,
			Variables:   variables("INSTANCE", "$labels.instance"),
		},
		{
			Name: "WebhookManifestsDiffer", Asks: "Do API servers read different manifests?",
			Severity: classify.Warning, For: 15 * time.Minute,
			Expr:        `count by (plugin) (group by (plugin, hash) (last_over_time(` + promql.ManifestHashes + `[5m]))) > 1`,
			Summary:     `API servers have different admission manifests of {{ $labels.plugin }}.`,
			Description: `There are {{ $value | printf "%.0f" }} versions of the` + ofManifests + `the API servers. Whether a request meets their webhooks or policies depends on the API server that answers it. No API shows them. Compare the files in the staticManifestsDir of each: "kubectl get --raw /metrics | grep ` + promql.ManifestHashes + `".`,
		},
	},
}

// ofPolicies is policiesFailing of one failure.
func ofPolicies(failure string) string {
	return `sum by (policy, policy_binding) (` + policiesFailing + `{failure="` + failure + `"})`
}
