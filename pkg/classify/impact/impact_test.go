package impact

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// cluster reads a file as a cluster that holds just what the file says.
func cluster(t *testing.T, file string) *classify.Report {
	t.Helper()
	return evaluate(t, snapshot(objects(t, file)))
}

func snapshot(o inventory.Objects) *inventory.Snapshot {
	return o.Snapshot(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
}

func objects(t *testing.T, file string) inventory.Objects {
	t.Helper()
	o, _ := manifest.Read([]string{file}, manifest.Options{})
	if len(o.Errors) > 0 {
		t.Fatal(o.Errors)
	}
	o.NamespacesKnown, o.APIServicesKnown = true, true
	o.ServicesKnown.All, o.EndpointsKnown.All = true, true
	return o
}

// policyOf is what registers the only webhook of the configuration policy.
func policyOf(o inventory.Objects) *admissionv1.ValidatingWebhookConfiguration {
	isPolicy := func(c *admissionv1.ValidatingWebhookConfiguration) bool { return c.Name == "policy" }
	return o.Validating[slices.IndexFunc(o.Validating, isPolicy)]
}

func evaluate(t *testing.T, s *inventory.Snapshot) *classify.Report {
	t.Helper()
	return must.Get(classify.DefaultPolicy().Evaluate(t.Context(), s))(t)
}

func consequences(t *testing.T, c Change, r *classify.Report) *Consequences {
	t.Helper()
	must.Succeed(t, c.Check(r.Snapshot))
	return must.Get(c.Evaluate(t.Context(), classify.DefaultPolicy(), r))(t)
}

var (
	policy   = inventory.Key{Namespace: "policy", Name: "policy"}
	injector = inventory.Key{Namespace: "inject", Name: "injector"}
	secrets  = inventory.Key{Namespace: "shop", Name: "secrets"}
)

// summary writes consequences for comparison.
func summary(c *Consequences) []string {
	var out []string
	for _, e := range c.Effects {
		var line strings.Builder
		line.WriteString(fmt.Sprintf("%s: %s", e.Outcome, e.Name))
		for _, r := range e.Requests {
			line.WriteString(fmt.Sprintf(" %s %s", strings.Join(lists.Strings(r.Operations), ", "), r.Resource))
		}
		if e.Namespaces != nil {
			line.WriteString(" in " + strings.Join(e.Namespaces, ","))
		}
		out = append(out, line.String())
	}
	for _, f := range c.Appearing {
		out = append(out, "+"+f.Check.Name+" "+f.Webhook.Name)
	}
	for _, f := range c.Disappearing {
		out = append(out, "-"+f.Check.Name+" "+f.Webhook.Name)
	}
	for i, w := range c.Recovery {
		out = append(out, fmt.Sprintf("%d. %v", i+1, w.Services))
	}
	for _, s := range c.Stuck {
		out = append(out, fmt.Sprintf("stuck: %s by %s", strings.Join(s.Services, ", "), s.By[0].Name))
	}
	for _, w := range c.Weakened {
		out = append(out, fmt.Sprintf("weakened: %s %d of %d", w.Name, w.After, w.Before))
	}
	return out
}

func TestChange(t *testing.T) {
	const (
		podsRefused = "refused: pods.policy.example.com CREATE, DELETE pods in inject,policy,shop"
		inject      = "refused: deployments.inject.example.com CREATE, UPDATE deployments.apps in shop"
	)
	for name, c := range map[string]struct {
		change Change
		want   []string
	}{
		// Its own Pods are refused while it is down: it does not come back.
		"a Service that refuses its own Pods": {
			Change{Services: []inventory.Key{policy}},
			[]string{podsRefused, "+no-ready-endpoints pods.policy.example.com", "stuck: policy/policy by pods.policy.example.com"},
		},
		// The policy engine refuses the injector's Pods as well, but is up.
		"a Service": {
			Change{Services: []inventory.Key{injector}},
			[]string{inject, "+no-ready-endpoints deployments.inject.example.com", "1. [inject/injector]"},
		},
		"a node with one of two endpoints": {
			Change{Nodes: []string{"b"}},
			[]string{
				"unchecked: secrets.shop.example.com CREATE, UPDATE secrets",
				"+no-ready-endpoints secrets.shop.example.com", "+single-endpoint pods.policy.example.com",
				"1. [shop/secrets]", "weakened: pods.policy.example.com 1 of 2",
			},
		},
		"a configuration": {
			Change{Configurations: []Configuration{{Name: "policy"}}},
			[]string{
				"unchecked: pods.policy.example.com CREATE, DELETE pods in inject,policy,shop",
			},
		},
		"two Services": {
			Change{Services: []inventory.Key{injector, secrets}},
			[]string{
				inject, "unchecked: secrets.shop.example.com CREATE, UPDATE secrets",
				"+no-ready-endpoints deployments.inject.example.com", "+no-ready-endpoints secrets.shop.example.com",
				"1. [inject/injector shop/secrets]",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := cluster(t, "testdata/cluster.yaml")
			got := summary(consequences(t, c.change, r))
			if name == "a configuration" { // its findings go with it
				got = slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, "-") })
			}
			expect.Equal(t, c.want, got)
			expect.Equal(t, cluster(t, "testdata/cluster.yaml").Snapshot.Services, r.Snapshot.Services) // the Snapshot is not written to
		})
	}
}

