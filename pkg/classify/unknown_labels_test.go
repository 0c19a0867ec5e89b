package classify

import (
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// proxied is a webhook that is called for Pods, as its chart renders it.
const proxied = `
apiVersion: v1
kind: Service
metadata: {name: proxy-injector, namespace: mesh}
spec: {selector: {app: proxy-injector}, ports: [{port: 443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: proxy-injector, namespace: mesh}
spec:
  selector: {matchLabels: {app: proxy-injector}}
  template: {metadata: {labels: {app: proxy-injector}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: proxy-injector}
webhooks:
- name: proxy-injector.example.com
  clientConfig: {service: {namespace: mesh, name: proxy-injector}}
  namespaceSelector: {matchExpressions: [SELECTOR]}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods, pods/exec, pods/attach]}, {operations: [CONNECT], apiGroups: [""], apiVersions: [v1], resources: [pods/exec]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`

// files reads the text as a file, which need not be the whole cluster.
func files(t *testing.T, text string) *inventory.Snapshot {
	t.Helper()
	path := must.File(t, "input.yaml", text)
	o, _ := manifest.Read([]string{path}, manifest.Options{})
	for _, e := range o.Errors {
		t.Error(e)
	}
	return o.Snapshot(taken)
}

// TestUnknownLabels: a namespace that the input lacks may carry any label, so
// that a selector on labels decides nothing: what excludes is a finding with
// "unless" and no more than worth knowing, what opts in is none, and explain
// says maybe to both.
func TestUnknownLabels(t *testing.T) {
	const (
		excludes = `{key: example.com/admission-webhooks, operator: NotIn, values: [disabled]}`
		absent   = `{key: control-plane, operator: DoesNotExist}`
		byName   = `{key: kubernetes.io/metadata.name, operator: NotIn, values: [other]}`
		optsIn   = `{key: example.com/inject, operator: In, values: [enabled]}`
	)
	namespaces := func(labels string) string {
		return "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: mesh, labels: {" + labels + "}}\n" +
			"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system, labels: {" + labels + "}}\n"
	}
	for name, test := range map[string]struct {
		selector, namespaces string
		want                 Severity // 0: no finding
		called               admission.Match
	}{
		"excludes by value":             {excludes, "", Info, admission.Maybe},
		"excludes by presence":          {absent, "", Info, admission.Maybe},
		"excludes by name":              {byName, "", Warning, admission.Yes},
		"opts in":                       {optsIn, "", 0, admission.Maybe},
		"namespace carries the label":   {excludes, namespaces("example.com/admission-webhooks: disabled"), 0, admission.No},
		"namespace carries none":        {excludes, namespaces(""), Warning, admission.Yes},
		"namespace carries the opt-in":  {optsIn, namespaces("example.com/inject: enabled"), Warning, admission.Yes},
		"namespace carries another one": {absent, namespaces("team: a"), Warning, admission.Yes},
	} {
		t.Run(name, func(t *testing.T) {
			s := files(t, strings.Replace(proxied, "SELECTOR", test.selector, 1)+test.namespaces)
			policy := DefaultPolicy()
			for check, severity := range map[*Check]Severity{
				bootstrapDeadlock:  test.want,
				controlPlanePath:   test.want,
				connectIntercepted: min(test.want, Info),
			} {
				f := findingOf(evaluate(t, policy, s), check)
				unsure := strings.Contains(f.Message, "unless its namespaceSelector")
				if f.Severity != severity || f.Message != "" && unsure != (test.called == admission.Maybe) {
					t.Errorf("%s: severity %q, want %q: %s", check.Name, f.Severity, severity, f.Message)
				}
			}
			for _, namespace := range []string{"mesh", "kube-system"} {
				r := must.Get(admission.New(s).Request(admission.Create, inventory.Resource{Name: "pods"}, admission.Subject{Namespace: namespace}))(t)
				if got := r.Match(s.Webhooks[0]); got.Match != test.called {
					t.Errorf("explain says %+v in %s, want %s", got, namespace, test.called)
				}
			}
		})
	}
}

// TestCertainBeforePossible: a cycle that is certain is reported, also where a
// shorter one hangs on labels that are unknown; the fix breaks both.
func TestCertainBeforePossible(t *testing.T) {
	other := strings.NewReplacer("SELECTOR", `{key: kubernetes.io/metadata.name, operator: In, values: [mesh]}`, "mesh}", "other}", "mesh,", "other,", "proxy-injector", "other").Replace(proxied)
	s := files(t, strings.Replace(proxied, "SELECTOR", `{key: example.com/admission-webhooks, operator: NotIn, values: [disabled]}`, 1)+
		"---"+other+"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n")
	deadlocks := 0
	for _, f := range evaluate(t, DefaultPolicy(), s).Findings {
		if f.Check != bootstrapDeadlock {
			continue
		}
		deadlocks++
		if f.Severity != Warning || strings.Contains(f.Message, "unless") || !strings.Contains(f.Message, "Deployment other/other") {
			t.Errorf("%s: %s: %s", f.Webhook.Configuration, f.Severity, f.Message)
		}
		if f.Webhook.Configuration == "proxy-injector" && !strings.Contains(f.Fix, `["mesh","other"]`) {
			t.Errorf("the fix leaves a namespace: %s", f.Fix)
		}
	}
	expect.Equal(t, 2, deadlocks)
}
