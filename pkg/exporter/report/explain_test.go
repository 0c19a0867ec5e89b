package report

import (
	"bytes"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// chain is what the creation of a Pod meets where everything happens at once.
func chain() admission.Chain {
	hook := func(t inventory.Type, name string, seconds int) *inventory.Webhook {
		return &inventory.Webhook{
			Ref:           inventory.Ref{Type: t, Configuration: "conf", Name: name + ".example.com"},
			FailurePolicy: admissionv1.Fail,
			Timeout:       time.Duration(seconds) * time.Second,
		}
	}
	again := hook(inventory.Mutating, "sidecar", 10)
	again.Reinvocation = admissionv1.IfNeededReinvocationPolicy
	elsewhere := hook(inventory.Validating, "elsewhere", 10)
	elsewhere.NamespaceSelector = inventory.Selector{Raw: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}}
	yes := admission.Verdict{Match: admission.Yes}
	return admission.Chain{
		Request: admission.Request{
			Operation: admission.Create,
			Resource:  inventory.Resource{Name: "pods"},
			Version:   "v1",
			Namespace: "team-a",
			Notes:     []string{"po is taken to be pods"},
		},
		Steps: []admission.Step{
			{Webhook: hook(inventory.Mutating, "defaults", 5), Verdict: yes},
			{Webhook: again, Verdict: yes},
			{Webhook: hook(inventory.Validating, "policy", 7), Verdict: admission.Verdict{Match: admission.Maybe, Reason: admission.ReasonMatchConditions, Detail: `matchCondition "not-admin" needs more than is known of the request`}},
			{Webhook: hook(inventory.Validating, "broken", 3), Verdict: admission.Verdict{Match: admission.Yes, Refused: true, Reason: admission.ReasonMatchConditions, Detail: `matchCondition "c" fails: division by zero, which refuses the request (failurePolicy Fail)`}},
		},
		Skipped: []admission.Step{
			{Webhook: hook(inventory.Mutating, "deployments", 10), Verdict: admission.Verdict{Match: admission.No, Reason: admission.ReasonRules}},
			{Webhook: elsewhere, Verdict: admission.Verdict{Match: admission.No, Reason: admission.ReasonNamespaceSelector}},
			{Webhook: hook(inventory.Validating, "conditional", 10), Verdict: admission.Verdict{Match: admission.No, Reason: admission.ReasonMatchConditions, Detail: `matchCondition "no-teams" is false`}},
		},
		Conversion: &admission.Step{Webhook: hook(inventory.Conversion, "pods", 30), Verdict: admission.Verdict{Match: admission.Maybe, Detail: "the object may be stored in another version than v1"}},
	}
}

func TestExplain(t *testing.T) {
	var text, document bytes.Buffer
	if err := WriteExplainText(&text, Explained{Chain: chain()}, TextOptions{Width: 100}); err != nil {
		t.Fatal(err)
	}
	reporttest.Golden(t, "explain.txt", text.Bytes())
	if err := WriteExplainJSON(&document, Explained{Chain: chain()}); err != nil {
		t.Fatal(err)
	}
	reporttest.Golden(t, "explain.json", document.Bytes())
}

func TestExplainNothing(t *testing.T) {
	var text, document bytes.Buffer
	c := admission.Chain{Request: chain().Request}
	if err := WriteExplainText(&text, Explained{Chain: c}, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	reporttest.Golden(t, "explain-nothing.txt", text.Bytes())
	if err := WriteExplainJSON(&document, Explained{Chain: c}); err != nil {
		t.Fatal(err)
	}
	reporttest.Golden(t, "explain-nothing.json", document.Bytes())
}
