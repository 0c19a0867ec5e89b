package classify

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// TestTexts: a message gives the reason that is so.
func TestTexts(t *testing.T) {
	rule := func(operations, resources string) string {
		return registering(fmt.Sprintf("{operations: [%s], apiGroups: [''], apiVersions: [v1], resources: [%s]}", operations, resources))
	}
	const selector = "  objectSelector: {matchLabels: {a: b}}\n"
	const inSystem = "  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}\n"
	for name, tc := range map[string]struct {
		manifest, check string
		want, not       []string
	}{
		"evictions":          {rule("CREATE", "pods/eviction"), "delete-path", []string{"node drains stop"}, []string{"namespaces", "garbage"}},
		"Pods":               {rule("DELETE", "pods"), "delete-path", []string{"Pods are never gone"}, []string{"cannot be deleted"}},
		"namespaces":         {rule("DELETE", "namespaces"), "delete-path", []string{"namespaces cannot be deleted"}, []string{"drains", "garbage"}},
		"finalizers":         {rule("UPDATE", "namespaces/finalize"), "delete-path", []string{"namespaces stay Terminating"}, []string{"drains", "cannot be deleted"}},
		"the selector":       {rule("CONNECT", "pods/exec") + selector, "dead-rule", []string{"no CONNECT of pods/exec carries labels", "objectSelector"}, []string{"never see CONNECT"}},
		"another operation":  {rule("CREATE", "pods/exec"), "dead-rule", []string{"the API server calls no webhook for CREATE of pods/exec"}, []string{"labels"}},
		"kube-system":        {rule("UPDATE", "namespaces") + inSystem, "control-plane-path", []string{"is on the path", "namespaces of kube-system are refused"}, []string{"unless"}},
		"its status":         {rule("UPDATE", "namespaces/status") + inSystem, "control-plane-path", []string{"is on the path", "namespaces/status of kube-system are refused"}, []string{"unless"}},
		"every Namespace":    {rule("UPDATE", "namespaces, namespaces/status"), "control-plane-path", []string{"namespaces and namespaces/status are refused"}, []string{"kube-system"}},
		"no operation":       {rule("", "pods"), "dead-rule", nil, []string{"the API server"}},
		"another, selecting": {rule("CREATE", "pods/exec") + selector, "dead-rule", []string{"the API server calls no webhook for CREATE of pods/exec"}, []string{"labels"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := must.File(t, "webhook.yaml", tc.manifest)
			var messages []string
			for _, f := range reportOn(t, file).Findings {
				if f.Check.Name == tc.check {
					messages = append(messages, f.Message)
				}
			}
			found := strings.Join(messages, "; ")
			expect.Contains(t, found, tc.want...)
			for _, not := range tc.not {
				if strings.Contains(found, not) {
					t.Errorf("%q in %q", not, found)
				}
			}
		})
	}
}

// TestGroupsOfKubernetes: of Kubernetes' own groups it is known which version serves
// them by default; another that is not served may come with its CRDs.
func TestGroupsOfKubernetes(t *testing.T) {
	for _, tc := range []struct {
		group, resource string
		minor           int
		want            bool
	}{
		{"resource.k8s.io", "resourceclaims", 33, true},
		{"resource.k8s.io", "resourceclaims", 34, false},
		{"storagemigration.k8s.io", "storageversionmigrations", 36, true},
		{"storagemigration.k8s.io", "storageversionmigrations", 37, false},
		{"gateway.networking.k8s.io", "gateways", 37, false},
	} {
		rule := fmt.Sprintf("{operations: [CREATE], apiGroups: [%s], apiVersions: [v1], resources: [%s]}", tc.group, tc.resource)
		found := ofRelease(t, registering(rule), fmt.Sprintf("v1.%d.0", tc.minor))
		if got := strings.Contains(found, "dead-rule"); got != tc.want {
			t.Errorf("%s on v1.%d: dead-rule %t, want %t", tc.group, tc.minor, got, tc.want)
		}
	}
}

// proxied is a webhook that is called for Pods, as its chart renders it.
//
//go:embed testdata/inputs/injector.yaml
var proxied string

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
		"---\n"+other+"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n")
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

// TestBadInput: what no API server would store, files may hold. It becomes an
// error with its place, and the rest is evaluated.
func TestBadInput(t *testing.T) {
	rule := kubetest.Rule("", "pods", admissionv1.Create)
	conversion := &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{}}
	o := inventory.Objects{
		Validating: []*admissionv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "bad"},
			Webhooks: []admissionv1.ValidatingWebhook{
				{Name: "bundle.example.com", ClientConfig: admissionv1.WebhookClientConfig{CABundle: bytes.Repeat([]byte("A"), 10<<20)}},
				{Name: "rules.example.com", Rules: slices.Repeat([]admissionv1.RuleWithOperations{rule}, 5000)},
				{Name: "operator.example.com", Rules: []admissionv1.RuleWithOperations{rule}, NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}},
				{Name: "condition.example.com", Rules: []admissionv1.RuleWithOperations{rule}, MatchConditions: []admissionv1.MatchCondition{{Name: "broken", Expression: "request.("}}},
				{Name: "bytes\xff\xfe.example.com", Rules: []admissionv1.RuleWithOperations{{Rule: admissionv1.Rule{APIGroups: []string{"\xff"}, Resources: []string{"/", "", "\xff/\xff"}}}}},
				{Name: "", Rules: []admissionv1.RuleWithOperations{{}}},
			},
		}, kubetest.Validating("rest", admissionv1.ValidatingWebhook{Name: "rest.example.com", Rules: []admissionv1.RuleWithOperations{rule}})},
		CRDs: []*apiextensionsv1.CustomResourceDefinition{{ObjectMeta: metav1.ObjectMeta{Name: "empty"}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{Conversion: conversion}}},
	}
	r := evaluate(t, DefaultPolicy(), o.Snapshot(taken))
	if !slices.ContainsFunc(r.Findings, func(f *Finding) bool { return f.Check == criticalResource && f.Webhook.Name == "rest.example.com" }) {
		t.Error("the rest is not evaluated")
	}
	for _, want := range []string{"reading namespaceSelector of webhook operator.example.com"} {
		if !slices.ContainsFunc(r.Errors, func(e inventory.Error) bool { return strings.Contains(e.Error(), want) }) {
			t.Errorf("no error says %q: %v", want, r.Errors)
		}
	}
}

// FuzzEvaluate: whatever a file holds can be evaluated.
func FuzzEvaluate(f *testing.F) {
	files := must.Get(filepath.Glob("testdata/*.yaml"))(f)
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(f)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<16 {
			return
		}
		o, _ := manifest.Read([]string{"-"}, manifest.Options{Stdin: bytes.NewReader(text)})
		o.NamespacesKnown, o.ServicesKnown.All, o.EndpointsKnown.All = true, true, true
		for _, finding := range evaluate(t, DefaultPolicy(), o.Snapshot(taken)).Findings {
			if finding.Message == "" || finding.Fix == "" || finding.Severity == 0 {
				t.Errorf("%s says too little: %s", finding.Check.Name, fmt.Sprint(finding.Problem))
			}
		}
	})
}
