package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
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

// eventLifetime is how long the API server keeps Events unless it is configured
// otherwise.
const eventLifetime = time.Hour

// findingAnnotation is the annotation of an Event that has its identity as JSON.
const findingAnnotation = "webhook-auditor.io/finding"

// identity is what makes two findings the same over time.
type identity struct {
	Check    string
	Webhook  inventory.Ref
	Resource resource
}

// resource is an inventory.Resource that JSON can be read into.
type resource inventory.Resource

// transition is a critical finding that appeared or went.
type transition struct {
	identity
	message string
	// uid is that of the object that registers the webhook.
	uid  string
	gone bool
	at   time.Time
	// standing is set for what the first Report of this process finds and has no
	// Event: it may have come long before.
	standing bool
}

func (t transition) key() string { return fmt.Sprint(t.gone, t.Check, t.Webhook, t.Resource) }

func criticalFindings(r *classify.Report) map[identity]*classify.Finding {
	out := map[identity]*classify.Finding{}
	for _, f := range r.Findings {
		if f.Severity == classify.Critical && !f.Acknowledged {
			out[identity{f.Check.Name, f.Webhook, resource(f.Resource)}] = f
		}
	}
	return out
}

// uidsOf are those of the objects that register what has the findings. It costs the
// webhooks and policies, however many findings there are.
func uidsOf(findings iter.Seq[*classify.Finding], r *classify.Report) map[inventory.Ref]string {
	out := map[inventory.Ref]string{}
	for f := range findings {
		out[f.Webhook] = ""
	}
	add := func(registered *inventory.Registration) {
		if _, wanted := out[registered.Ref]; wanted {
			out[registered.Ref] = registered.Object.UID
		}
	}
	for _, w := range r.Snapshot.Webhooks {
		add(&w.Registration)
	}
	for _, p := range r.Snapshot.Policies {
		add(&p.Registration)
	}
	return out
}

// change is what is not recorded yet of a finding, oldest first: at most that it came
// and that it went, or the reverse.
type change struct {
	identity
	transitions []transition
}

func (c change) last() transition { return c.transitions[len(c.transitions)-1] }

// critical is what is kept of a critical finding: the UID of the object that registers
// the webhook, and whether this process has seen it.
type critical struct {
	uid  string
	seen bool
}

// lastEvent is what the last Event of a finding says.
type lastEvent struct {
	critical bool
	at       time.Time
}

// eventQueue records Events for critical findings that come and go. Where an Event
// says of a finding what is no longer so, the next one is never lost, and is recorded
// before others. What exceeds the bounds beside that is counted in the next Event.
type eventQueue struct {
	// begun is set once the Events of other processes were read.
	begun bool
	// seen is the last Report, and critical are its critical findings, with those that
	// Events of another process named last.
	seen       *classify.Report
	critical   map[identity]critical
	pending    []change
	lastEvents map[identity]lastEvent
	// omitted counts the transitions that get no Event of their own.
	omitted int
	// recorded are the windows of the last Events, by the keys of transitions.
	recorded map[string]time.Time
	limiter  *rate.Limiter
}

func newEventQueue() eventQueue {
	return eventQueue{
		critical: map[identity]critical{}, lastEvents: map[identity]lastEvent{}, recorded: map[string]time.Time{},
		limiter: rate.NewLimiter(rate.Every(eventInterval), maxEvents),
	}
}

// begin continues from the Events that the API server has.
func (q *eventQueue) begin(events []corev1.Event) {
	q.begun = true
	slices.SortStableFunc(events, func(a, b corev1.Event) int {
		order, _ := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion) // decides within a second
		return cmp.Or(a.LastTimestamp.Compare(b.LastTimestamp.Time), order)
	})
	for _, e := range events {
		var id identity
		if json.Unmarshal([]byte(e.Annotations[findingAnnotation]), &id) != nil {
			continue
		}
		delete(q.critical, id)
		if e.Reason == reasonCritical {
			q.critical[id] = critical{uid: string(e.InvolvedObject.UID)}
		}
		q.lastEvents[id] = lastEvent{e.Reason == reasonCritical, e.LastTimestamp.Time}
	}
}

// add compares a Report with the one before.
func (q *eventQueue) add(r *classify.Report) {
	allRead := len(r.Snapshot.Errors) == 0
	if q.seen != nil && sameFindings(q.seen.Findings, r.Findings) && allRead == (len(q.seen.Snapshot.Errors) == 0) {
		return
	}
	found := criticalFindings(r)
	uids := uidsOf(maps.Values(found), r)
	var changed []transition
	for id, f := range found {
		uid := uids[id.Webhook]
		was, known := q.critical[id]
		_, hasEvent := q.lastEvents[id]
		// Of an object that was created again, kubectl describe shows no Event of the
		// one before.
		if !known || was.uid != uid {
			changed = append(changed, transition{identity: id, message: f.Message, uid: uid, at: r.Snapshot.Taken, standing: q.seen == nil && !hasEvent})
		}
		q.critical[id] = critical{uid, true}
	}
	for id, was := range q.critical {
		// What another process found may only be unknown to this one.
		if found[id] == nil && (was.seen || allRead) {
			delete(q.critical, id)
			changed = append(changed, transition{identity: id, uid: was.uid, gone: true, at: r.Snapshot.Taken})
		}
	}
	slices.SortFunc(changed, func(a, b transition) int { return strings.Compare(a.key(), b.key()) })
	for _, t := range changed {
		q.push(t)
	}
	q.seen = r
}

