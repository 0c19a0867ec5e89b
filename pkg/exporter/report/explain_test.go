package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// chain is what the creation of a Pod meets where everything happens at once.
func chain() admission.Chain {
	hook := func(t inventory.Type, name string, seconds int) *inventory.Webhook {
		return &inventory.Webhook{
			Registration: inventory.Registration{
				Ref:           inventory.Ref{Type: t, Configuration: "conf", Name: name + ".example.com"},
				FailurePolicy: admissionv1.Fail,
			},
			Timeout: time.Duration(seconds) * time.Second,
		}
	}
	again := hook(inventory.Mutating, "sidecar", 10)
	again.Reinvocation = admissionv1.IfNeededReinvocationPolicy
	elsewhere := hook(inventory.Validating, "elsewhere", 10)
	elsewhere.NamespaceSelector = inventory.Selector{Raw: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}}
	yes := admission.Verdict{Match: admission.Yes}
	return admission.Chain{
		Limits: admission.New(&inventory.Snapshot{}).Limits(admission.Create, inventory.Resource{Name: "pods"}),
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
		Policies: []admission.PolicyStep{
			{Policy: policy(inventory.MutatingPolicy, "labels"), Binding: &inventory.PolicyBinding{Object: inventory.Object{Name: "labels-everywhere"}}, Verdict: yes},
			{Policy: policy(inventory.ValidatingPolicy, "limits"), Binding: &inventory.PolicyBinding{Object: inventory.Object{Name: "limits-shop"}, Actions: []admissionv1.ValidationAction{admissionv1.Deny, admissionv1.Audit}}, Verdict: admission.Verdict{Match: admission.Maybe, Reason: admission.ReasonParams, Detail: "only if a ConfigMap shop/limits exists"}},
			{Policy: policy(inventory.ValidatingPolicy, "quota"), Verdict: admission.Verdict{Match: admission.Yes, Refused: true, Reason: admission.ReasonParams, Detail: "the API server does not serve the kind of its params (example.com/v1 Quota), which refuses the request"}},
		},
		SkippedPolicies: []admission.PolicyStep{
			{Policy: policy(inventory.MutatingPolicy, "services"), Verdict: admission.Verdict{Match: admission.No, Reason: admission.ReasonRules}},
			{Policy: policy(inventory.ValidatingPolicy, "forgotten"), Verdict: admission.Verdict{Match: admission.No, Reason: admission.ReasonBinding, Detail: "it has no binding"}},
			{Policy: policy(inventory.ValidatingPolicy, "others"), Verdict: admission.Verdict{Match: admission.No, Reason: admission.ReasonExcludeRules}},
		},
		Conversion: &admission.Step{Webhook: hook(inventory.Conversion, "pods", 30), Verdict: admission.Verdict{Match: admission.Maybe, Detail: "the object may be stored in another version than v1"}},
	}
}

// policy is one that is evaluated again where a later step changes the object.
func policy(t inventory.Type, name string) *inventory.AdmissionPolicy {
	p := &inventory.AdmissionPolicy{Registration: inventory.Registration{Ref: inventory.Ref{Type: t, Configuration: name, Name: name}, FailurePolicy: admissionv1.Fail}}
	if t == inventory.MutatingPolicy {
		p.Reinvocation = admissionv1.IfNeededReinvocationPolicy
	}
	return p
}

func TestExplain(t *testing.T) {
	for name, c := range map[string]admission.Chain{"explain": chain(), "explain-nothing": {Request: chain().Request}} {
		for format, file := range map[string]string{"text": name + ".txt", "json": name + ".json"} {
			golden.Compare(t, file, reporttest.Rendered(t, func(b *bytes.Buffer) error {
				return Write(b, format, NewExplanation(c, &inventory.Snapshot{}), TextOptions{Width: 100})
			}))
		}
	}
}

// TestVerdict: the first line says what becomes of the request.
func TestVerdict(t *testing.T) {
	step := func(name, failurePolicy string, seconds int) ChainStep {
		return ChainStep{Ref: inventory.Ref{Type: inventory.Validating, Name: name}, FailurePolicy: failurePolicy, TimeoutSeconds: seconds, Called: admission.Yes, Backend: "Service a/b:443"}
	}
	maybe := func(name string, seconds int) ChainStep {
		s := step(name, "Ignore", seconds)
		s.Called = admission.Maybe
		return s
	}
	down := step("down", "Fail", 5)
	down.Unreachable = "does not exist"
	spared := step("spared", "Ignore", 5)
	spared.Unreachable = "does not exist"
	bound := ChainStep{Ref: inventory.Ref{Type: inventory.ValidatingPolicy, Name: "limits"}, Called: admission.Yes}
	clients := []Deadline{{AfterSeconds: 30, Whose: "after which most clients give up", Missed: true}}
	for _, tc := range []struct {
		chain     []ChainStep
		worst     int
		ends      int
		deadlines []Deadline
		want      string
	}{
		{nil, 0, 0, nil, "CREATE pods web in shop meets no webhook."},
		{[]ChainStep{step("a", "Fail", 5)}, 5, 0, nil, "meets 1 webhook: waits 5 s at worst."},
		{[]ChainStep{step("a", "Ignore", 20), step("b", "Ignore", 20)}, 40, 34, clients, "if all hang, it is refused after 34 s, although all 2 have failurePolicy Ignore."},
		{[]ChainStep{step("a", "Fail", 20), step("b", "Ignore", 20)}, 40, 34, clients, "if all are slow, it is refused after 34 s."},
		{[]ChainStep{step("a", "Fail", 30)}, 30, 0, clients, "waits 30 s at worst, and so misses the 30 s after which most clients give up."},
		{[]ChainStep{maybe("a", 20), maybe("b", 20)}, 40, 34, clients, "shop may meet up to 2 webhooks: if all are called and hang, it is refused after 34 s, although all 2 have failurePolicy Ignore."},
		{[]ChainStep{step("a", "Fail", 20), maybe("b", 20)}, 40, 34, clients, "shop meets 1 to 2 webhooks: if all are called and slow, it is refused after 34 s."},
		{[]ChainStep{maybe("a", 30)}, 30, 0, clients, "may meet up to 1 webhook: waits up to 30 s if it is called, and so misses the 30 s after which most clients give up."},
		{[]ChainStep{step("a", "Fail", 5), down}, 5, 0, nil, "refused now, as down cannot be called: Service a/b:443 does not exist."},
		{[]ChainStep{spared}, 5, 0, nil, "waits 5 s at worst."},
		{[]ChainStep{bound, bound}, 0, 0, nil, "meets 1 policy and no webhook."},
	} {
		e := Explanation{Request: ExplainedRequest{Operation: admission.Create, Resource: "pods", Namespace: "shop", Name: "web"}, Chain: tc.chain, BudgetSeconds: tc.worst, EndsAfterSeconds: tc.ends, Deadlines: tc.deadlines}
		if got := e.Verdict(); !strings.HasSuffix(got, tc.want) {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
	unread := Explanation{files: true}
	if got, want := unread.Verdict(), "no webhook: no configuration was read."; !strings.HasSuffix(got, want) {
		t.Errorf("of an input without configurations: got %q, want %q", got, want)
	}
}
