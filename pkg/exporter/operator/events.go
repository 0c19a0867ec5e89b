package operator

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// eventNamespace is the namespace of Events on cluster-scoped objects.
const eventNamespace = metav1.NamespaceDefault

// The bounds of Events, which are for people: so many at once, for a node that
// takes many backends down, and then one in an interval.
const (
	maxEvents     = 25
	eventInterval = 3 * time.Second
)

// maxMessage bounds the message of an Event, which the API server limits to 1024
// bytes, with what follows it.
const maxMessage = 900

// eventWindow is how often the same finding may come or go with an Event of its
// own.
const eventWindow = time.Minute

// transition is a critical finding that appeared or went.
type transition struct {
	identity
	finding *classify.Finding
	object  inventory.Object
	gone    bool
	at      time.Time
	// standing is set for what the first Report of this process finds: it may
	// have come long before.
	standing bool
}

// identity is what makes two findings the same over time.
type identity struct {
	check    string
	webhook  inventory.Ref
	resource inventory.Resource
}

func criticalFindings(r *classify.Report) map[identity]*classify.Finding {
	out := map[identity]*classify.Finding{}
	if r == nil {
		return out
	}
	for _, f := range r.Findings {
		if f.Severity == classify.Critical && !f.Acknowledged {
			out[identity{f.Check.Name, f.Webhook, f.Resource}] = f
		}
	}
	return out
}

// transitions returns the critical findings that came or went, sorted, and how
// many more than the bound there are.
func transitions(before, now *classify.Report) (kept []transition, more int) {
	had, have := criticalFindings(before), criticalFindings(now)
	var out []transition
	for id, f := range have {
		if _, ok := had[id]; !ok {
			out = append(out, transition{identity: id, finding: f, at: now.Snapshot.Taken, standing: before == nil})
		}
	}
	for id, f := range had {
		if _, ok := have[id]; !ok {
			out = append(out, transition{identity: id, finding: f, gone: true, at: now.Snapshot.Taken})
		}
	}
	slices.SortFunc(out, func(a, b transition) int {
		return strings.Compare(a.key(), b.key())
	})
	kept = out[:min(len(out), maxEvents)]
	for i, t := range kept {
		kept[i].object = objectOf(t.finding.Webhook, now)
		if t.gone {
			kept[i].object = objectOf(t.finding.Webhook, before)
		}
	}
	return kept, len(out) - len(kept)
}

func objectOf(webhook inventory.Ref, r *classify.Report) inventory.Object {
	i := slices.IndexFunc(r.Snapshot.Webhooks, func(w *inventory.Webhook) bool { return w.Ref == webhook })
	if i < 0 {
		return inventory.Object{}
	}
	return r.Snapshot.Webhooks[i].Object
}

func (t transition) key() string {
	return fmt.Sprint(t.gone, t.finding.Check.Name, t.finding.Webhook, t.finding.Resource)
}

// eventQueue records Events for critical findings that come and go. It loses
// none while the API server or a webhook refuses them, but for those beyond the
// bounds: these are counted in the next Event.
type eventQueue struct {
	// seen is the last Report that was compared.
	seen *classify.Report
	// pending are the transitions that are not recorded yet, oldest first: of one
	// finding at most that it came and that it went.
	pending []transition
	// omitted counts the transitions that get no Event of their own.
	omitted int
	// recorded are the windows of the last Events, by the keys of transitions.
	recorded map[string]time.Time
	limiter  *rate.Limiter
}

func newEventQueue() eventQueue {
	return eventQueue{recorded: map[string]time.Time{}, limiter: rate.NewLimiter(rate.Every(eventInterval), maxEvents)}
}

// add compares a Report with the one before.
func (q *eventQueue) add(r *classify.Report) {
	if q.seen != nil && sameFindings(q.seen.Findings, r.Findings) {
		return
	}
	kept, more := transitions(q.seen, r)
	q.omitted += more
	for _, t := range kept {
		q.push(t)
	}
	q.seen = r
}

// sameFindings reports whether both are of one evaluation.
func sameFindings(a, b []*classify.Finding) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// push appends a transition. Where the same one is pending, the finding came and
// went meanwhile: only where it ends counts.
func (q *eventQueue) push(t transition) {
	if i := slices.IndexFunc(q.pending, func(p transition) bool { return p.key() == t.key() }); i >= 0 {
		rest := slices.DeleteFunc(slices.Clone(q.pending[i:]), func(p transition) bool { return p.identity == t.identity })
		before := len(q.pending)
		q.pending = append(q.pending[:i:i], rest...)
		q.omitted += before - len(q.pending)
	}
	q.pending = append(q.pending, t)
	if len(q.pending) > maxEvents {
		q.pending = q.pending[1:]
		q.omitted++
	}
}