// TestRecovery: what a webhook refuses comes back after the webhook's own
// backend.
func TestRecovery(t *testing.T) {
	o := objects(t, "testdata/cluster.yaml")
	// It leaves its own namespace alone.
	policyOf(o).Webhooks[0].NamespaceSelector.MatchExpressions[0].Values = []string{"kube-system", "policy"}
	c := consequences(t, Change{Services: []inventory.Key{injector, policy}}, evaluate(t, snapshot(o)))
	got := summary(c)[len(summary(c))-2:]
	expect.Equal(t, []string{"1. [policy/policy]", "2. [inject/injector]"}, got)
}

// TestStuck: a webhook that refuses what its own Pods need to start, or to be called,
// does not come back, as the check says.
func TestStuck(t *testing.T) {
	for resource, want := range map[string]bool{"pods": true, "pods/status": true, "endpointslices": true, "leases": true, "secrets": false} {
		o := objects(t, "testdata/cluster.yaml")
		rule := &policyOf(o).Webhooks[0].Rules[0]
		rule.APIGroups, rule.APIVersions, rule.Resources = []string{"*"}, []string{"*"}, []string{resource}
		rule.Operations = append(rule.Operations, admissionv1.Update)
		r := evaluate(t, snapshot(o))
		c := consequences(t, Change{Nodes: []string{"a", "b"}}, r)
		deadlock := slices.ContainsFunc(r.Findings, func(f *classify.Finding) bool { return f.Check.Name == "bootstrap-deadlock" })
		if got := blocking(r, c)[policy]; got != want || deadlock != want {
			t.Errorf("on %s: it does not come back: %t, a deadlock is found: %t, want %t", resource, got, deadlock, want)
		}
	}
}

// blocking says which Services wait for a webhook that they serve.
func blocking(r *classify.Report, c *Consequences) map[inventory.Key]bool {
	out := map[inventory.Key]bool{}
	for _, p := range r.Profiles {
		for _, b := range c.Stuck {
			if slices.Contains(b.Services, p.State.Service.Key.String()) {
				out[p.State.Service.Key] = out[p.State.Service.Key] || slices.Contains(b.By, p.Ref)
			}
		}
	}
	return out
}

// TestStuckWhereDeadlocked: of all that the check finds in its fixture, nothing comes
// back once the nodes are gone, also where it refuses what every Pod needs.
func TestStuckWhereDeadlocked(t *testing.T) {
	r := cluster(t, "../testdata/bootstrap-deadlock.yaml")
	c := consequences(t, Change{Nodes: nodesOf(r.Snapshot)}, r)
	stuck := blocking(r, c)
	for _, p := range r.Profiles {
		if _, waits := stuck[p.State.Service.Key]; p.Deadlock != nil && !waits {
			t.Errorf("%s is in a deadlock, and comes back: %v", p.Ref, c.Recovery)
		}
	}
	if !stuck[inventory.Key{Namespace: "network", Name: "policy"}] {
		t.Error("what refuses the network plugin is not named")
	}
}

