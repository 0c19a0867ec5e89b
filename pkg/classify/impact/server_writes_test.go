package impact

import (
	"fmt"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

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