// sameFindings reports whether both are of one evaluation.
func sameFindings(a, b []*classify.Finding) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// push appends a transition. Where the same one is pending, the finding came and
// went meanwhile: only where it ends counts. That it went is of no use where nothing
// says that it came.
func (q *eventQueue) push(t transition) {
	i := slices.IndexFunc(q.pending, func(c change) bool { return c.identity == t.identity })
	if i < 0 {
		if _, hasEvent := q.lastEvents[t.identity]; t.gone && !hasEvent {
			q.omitted++
			return
		}
		i, q.pending = len(q.pending), append(q.pending, change{identity: t.identity})
	}
	c := &q.pending[i]
	if same := slices.IndexFunc(c.transitions, func(p transition) bool { return p.gone == t.gone }); same >= 0 {
		q.omitted += len(c.transitions) - same
		c.transitions = c.transitions[:same]
	}
	c.transitions = append(c.transitions, t)
	if len(q.pending) <= maxEvents {
		return
	}
	if i := slices.IndexFunc(q.pending, func(c change) bool { return !q.owed(c) }); i >= 0 {
		q.omitted += len(q.pending[i].transitions)
		q.pending = slices.Delete(q.pending, i, i+1)
	}
}

// owed reports whether the last Event of the finding says what is no longer so.
func (q *eventQueue) owed(c change) bool {
	last, hasEvent := q.lastEvents[c.identity]
	return hasEvent && last.critical == c.last().gone
}

// createEvent is the method Create of a client of Events.
type createEvent func(ctx context.Context, e *corev1.Event, o metav1.CreateOptions) (*corev1.Event, error)

// flush records what is pending and due, and reports whether it tried to. It
// stops at the first failure: what blocks one Event blocks them all, perhaps for
// ten seconds each.
func (q *eventQueue) flush(ctx context.Context, create createEvent, now time.Time) (tried bool, err error) {
	maps.DeleteFunc(q.recorded, func(_ string, window time.Time) bool { return now.Sub(window) > 2*eventWindow })
	maps.DeleteFunc(q.lastEvents, func(_ identity, e lastEvent) bool { return !e.critical && now.Sub(e.at) > eventLifetime })
	for {
		i, t, window := q.next(now)
		if i < 0 || !q.limiter.AllowN(now, 1) {
			return tried, nil
		}
		c := &q.pending[i]
		skipped := slices.Index(c.transitions, t)
		event := t.event(window, q.omitted+skipped)
		if _, err := create(ctx, event, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return true, fmt.Errorf("recording an Event on %s: %w", event.InvolvedObject.Name, err)
		}
		tried = true
		q.omitted = 0
		q.recorded[t.key()], q.lastEvents[t.identity] = window, lastEvent{!t.gone, t.at}
		if c.transitions = c.transitions[skipped+1:]; len(c.transitions) == 0 {
			q.pending = slices.Delete(q.pending, i, i+1)
		}
	}
}

// next returns the next transition to record, with the window that names its Event,
// and the index of its change; -1 if none is due. Those that are owed come first, and
// leave out what was before.
func (q *eventQueue) next(now time.Time) (int, transition, time.Time) {
	first, found, named := -1, transition{}, time.Time{}
	for i, c := range q.pending {
		t, owed := c.transitions[0], q.owed(c)
		if owed {
			t = c.last()
		}
		if window, due := q.window(t, now); due && (owed || first < 0) {
			first, found, named = i, t, window
			if owed {
				break
			}
		}
	}
	return first, found, named
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

// name is the same for the same transition within a window, so that two
// replicas that both believe they lead record it once. What stands has the same
// name always, so that a process that starts again and again records it once.
func (t transition) name(window time.Time) string {
	h := fnv.New64a()
	fmt.Fprint(h, t.key(), t.uid)
	if !t.standing {
		fmt.Fprint(h, window.Unix())
	}
	return fmt.Sprintf("webhook-auditor.%016x", h.Sum64())
}

// The reasons of Events.
const (
	reasonCritical = "CriticalFinding"
	reasonGone     = "CriticalFindingGone"
)

// event is the Event of the transition, with the number of those that got none.
func (t transition) event(window time.Time, omitted int) *corev1.Event {
	kind, reason, message := corev1.EventTypeWarning, reasonCritical, fmt.Sprintf("%s: %s %s %s", t.Check, t.Webhook.Type.Noun(), t.Webhook.Name, t.message)
	if t.gone {
		kind, reason, message = corev1.EventTypeNormal, reasonGone, fmt.Sprintf("%s: no longer true of %s %s", t.Check, t.Webhook.Type.Noun(), t.Webhook.Name)
	}
	message = text.Shorten(message, maxMessage)
	if omitted > 0 {
		message += fmt.Sprintf("; and %d more critical findings came or went", omitted)
	}
	out := newEvent(t.name(window), t.Webhook.Type, corev1.ObjectReference{Name: t.Webhook.Configuration, UID: types.UID(t.uid)}, t.at)
	out.Type, out.Reason, out.Message = kind, reason, message
	id, _ := json.Marshal(t.identity) // strings alone: it has no error
	out.Annotations = map[string]string{findingAnnotation: string(id)}
	return out
}

// newEvent is an Event of ours on the object that registers a webhook or policy of the
// type.
func newEvent(name string, of inventory.Type, object corev1.ObjectReference, at time.Time) *corev1.Event {
	object.APIVersion, object.Kind = of.RegisteredBy().ToAPIVersionAndKind()
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: eventNamespace},
		InvolvedObject: object,
		Source:         corev1.EventSource{Component: manager},
		FirstTimestamp: metav1.NewTime(at),
		LastTimestamp:  metav1.NewTime(at),
		Count:          1,
	}
}