// TestFilesWithoutServices: a Service that the files lack can be down as well.
func TestFilesWithoutServices(t *testing.T) {
	r := cluster(t, "testdata/cluster.yaml")
	s := *r.Snapshot
	s.Services, s.ServicesKnown, s.EndpointsKnown = nil, inventory.Coverage{}, inventory.Coverage{}
	c := consequences(t, Change{Services: []inventory.Key{injector}}, evaluate(t, &s))
	if len(c.Effects) != 1 || c.Effects[0].Outcome != Refused {
		t.Errorf("effects: %v", summary(c))
	}
	if len(c.Unknown) != 0 {
		t.Errorf("unknown are %v, and the others have nothing to do with the Service", c.Unknown)
	}
	drained, err := Change{Nodes: []string{"a"}}.Evaluate(t.Context(), classify.DefaultPolicy(), evaluate(t, &s))
	if err != nil || len(drained.Unknown) != 3 {
		t.Errorf("%v: unknown are %v, want all three: their Pods may be on the node", err, drained.Unknown)
	}
}

// TestNodeWithoutEndpoints: a node that exists may have nothing to do with webhooks.
func TestNodeWithoutEndpoints(t *testing.T) {
	r := cluster(t, "testdata/cluster.yaml")
	c := Change{Nodes: []string{"a", "idle"}}
	expect.Equal(t, []string{"idle"}, c.Missing(r.Snapshot))
	c = Change{Nodes: []string{"idle"}}
	for _, nodes := range [][]string{nil, {"a", "b", "idle"}} {
		r.Snapshot.Nodes = nodes
		got := consequences(t, c, r)
		if err := c.Check(r.Snapshot); err != nil || len(summary(got)) != 0 || !strings.Contains(got.Verdict(), "no Pod of a webhook") {
			t.Errorf("of nodes %v: %v, %s", nodes, err, got.Verdict())
		}
	}
}

