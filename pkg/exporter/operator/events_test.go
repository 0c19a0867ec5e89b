package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// down is a Report on a webhook whose Service is missing.
func down() *classify.Report {
	policy := kubetest.Validating("policy", kubetest.Webhook("pods.policy.example.com", kubetest.Client("policy", "gone"), kubetest.Rule("batch", "jobs", "CREATE")))
	policy.UID = "1234"
	return reported(inventory.Objects{
		Cluster:    inventory.Cluster{ServicesKnown: inventory.Coverage{All: true}},
		Validating: []*admissionv1.ValidatingWebhookConfiguration{policy},
	}.Snapshot(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)))
}

func reported(s *inventory.Snapshot) *classify.Report {
	r, err := classify.DefaultPolicy().Evaluate(context.Background(), s)
	if err != nil {
		panic(err) // unreachable: the context does not end
	}
	return r
}

func up() *classify.Report {
	return reported(inventory.Objects{}.Snapshot(time.Date(2026, 1, 1, 12, 1, 0, 0, time.UTC)))
}

// queueOf is a queue that records to an API server, which refuses Events while it is broken.
type queueOf struct {
	findingEvents
	recorded []corev1.Event
	broken   error
	limit    *rate.Limiter
}

func newQueue() *queueOf {
	return &queueOf{findingEvents: newFindingEvents(), limit: newEventLimiter()}
}

func (q *queueOf) create(_ context.Context, e *corev1.Event, _ metav1.CreateOptions) (*corev1.Event, error) {
	if q.broken == nil {
		q.recorded = append(q.recorded, *e.DeepCopy())
	}
	return e, q.broken
}

// report has the queue see a Report, and flush.
func (q *queueOf) report(r *classify.Report, snapshotTime time.Time) error {
	err := q.flush(context.Background(), &recorder{create: q.create, limiter: q.limit}, takenAt(r, snapshotTime), snapshotTime)
	if errors.Is(err, errLimited) {
		return nil
	}
	return err
}

var eventsBegin = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestEventsOfCriticalFindings(t *testing.T) {
	q := newQueue()
	for i, r := range []*classify.Report{down(), down(), up()} {
		must.Succeed(t, q.report(r, eventsBegin.Add(time.Duration(i)*findingInterval)))
	}
	var got []string
	for _, e := range q.recorded {
		got = append(got, strings.Join([]string{e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message[:strings.IndexByte(e.Message, ':')]}, " "))
	}
	slices.Sort(got)
	want := []string{
		corev1.EventTypeNormal + " CriticalFindingGone ValidatingWebhookConfiguration policy service-missing",
		corev1.EventTypeWarning + " CriticalFinding ValidatingWebhookConfiguration policy service-missing",
	}
	expect.Equal(t, want, got)
}

// TestEventsOfAnObjectCreatedAgain: kubectl describe shows the Events of the UID, so that
// an object that was deleted and created again has one of its own.
func TestEventsOfAnObjectCreatedAgain(t *testing.T) {
	q := newQueue()
	must.Succeed(t, q.report(down(), eventsBegin))
	again := down()
	for _, w := range again.Snapshot.Webhooks {
		w.Object.UID = "5678"
	}
	for i := range 3 {
		must.Succeed(t, q.report(again, eventsBegin.Add(time.Duration(i+1)*time.Hour)))
	}
	must.Succeed(t, q.report(up(), eventsBegin.Add(5*time.Hour)))
	var got []string
	for _, e := range q.recorded {
		got = append(got, fmt.Sprint(e.LastTimestamp.Sub(eventsBegin), " ", e.Reason, " ", e.InvolvedObject.UID))
	}
	slices.Sort(got)
	expect.Equal(t, []string{"0s CriticalFinding 1234", "1h0m0s CriticalFinding 5678", "5h0m0s CriticalFindingGone 5678"}, got)
}

// TestEventsOutliveAnOutage: what a webhook kept from being recorded is recorded once
// that ends, as it is then.
func TestEventsOutliveAnOutage(t *testing.T) {
	q := newQueue()
	q.broken = errDead
	if err := q.report(down(), eventsBegin); Blocker(err) != "all.example.com" {
		t.Errorf("want the webhook's name, have %v", err)
	}
	q.broken = nil
	for i, r := range []*classify.Report{down(), up()} {
		must.Succeed(t, q.report(r, eventsBegin.Add(time.Duration(i+1)*findingInterval)))
		if n := len(q.recorded); n != i+1 {
			t.Errorf("%d events after Report %d, want one of the coming and one of the going", n, i)
		}
	}
}

