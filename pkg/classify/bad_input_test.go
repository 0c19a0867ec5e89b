package classify

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

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