func TestUnknownNames(t *testing.T) {
	r := cluster(t, "testdata/cluster.yaml")
	r.Snapshot.Nodes = []string{"a", "b"}
	for _, c := range []Change{
		{Services: []inventory.Key{{Namespace: "policy", Name: "polcy"}}},
		{Nodes: []string{"c"}},
		{Configurations: []Configuration{{Name: "polcy"}}},
		{Configurations: []Configuration{{Type: inventory.Mutating, Name: "policy"}}},
	} {
		var unknown UnknownError
		if err := c.Check(r.Snapshot); !errors.As(err, &unknown) || len(unknown.Known) == 0 {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// TestCards: every webhook of every fixture has an answer, or a blank, to each
// question, and queries that Prometheus can read.
func TestCards(t *testing.T) {
	files, err := filepath.Glob("../testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, "testdata/cluster.yaml") {
		r := cluster(t, file)
		for _, p := range r.Profiles {
			onPath := slices.ContainsFunc(r.Findings, func(f *classify.Finding) bool {
				return f.Webhook == p.Ref && f.Check.Name == "control-plane-path"
			})
			for _, s := range NewCard(r, p).Sections {
				if onPath && strings.Contains(strings.Join(s.Answers, " "), "no function of the cluster") {
					t.Errorf("%s: %s: %s contradicts the finding control-plane-path", file, p.Name, s.ID)
				}
				checkSection(t, file+": "+p.Name, s)
			}
		}
	}
}

func checkSection(t *testing.T, id string, s Section) {
	t.Helper()
	if len(s.Answers)+len(s.ToFillIn)+len(s.Queries) == 0 {
		t.Errorf("%s: %s: neither an answer nor a blank", id, s.ID)
	}
	for _, q := range s.Queries {
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(q.Expression); err != nil {
			t.Errorf("%s: %s: %v", id, q.Expression, err)
		}
	}
}

// TestPolicyCard: what a policy matches, by which bindings, what it refuses where its
// params are missing, and how to get out.
func TestPolicyCard(t *testing.T) {
	r := cluster(t, "testdata/policies.yaml")
	if cards := PolicyCards(r, inventory.Ref{Type: inventory.MutatingPolicy, Configuration: "limits"}); len(cards) != 0 {
		t.Errorf("%d cards of a policy of the other type", len(cards))
	}
	for _, c := range []struct {
		webhookType       inventory.Type
		name, label, want string
	}{
		{inventory.ValidatingPolicy, "limits", "called for", "pods (CREATE), services (DELETE)"},
		{inventory.ValidatingPolicy, "limits", "if it fails", "that is so now: the API server does not serve the kind of its params (example.com/v1 Limit)"},
		{inventory.ValidatingPolicy, "limits", "if it fails", "every request that it matches by strict is refused, whatever the validationActions say"},
		{inventory.ValidatingPolicy, "limits", "stops", "creation of Pods"},
		{inventory.ValidatingPolicy, "leases", "stops", "heartbeats of nodes"},
		{inventory.ValidatingPolicy, "watched", "if it fails", "the request is let through, as no binding denies"},
		{inventory.ValidatingPolicy, "watched", "stops", "no function of the cluster"},
		{inventory.MutatingPolicy, "forgotten", "way out", "there is nothing to disable"},
	} {
		cards := PolicyCards(r, inventory.Ref{Type: c.webhookType, Configuration: c.name})
		if len(cards) != 1 {
			t.Fatalf("%s: %d cards", c.name, len(cards))
		}
		i := slices.IndexFunc(cards[0].Summary, func(f Fact) bool { return f.Label == c.label })
		if got := cards[0].Summary[i].Text; !strings.Contains(got, c.want) {
			t.Errorf("%s of %s: want %q in:\n%s", c.label, c.name, c.want, got)
		}
	}
	disable := PolicyCards(r, inventory.Ref{Type: inventory.ValidatingPolicy, Configuration: "limits"})[0].Commands[0]
	expect.Contains(t, disable, "> validatingadmissionpolicybinding-limits.yaml && kubectl delete validatingadmissionpolicybinding/strict validatingadmissionpolicybinding/trial", disable)
}

// found is the finding of the check on the only webhook of the configuration policy.
func found(t *testing.T, r *classify.Report, check string) *classify.Finding {
	t.Helper()
	i := slices.IndexFunc(r.Findings, func(f *classify.Finding) bool {
		return f.Check.Name == check && f.Webhook.Configuration == "policy"
	})
	if i < 0 {
		t.Fatalf("no finding %s", check)
	}
	return r.Findings[i]
}

// TestTerminatingEndpoints: while Pods terminate and still answer, nothing is refused yet,
// but where the API server calls ready endpoints alone.
func TestTerminatingEndpoints(t *testing.T) {
	for routing, want := range map[inventory.Routing]classify.Severity{
		inventory.RoutingUnknown: classify.Warning, inventory.RoutingClusterIP: classify.Warning, inventory.RoutingEndpoints: classify.Critical,
	} {
		o := objects(t, "testdata/cluster.yaml")
		for _, slice := range o.EndpointSlices {
			for i := range slice.Endpoints {
				slice.Endpoints[i].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
			}
		}
		s := snapshot(o)
		s.Routing = routing
		f := found(t, evaluate(t, s), "no-ready-endpoints")
		if answers := strings.Contains(f.Message, "still answer; once they stop"); f.Severity != want || answers != (want == classify.Warning) {
			t.Errorf("routing %q: %s %s", routing, f.Severity, f.Message)
		}
	}
}

// TestNewNamespaces: a webhook that refuses ConfigMaps, or ServiceAccounts, everywhere
// keeps each Pod of a new namespace from starting; not so where labels choose namespaces.
func TestNewNamespaces(t *testing.T) {
	for resource, needs := range map[string]string{"configmaps": "ConfigMap kube-root-ca.crt", "serviceaccounts": "ServiceAccount default", "secrets": ""} {
		for _, labeled := range []bool{false, true} {
			o := objects(t, "testdata/cluster.yaml")
			w := &policyOf(o).Webhooks[0]
			w.Rules[0].Resources, w.ClientConfig.Service.Name = []string{resource}, "gone"
			if labeled {
				w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}
			}
			r := evaluate(t, snapshot(o))
			message := found(t, r, "service-missing").Message
			if want := needs != "" && !labeled; strings.Contains(message, "Pods of new namespaces do not start") != want {
				t.Errorf("%s, with labels %t: %s", resource, labeled, message)
			}
			summary := Cards(r, "policy", "")[0].Summary
			expect.Contains(t, summary[0].Label+": "+summary[0].Text, "now: ")
			stops := summary[3].Text
			if want := needs != "" && !labeled; strings.Contains(stops, "Pods of new namespaces") != want || want && !strings.Contains(stops, needs) {
				t.Errorf("%s, with labels %t: stops %s", resource, labeled, stops)
			}
		}
	}
}

// TestClusterScoped: a namespaceSelector excludes no cluster-scoped object, which is printed where
// the webhook is called for some.
func TestClusterScoped(t *testing.T) {
	for resource, want := range map[string]bool{"configmaps": false, "nodes": true} {
		o := objects(t, "testdata/cluster.yaml")
		w := &policyOf(o).Webhooks[0]
		w.Rules[0].Resources, w.NamespaceSelector = []string{resource}, &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}
		called := Cards(evaluate(t, snapshot(o)), "policy", "")[0].Summary[0].Text
		if strings.Contains(called, "cluster-scoped objects are not excluded") != want {
			t.Errorf("%s: called for %s", resource, called)
		}
	}
}

// TestSummary: what an incident needs comes first, and the way out can be typed.
func TestSummary(t *testing.T) {
	c := Cards(cluster(t, "testdata/cluster.yaml"), "policy", "")[0]
	expect.Equal(t, "validating webhook pods.policy.example.com of configuration policy, installed by helm/policy, calls Service policy/policy:443", c.Title)
	var labels []string
	for _, f := range c.Summary {
		labels = append(labels, f.Label)
	}
	expect.Equal(t, []string{"called for", "if it fails", "stops", "way out"}, labels)
	expect.Contains(t, c.Summary[3].Text, classify.Late)
	expect.Contains(t, strings.Join(c.Commands, "\n"), "kubectl delete validatingwebhookconfiguration policy", "kubectl rollout restart deployment DEPLOYMENT-BEHIND-policy -n policy")
}

// answers are those to one question about one webhook.
func answers(t *testing.T, r *classify.Report, configuration, id string) string {
	t.Helper()
	cards := Cards(r, configuration, "")
	if len(cards) != 1 {
		t.Fatalf("%d cards", len(cards))
	}
	i := slices.IndexFunc(cards[0].Sections, func(s Section) bool { return s.ID == id })
	return strings.Join(slices.Concat(cards[0].Sections[i].Answers, cards[0].Sections[i].Commands), "\n")
}

func TestCard(t *testing.T) {
	r := cluster(t, "testdata/cluster.yaml")
	observed := *r.Snapshot
	observed.Observed = &inventory.Observation{Seconds: 10, Webhooks: map[inventory.Series]inventory.Behavior{
		{Type: inventory.Validating, Name: "pods.policy.example.com"}: {
			Calls: 100, CallsPerSecond: 10, Seconds: 5, Refused: 20, Failures: map[string]float64{"calling_webhook_error": 10},
			P50: inventory.Quantile{Seconds: 0.05, Known: true}, P99: inventory.Quantile{Seconds: 25, Known: true, Beyond: true},
		},
	}}
	for _, c := range []struct {
		report                  *classify.Report
		configuration, id, want string
	}{
		{r, "policy", "adds", "CREATE/DELETE pods"},
		{r, "policy", "adds", "which are 3 of this cluster: inject, policy, shop"},
		{r, "policy", "failure-modes", "these requests are refused (failurePolicy Fail)"},
		{r, "policy", "cluster-health", "creation of Pods"},
		{r, "policy", "disabling", "kubectl delete validatingwebhookconfiguration policy"},
		{r, "policy", "disabling", "the next helm upgrade reverts that"},
		{r, "inject", "effects", "as much again where it is called again"},
		{r, "secrets", "cluster-health", "no function of the cluster itself"},
		{r, "secrets", "failure-modes", "a matchCondition cannot be evaluated: with failurePolicy Ignore the request passes"},
		{evaluate(t, &observed), "policy", "effects", "10.00 calls/s, p50 50ms, p99 >25s, 10.0% failing (calling_webhook_error), 20.0% refused"},
		{evaluate(t, &observed), "inject", "effects", "observed: not called"},
		{r, "policy", "detection", `failed calling webhook "pods.policy.example.com"`},
	} {
		if got := answers(t, c.report, c.configuration, c.id); !strings.Contains(got, c.want) {
			t.Errorf("%s of %s: want %q in:\n%s", c.id, c.configuration, c.want, got)
		}
	}
}

// TestServerWrites: what API servers write by themselves, of webhooks and policies that
// differ in what they cover, whom, how they fail and in the release.
func TestServerWrites(t *testing.T) {
	const (
		webhook = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: w}\nwebhooks: [{name: w.example.com, clientConfig: {service: {namespace: h, name: h}}, sideEffects: None, admissionReviewVersions: [v1], %s}]\n"
		policy  = "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicy\nmetadata: {name: w.example.com}\nspec: {reinvocationPolicy: Never, matchConstraints: {%s}, mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[]'}}]}\n---\napiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicyBinding\nmetadata: {name: w.example.com}\nspec: {policyName: w.example.com}\n"
		ruled   = `rules: [{operations: ["*"], apiGroups: [%s], apiVersions: ["*"], resources: [%s]}]`
		start   = "the start of an API server after an upgrade"
		address = "new Services: none gets a cluster IP"
		note    = "itself writes"
	)
	rules := func(group, resources string) string { return fmt.Sprintf(ruled, group, resources) }
	for name, test := range map[string]struct {
		object, server, request string
		want, not               []string
	}{
		"everything":          {fmt.Sprintf(webhook, rules(`"*"`, `"*"`)), "v1.33.0", "ipaddresses.networking.k8s.io", []string{start, address, note, "fix: ipaddresses", "fix: servicecidrs", "fix: system:apiserver"}, nil},
		"a group":             {fmt.Sprintf(webhook, rules("networking.k8s.io", `"*"`)), "v1.37.0", "servicecidrs.networking.k8s.io", []string{start, address, note, "fix: servicecidrs", "fix: system:apiserver"}, nil},
		"before the release":  {fmt.Sprintf(webhook, rules("networking.k8s.io", `"*"`)), "v1.32.0", "", nil, []string{start, address, "fix:"}},
		"a status":            {fmt.Sprintf(webhook, rules("networking.k8s.io", "servicecidrs/status")), "v1.34.0", "", []string{"fix: servicecidrs"}, []string{start}},
		"by a policy":         {fmt.Sprintf(policy, "resourceRules: [{operations: [\"*\"], apiGroups: [networking.k8s.io], apiVersions: [v1], resources: [servicecidrs]}]"), "v1.36.0", "servicecidrs.networking.k8s.io", []string{start, note}, []string{address}},
		"ignored":             {fmt.Sprintf(webhook, rules("networking.k8s.io", `"*"`)+", failurePolicy: Ignore, timeoutSeconds: 5"), "v1.36.0", "servicecidrs.networking.k8s.io", nil, []string{note, "fix:"}},
		"left out by user":    {fmt.Sprintf(webhook, rules("networking.k8s.io", `"*"`)+`, matchConditions: [{name: s, expression: "request.userInfo.username != 'system:apiserver'"}]`), "v1.36.0", "servicecidrs.networking.k8s.io", nil, []string{start, note}},
		"another scope":       {fmt.Sprintf(webhook, `rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"], scope: Namespaced}]`), "v1.33.0", "servicecidrs.networking.k8s.io", []string{start}, []string{address, note, "fix: servicecidrs"}},
		"labels of others":    {fmt.Sprintf(webhook, rules(`"*"`, `"*"`)+", objectSelector: {matchLabels: {app: a}}"), "v1.33.0", "servicecidrs.networking.k8s.io", nil, []string{start, address, note}},
		"without a label":     {fmt.Sprintf(webhook, rules(`"*"`, `"*"`)+", objectSelector: {matchExpressions: [{key: app, operator: DoesNotExist}]}"), "v1.33.0", "servicecidrs.networking.k8s.io", []string{start, address, note}, nil},
		"left out by group":   {fmt.Sprintf(webhook, rules("networking.k8s.io", `"*"`)+`, matchConditions: [{name: s, expression: "!('system:masters' in request.userInfo.groups)"}]`), "v1.36.0", "servicecidrs.networking.k8s.io", nil, []string{start, address, note}},
		"policy by user":      {fmt.Sprintf(policy, "resourceRules: [{operations: [\"*\"], apiGroups: [networking.k8s.io], apiVersions: [v1], resources: [\"*\"]}]}, matchConditions: [{name: s, expression: \"request.userInfo.username != 'system:apiserver'\"}], paramKind: {apiVersion: v1, kind: ConfigMap"), "v1.36.0", "servicecidrs.networking.k8s.io", nil, []string{start, note}},
		"another version":     {fmt.Sprintf(webhook, `rules: [{operations: [CREATE], apiGroups: [networking.k8s.io], apiVersions: [v1beta1], resources: [ipaddresses]}]`), "v1.34.0", "ipaddresses.networking.k8s.io", nil, []string{address, note}},
		"people alone":        {fmt.Sprintf(webhook, rules("scheduling.k8s.io", "priorityclasses")+`, matchConditions: [{name: s, expression: "!request.userInfo.username.startsWith('system:')"}]`), "v1.36.0", "priorityclasses.scheduling.k8s.io", nil, []string{start, note}},
		"priority classes":    {fmt.Sprintf(webhook, rules("scheduling.k8s.io", "priorityclasses")), "v1.30.0", "priorityclasses.scheduling.k8s.io", []string{start, note, "fix: priorityclasses", "fix: system:apiserver"}, []string{address}},
		"a budget":            {fmt.Sprintf(webhook, rules("policy", "poddisruptionbudgets/status")), "v1.36.0", "poddisruptionbudgets.policy/status", []string{"for each eviction"}, []string{start}},
		"nodes are not those": {fmt.Sprintf(webhook, rules(`""`, "nodes")), "v1.36.0", "nodes", []string{"fix: nodes"}, []string{start, note, "fix: system:apiserver"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := manifest.Read([]string{"-"}, manifest.Options{Stdin: strings.NewReader(test.object)})
			o.Server = must.Get(inventory.ParseVersion(test.server))(t)
			r := evaluate(t, snapshot(o))
			var said strings.Builder
			for _, p := range r.Profiles {
				if p.FailsClosed() {
					said.WriteString(strings.Join(p.Functions(), "\n"))
				}
			}
			for _, p := range r.Snapshot.Policies {
				said.WriteString(strings.Join(r.RefusedFunctions(p), "\n"))
			}
			for _, f := range r.Findings {
				for _, word := range []string{"ipaddresses", "servicecidrs", "priorityclasses", "nodes", "system:apiserver"} {
					if f.Check.Name == "control-plane-path" && strings.Contains(f.Fix, word) {
						said.WriteString("\nfix: " + word)
					}
				}
			}
			var resource inventory.Resource
			if test.request != "" {
				must.Succeed(t, resource.UnmarshalText([]byte(test.request)))
				op := r.Matcher.Operations(resource)[0]
				request := must.Get(r.Matcher.OpenRequest(op, resource, admission.Subject{}))(t)
				said.WriteString("\n" + strings.Join(r.Matcher.Chain(request).Request.Notes, "\n"))
			}
			expect.Contains(t, said.String(), test.want...)
			for _, part := range test.not {
				if strings.Contains(said.String(), part) {
					t.Errorf("%q is wrongly in:\n%s", part, &said)
				}
			}
		})
	}
}
