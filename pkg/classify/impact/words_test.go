package impact

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest/mixed"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// someEdit changes what chooses the requests of a webhook.
func someEdit(r *rand.Rand, w, other *admissionv1.ValidatingWebhook) {
	switch r.IntN(6) {
	case 0:
		w.NamespaceSelector = other.NamespaceSelector
	case 1:
		w.ObjectSelector = other.ObjectSelector
	case 2:
		w.Rules = append(w.Rules, other.Rules...)
	case 3:
		slices.Reverse(w.Rules)
	case 4:
		w.Rules = other.Rules
	case 5:
		w.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: []string{`request.namespace != "team-00001"`, "true"}[r.IntN(2)]}}
	}
}

// TestWordsAgreeWithRequests: where a request meets a webhook otherwise than before, some
// word of the change is about it.
func TestWordsAgreeWithRequests(t *testing.T) {
	differing, same := 0, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 3))
		was := mixed.Cluster(r)
		if len(was.Validating) < 2 {
			continue
		}
		now := was
		now.Validating = slices.Clone(was.Validating)
		now.Validating[0] = was.Validating[0].DeepCopy()
		for range 1 + r.IntN(2) {
			someEdit(r, &now.Validating[0].Webhooks[0], &was.Validating[1].Webhooks[0])
		}
		before, after := admission.New(snapshot(was)), admission.New(snapshot(now))
		var change WebhookChange
		if all := Registrations(before, after); len(all) > 0 {
			change = all[0].Webhooks[0]
		}
		words := strings.Join(change.Sentences, "\n")
		for _, resource := range []string{"pods", "pods/status", "leases.coordination.k8s.io", "endpointslices.discovery.k8s.io"} {
			for _, op := range []admission.Operation{admission.Create, admission.Update, admission.Delete} {
				for _, namespace := range []string{"team-00000", "team-00001", "team-00002", "elsewhere"} {
					what := ResourceOperations{Operations: []admission.Operation{op}}
					must.Succeed(t, what.Resource.UnmarshalText([]byte(resource)))
					at := admission.Subject{Name: "x", Namespace: namespace, Labels: map[string]string{"tier": "1"}}
					a, b := answer(before, what, at), answer(after, what, at)
					if a == b {
						same++
						continue
					}
					differing++
					moved := map[bool][]ResourceOperations{true: change.Lost, false: change.Gained}[b == admission.No]
					if len(change.NotCompared) == 0 && !covers(moved, what) {
						t.Errorf("seed %d: %s of %s in %s: %q, before %q, and the change says\n%s", seed, op, resource, namespace, b, a, words)
					}
				}
			}
		}
	}
	if differing < 500 || same < 500 {
		t.Errorf("%d requests meet the webhook otherwise, %d as before: too few to compare", differing, same)
	}
}

// answer is whether the first validating webhook is called for the request; "" where there
// is no such request.
func answer(m *admission.Matcher, what ResourceOperations, at admission.Subject) admission.Match {
	r, err := m.Request(what.Operations[0], what.Resource, at)
	i := slices.IndexFunc(m.Snapshot.Webhooks, func(w *inventory.Webhook) bool { return w.Type == inventory.Validating })
	if err != nil {
		return ""
	}
	return r.Match(m.Snapshot.Webhooks[i]).Match
}

func covers(list []ResourceOperations, what ResourceOperations) bool {
	return slices.ContainsFunc(list, func(o ResourceOperations) bool {
		return o.Resource == what.Resource && slices.Contains(o.Operations, what.Operations[0])
	})
}
