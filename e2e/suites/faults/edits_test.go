//go:build faults

package faults

import (
	"fmt"
	"math"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

const (
	heap        = "go_memstats_heap_alloc_bytes"
	evaluations = auditor.Prefix + "evaluation_duration_seconds"
)

// TestFaultEdits edits the matchCondition of a webhook on everything again and again,
// and the auditor evaluates each edit: what it holds does not grow with them. What was
// compiled and found for each of the expressions took 60 to 200 kB.
func TestFaultEdits(t *testing.T) {
	t.Parallel()
	const few, all = 200, 2000
	s := newStage(t)
	h := testenv.CatchAll("*/*")
	h.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": "none"}}
	s.Validate(t, "edited", h)
	s.exports(t, "edited")
	lowest := func(edits int) float64 {
		least := math.Inf(1)
		for range edits {
			least = min(least, s.edit(t))
		}
		return least
	}
	before := lowest(few)
	lowest(all - 2*few)
	after := lowest(few)
	t.Logf("heap of the first %d edits %.1f MiB, of the last of %d edits %.1f MiB", few, before/mebibyte, all, after/mebibyte)
	if after > 2*before {
		t.Errorf("the heap grows from %.1f to %.1f MiB", before/mebibyte, after/mebibyte)
	}
	s.Unregister(t, "edited") // it refuses the writes of conditions as well
	equalsAudit(t, s.Env, s.Auditor)
}

// edit gives the webhook an expression that it never had, waits until that is evaluated
// and read of the page, and returns the heap, which is smallest after a collection.
func (s *stage) edit(t *testing.T) float64 {
	t.Helper()
	client := s.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	c, err := client.Get(t.Context(), "edited", metav1.GetOptions{})
	testenv.Must(t, err)
	c.Webhooks[0].MatchConditions = []admissionv1.MatchCondition{{Name: "some", Expression: fmt.Sprintf("request.name != 'revision-%s'", c.ResourceVersion)}}
	evaluated := s.value(t, evaluations)
	_, err = client.Update(t.Context(), c, metav1.UpdateOptions{})
	testenv.Must(t, err)
	testenv.EventuallyWithin(t, recovery, func() error {
		if s.value(t, evaluations) == evaluated {
			return fmt.Errorf("the edit is not evaluated")
		}
		return nil
	})
	_, err = s.Page(t.Context(), "/webhooks/validating/edited/"+c.Webhooks[0].Name)
	testenv.Must(t, err)
	return s.value(t, heap)
}