// createEvent is the method Create of a client of Events.
type createEvent func(ctx context.Context, e *corev1.Event, o metav1.CreateOptions) (*corev1.Event, error)

// flush records what is pending and due, and reports whether it tried to. It
// stops at the first failure: what blocks one Event blocks them all, perhaps for
// ten seconds each.
func (q *eventQueue) flush(ctx context.Context, create createEvent, now time.Time) (tried bool, err error) {
	maps.DeleteFunc(q.recorded, func(_ string, window time.Time) bool { return now.Sub(window) > 2*eventWindow })
	held := map[identity]bool{}
	for i := 0; i < len(q.pending); {
		t := q.pending[i]
		window, due := q.window(t, now)
		if !due || held[t.identity] {
			held[t.identity] = true
			i++
			continue
		}
		if !q.limiter.AllowN(now, 1) {
			return tried, nil
		}
		event := t.event(window, q.omitted)
		if _, err := create(ctx, event, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return true, fmt.Errorf("recording an Event on %s: %w", event.InvolvedObject.Name, err)
		}
		tried = true
		q.omitted = 0
		q.recorded[t.key()] = window
		q.pending = slices.Delete(q.pending, i, i+1)
	}
	return tried, nil
}

// window returns the window that names the Event: the one of the transition, or
// the current one if the transition's has an Event already. It is not due while
// both have.
func (q *eventQueue) window(t transition, now time.Time) (time.Time, bool) {
	last, recorded := q.recorded[t.key()]
	for _, at := range []time.Time{t.at, now} {
		if window := at.Truncate(eventWindow); !recorded || window.After(last) {
			return window, true
		}
	}
	return time.Time{}, false
}

// dropOlder drops what the replica that leads has had the time to record. What
// is younger is kept, for that replica may have died.
func (q *eventQueue) dropOlder(now time.Time) {
	q.pending = slices.DeleteFunc(q.pending, func(t transition) bool { return now.Sub(t.at) > 2*leaseDuration })
	if len(q.pending) == 0 {
		q.omitted = 0
	}
}

// apiVersions of the objects that register webhooks.
var apiVersions = map[string]string{
	inventory.KindValidating: "admissionregistration.k8s.io/v1",
	inventory.KindMutating:   "admissionregistration.k8s.io/v1",
	inventory.KindCRD:        "apiextensions.k8s.io/v1",
}

func kindOf(t inventory.Type) string {
	switch t {
	case inventory.Mutating:
		return inventory.KindMutating
	case inventory.Validating:
		return inventory.KindValidating
	}
	return inventory.KindCRD
}

// name is the same for the same transition within a window, so that two
// replicas that both believe they lead record it once. What stands has the same
// name always, so that a process that starts again and again records it once.
func (t transition) name(window time.Time) string {
	h := fnv.New64a()
	fmt.Fprint(h, t.key())
	if t.standing {
		fmt.Fprint(h, t.object.UID)
	} else {
		fmt.Fprint(h, window.Unix())
	}
	return fmt.Sprintf("webhook-auditor.%016x", h.Sum64())
}

// event is the Event of the transition, with the number of those that got none.
func (t transition) event(window time.Time, omitted int) *corev1.Event {
	f, at := t.finding, metav1.NewTime(t.at)
	kind, reason, message := corev1.EventTypeWarning, "CriticalFinding", fmt.Sprintf("%s: webhook %s %s", f.Check.Name, f.Webhook.Name, f.Message)
	if t.gone {
		kind, reason, message = corev1.EventTypeNormal, "CriticalFindingGone", fmt.Sprintf("%s: no longer true of webhook %s", f.Check.Name, f.Webhook.Name)
	}
	message = shorten(message, maxMessage)
	if omitted > 0 {
		message += fmt.Sprintf("; and %d more critical findings came or went", omitted)
	}
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: t.name(window), Namespace: eventNamespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: apiVersions[kindOf(f.Webhook.Type)],
			Kind:       kindOf(f.Webhook.Type),
			Name:       f.Webhook.Configuration,
			UID:        types.UID(t.object.UID),
		},
		Type:           kind,
		Reason:         reason,
		Message:        message,
		Source:         corev1.EventSource{Component: manager},
		FirstTimestamp: at,
		LastTimestamp:  at,
		Count:          1,
	}
}

// shorten returns the text with at most so many bytes.
func shorten(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}
