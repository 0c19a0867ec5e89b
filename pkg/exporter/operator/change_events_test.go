package operator

import (
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// waits is a Report on n configurations, whose webhooks wait for so many seconds.
func waits(n, seconds int, taken time.Time) *classify.Report {
	var o inventory.Objects
	for i := range n {
		o.Validating = append(o.Validating, &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("policy-%02d", i), UID: "1234",
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "helm", Time: new(metav1.NewTime(taken))}},
			},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "pods.policy.example.com", TimeoutSeconds: new(int32(seconds)),
				ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://hooks.example.com/")},
			}},
		})
	}
	return reported(o.Snapshot(taken))
}

// haveChanged has a History see Reports one after the other.
func haveChanged(t *testing.T, h *impact.History, reports ...*classify.Report) {
	t.Helper()
	for i := 1; i < len(reports); i++ {
		h.Observe(reports[i-1], reports[i])
	}
}

// changesIn are the messages of the Events on changes that the API server has.
func changesIn(a *apiServer) []string {
	var out []string
	for _, e := range a.events() {
		event := e.(map[string]any)
		if event["reason"] == reasonChanged {
			object := event["involvedObject"].(map[string]any)
			out = append(out, fmt.Sprint(object["kind"], "/", object["name"], " ", object["uid"], " ", event["type"], ": ", event["message"]))
		}
	}
	return out
}

// TestChangeEvents: the replica that writes records each change once, on the
// configuration; the other one leaves it out, also once it writes.
func TestChangeEvents(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	first, second := newReplica(t, a, c, "a"), newReplica(t, a, c, "b")
	var histories []*impact.History
	for _, r := range []*replica{first, second} {
		h := &impact.History{}
		r.changes, histories = newChangeEvents(h), append(histories, h)
		r.observes(up())
	}
	for _, h := range histories {
		haveChanged(t, h, waits(1, 5, c.now), waits(1, 8, c.now))
	}
	first.passes(time.Minute, second)
	want := "ValidatingWebhookConfiguration/policy-00 1234 Normal: validating webhook configuration policy-00 is changed, last written by helm at 2026-01-01T12:00:00Z. " +
		"webhook pods.policy.example.com: timeoutSeconds 8, before 5"
	if got := changesIn(a); len(got) != 1 || got[0] != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	second.passes(10 * leaseInterval)
	if !second.leading {
		t.Fatal("the other replica does not take over")
	}
	if got := changesIn(a); len(got) != 1 {
		t.Errorf("the other replica records again: %q", got)
	}
	haveChanged(t, histories[1], waits(1, 8, c.now), waits(1, 9, c.now))
	second.passes(leaseInterval)
	if got := changesIn(a); len(got) != 2 {
		t.Errorf("the other replica records nothing: %q", got)
	}
}

// TestChangeEventsAreBounded: of a thousand edits the last get Events; what is recorded
// is not kept.
func TestChangeEventsAreBounded(t *testing.T) {
	a, c := newAPIServer(t), newClock()
	r, h := newReplica(t, a, c, "a"), &impact.History{}
	r.changes = newChangeEvents(h)
	var reports []*classify.Report
	for i := range 1000 {
		reports = append(reports, waits(1, 5+i%2, c.now.Add(time.Duration(i)*time.Second)))
	}
	haveChanged(t, h, reports...)
	r.observes(up())
	if got := changesIn(a); len(got) != maxEvents {
		t.Fatalf("%d Events: %q", len(got), got)
	}
	haveChanged(t, h, waits(30, 5, c.now), waits(30, 6, c.now))
	r.passes(2 * time.Minute)
	if got := changesIn(a); len(got) < maxEvents+15 {
		t.Errorf("%d Events after two minutes", len(got))
	}
}