// many is a Report on so many webhooks, each with a critical finding.
func many(webhooks int) *classify.Report {
	r := down()
	one := r.Findings[slices.IndexFunc(r.Findings, func(f *classify.Finding) bool { return f.Severity == classify.Critical })]
	r.Findings = nil
	for i := range webhooks {
		f := *one
		f.Webhook.Name = fmt.Sprintf("webhook-%d", i)
		r.Findings = append(r.Findings, &f)
	}
	return r
}

// contradicted returns the webhooks whose last Event is that of a critical finding.
func (q *queueOf) contradicted(t *testing.T) []string {
	t.Helper()
	last := map[string]corev1.Event{}
	for _, e := range q.recorded {
		_, about, _ := strings.Cut(e.Message, "webhook-")
		webhook := strings.FieldsFunc(about, func(r rune) bool { return r == ' ' || r == ';' })[0]
		if before, ok := last[webhook]; !ok || e.LastTimestamp.After(before.LastTimestamp.Time) {
			last[webhook] = e
		}
	}
	var out []string
	for webhook, e := range last {
		if e.Reason != "CriticalFindingGone" {
			out = append(out, webhook)
		}
	}
	slices.Sort(out)
	return out
}

// TestEventsAfterAStorm: more webhooks than Events may be recorded at once come and go
// for a minute, a few at a time, and are gone in the end. None keeps an Event that
// says otherwise.
func TestEventsAfterAStorm(t *testing.T) {
	const webhooks, few, step = 56, 7, 100 * time.Millisecond
	q, now := newQueue(), eventsBegin
	must.Succeed(t, q.report(up(), now))
	r := many(webhooks)
	all, present := r.Findings, map[int]bool{}
	for i := range int(time.Minute / step) {
		var found []*classify.Finding
		for k := range few {
			present[(i*few+k)%webhooks] = !present[(i*few+k)%webhooks]
		}
		for k, f := range all {
			if present[k] {
				found = append(found, f)
			}
		}
		storm := *r
		storm.Findings = found
		now = now.Add(step)
		must.Succeed(t, q.report(&storm, now))
	}
	if len(q.contradicted(t)) == 0 {
		t.Error("all Events are right already, so the test shows nothing")
	}
	for range 300 {
		now = now.Add(time.Second)
		must.Succeed(t, q.report(up(), now))
	}
	if left := q.contradicted(t); len(left) > 0 || len(q.last) > 0 {
		t.Errorf("critical by their last Event are %v; of %d findings that are gone something is kept", left, len(q.last))
	}
}

// TestEventsAreBounded: of a thousand webhooks that die at once some have their Event at
// once, and the others soon.
func TestEventsAreBounded(t *testing.T) {
	q := newQueue()
	must.Succeed(t, q.report(many(1000), eventsBegin))
	expect.Equal(t, maxEvents, len(q.recorded))
	must.Succeed(t, q.report(many(1000), eventsBegin.Add(time.Minute)))
	if n, want := len(q.recorded), maxEvents+int(time.Minute/eventInterval); n != want {
		t.Errorf("%d events a minute later, want %d", n, want)
	}
}

// waits is a Report on n configurations, whose webhooks wait for so many seconds.
func waits(n, seconds int, snapshotTime time.Time) *classify.Report {
	var o inventory.Objects
	for i := range n {
		o.Validating = append(o.Validating, &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("policy-%02d", i), UID: "1234",
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "helm", Time: new(metav1.NewTime(snapshotTime))}},
			},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "pods.policy.example.com", TimeoutSeconds: new(int32(seconds)),
				ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://hooks.example.com/")},
			}},
		})
	}
	return reported(o.Snapshot(snapshotTime))
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
		r.changes, histories = changeEvents{history: h}, append(histories, h)
		r.observes(up())
	}
	for _, h := range histories {
		haveChanged(t, h, waits(1, 5, c.now), waits(1, 8, c.now))
	}
	first.passes(time.Minute, second)
	want := "ValidatingWebhookConfiguration/policy-00 1234 Normal: validating webhook configuration policy-00 is changed, last written by helm at 2026-01-01T12:00:00Z. " +
		"webhook pods.policy.example.com: timeoutSeconds 5 → 8"
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
	r.changes = changeEvents{history: h}
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
