package operator

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

const eventNamespace = metav1.NamespaceDefault

// The bounds of Events, which are for people: so many at once, for a node that
// takes many backends down, and then one in an interval. A finding that is gone
// waits for none, and comes again a minute after its last Event.
const (
	maxEvents       = 25
	eventInterval   = 3 * time.Second
	findingInterval = time.Minute
)

// maxMessage bounds the message of an Event, which the API server limits to 1024 bytes.
const maxMessage = 1000

const (
	reasonCritical = "CriticalFinding"
	reasonGone     = "CriticalFindingGone"
)

// identity is what makes two findings the same over time.
type identity struct {
	Check    string
	Webhook  inventory.Ref
	Resource inventory.Resource
}

// state is that of a critical finding, with the UID of the object that registers the
// webhook.
type state struct {
	identity
	critical  bool
	uid       string
	message   string
	eventTime time.Time
}

// findingEvents records Events for critical findings that come and go, as this process sees
// them: one where its last Event of a finding says what is not so. A finding that comes and
// goes faster than Events may be recorded costs none in between. A replica that begins to
// write records all findings.
type findingEvents struct {
	// last are the states that the last Events say.
	last map[identity]state
}

func newFindingEvents() findingEvents { return findingEvents{last: map[identity]state{}} }

func newEventLimiter() *rate.Limiter { return rate.NewLimiter(rate.Every(eventInterval), maxEvents) }

// recorder creates Events, as many as the limit allows.
type recorder struct {
	create  func(ctx context.Context, e *corev1.Event, o metav1.CreateOptions) (*corev1.Event, error)
	limiter *rate.Limiter
	// tried is set once one was tried.
	tried bool
}

// errLimited says that the limit allows no Event now.
var errLimited = errors.New("too many Events at once")

func (r *recorder) record(ctx context.Context, e *corev1.Event, now time.Time) error {
	if !r.limiter.AllowN(now, 1) {
		return errLimited
	}
	r.tried = true
	if _, err := r.create(ctx, e, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("recording an Event on %s: %w", e.InvolvedObject.Name, err)
	}
	return nil
}

// flush records what Events lack and is due. It stops at the first failure: what blocks
// one Event blocks them all, perhaps for ten seconds each.
func (q *findingEvents) flush(ctx context.Context, recorder *recorder, r *classify.Report, now time.Time) error {
	for _, s := range q.due(r, now) {
		if err := recorder.record(ctx, s.event(), now); err != nil {
			return err
		}
		q.last[s.identity] = s
	}
	return nil
}

// due are the states that no Event says, those first of which the last Event says
// otherwise.
func (q *findingEvents) due(r *classify.Report, now time.Time) []state {
	found := criticalFindings(r, now)
	var wrong, missing []state
	for id, last := range q.last {
		if _, critical := found[id]; critical {
			continue
		}
		if last.critical {
			wrong = append(wrong, state{identity: id, uid: last.uid, eventTime: now})
		} else if now.Sub(last.eventTime) > findingInterval {
			delete(q.last, id)
		}
	}
	for id, s := range found {
		// Of an object that was created again, kubectl describe shows no Event of the
		// one before.
		if last, ok := q.last[id]; !ok {
			missing = append(missing, s)
		} else if !last.critical || last.uid != s.uid {
			wrong = append(wrong, s)
		}
	}
	slices.SortFunc(missing, state.compare)
	slices.SortFunc(wrong, state.compare)
	return slices.DeleteFunc(append(wrong, missing...), func(s state) bool {
		return s.critical && now.Sub(q.last[s.identity].eventTime) < findingInterval
	})
}

func (s state) compare(o state) int {
	return strings.Compare(fmt.Sprint(s.identity), fmt.Sprint(o.identity))
}

func criticalFindings(r *classify.Report, now time.Time) map[identity]state {
	out, uids := map[identity]state{}, uidsOf(r)
	for _, f := range r.Findings {
		if f.Severity == classify.Critical && !f.Acknowledged {
			id := identity{f.Check.Name, f.Webhook, f.Resource}
			out[id] = state{id, true, uids[f.Webhook], f.Message, now}
		}
	}
	return out
}

func uidsOf(r *classify.Report) map[inventory.Ref]string {
	out := map[inventory.Ref]string{}
	for _, w := range r.Snapshot.Webhooks {
		out[w.Ref] = w.Object.UID
	}
	for _, p := range r.Snapshot.Policies {
		out[p.Ref] = p.Object.UID
	}
	return out
}

func (s state) event() *corev1.Event {
	kind, reason, message := corev1.EventTypeNormal, reasonGone, fmt.Sprintf("%s: no longer true of %s %s", s.Check, s.Webhook.Type.Noun(),
		s.Webhook.Name)
	if s.critical {
		kind, reason, message = corev1.EventTypeWarning, reasonCritical, fmt.Sprintf("%s: %s %s %s", s.Check, s.Webhook.Type.Noun(),
			s.Webhook.Name, s.message)
	}
	out := newEvent(s.Webhook.Type, corev1.ObjectReference{Name: s.Webhook.Configuration, UID: types.UID(s.uid)},
		s.eventTime, message)
	out.Type, out.Reason = kind, reason
	return out
}

// newEvent is an Event of ours on the object that registers a webhook or policy of the
// type.
func newEvent(webhookType inventory.Type, object corev1.ObjectReference, eventTime time.Time,
	message string,
) *corev1.Event {
	h := fnv.New64a()
	fmt.Fprint(h, message, object.UID, eventTime.UnixNano())
	object.APIVersion, object.Kind = webhookType.RegisteredBy().ToAPIVersionAndKind()
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%016x", manager, h.Sum64()), Namespace: eventNamespace},
		InvolvedObject: object,
		Source:         corev1.EventSource{Component: manager},
		FirstTimestamp: metav1.NewTime(eventTime),
		LastTimestamp:  metav1.NewTime(eventTime),
		Count:          1,
		Message:        text.Shorten(message, maxMessage),
	}
}

const reasonChanged = "WebhookConfigurationChanged"

// changeEvents records Events for changes of registrations. The page and the log have
// also those beyond the limit.
type changeEvents struct {
	history *impact.History
	// last is the number of the last change that has an Event, or gets none.
	last int
}

// flush records the last changes that have no Event yet.
func (e *changeEvents) flush(ctx context.Context, recorder *recorder, now time.Time) error {
	changes := e.history.After(e.last)
	for _, c := range changes[max(len(changes)-maxEvents, 0):] {
		object := corev1.ObjectReference{Name: c.Configuration, UID: types.UID(c.UID)}
		event := newEvent(c.Type, object, c.At, c.String())
		event.Type, event.Reason = corev1.EventTypeNormal, reasonChanged
		if err := recorder.record(ctx, event, now); err != nil {
			return err
		}
		e.last = c.Number
	}
	return nil
}
