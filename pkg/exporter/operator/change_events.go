package operator

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// reasonChanged is the reason of Events on registrations that changed.
const reasonChanged = "WebhookConfigurationChanged"

// changeEvents records Events for changes of registrations, as many and as fast as
// those for findings, beside them. What exceeds that is counted in the next Event.
type changeEvents struct {
	history *impact.History
	// last is the number of the last change that has an Event, or gets none.
	last    int
	omitted int
	limiter *rate.Limiter
}

func newChangeEvents(h *impact.History) changeEvents {
	if h == nil {
		h = &impact.History{}
	}
	return changeEvents{history: h, limiter: rate.NewLimiter(rate.Every(eventInterval), maxEvents)}
}

// skip leaves what changed until now to the replica that writes.
func (e *changeEvents) skip() { e.last, e.omitted = e.history.Last(), 0 }

// flush records the last changes that have no Event yet, and reports whether it tried
// to. It stops at the first failure.
func (e *changeEvents) flush(ctx context.Context, create createEvent, now time.Time) (tried bool, err error) {
	changes := e.history.After(e.last)
	changes = changes[max(len(changes)-maxEvents, 0):]
	for _, c := range changes {
		e.omitted += c.Number - e.last - 1
		e.last = c.Number - 1
		if c.Others > 0 { // of no object
			e.omitted += c.Others
			e.last = c.Number
			continue
		}
		if !e.limiter.AllowN(now, 1) {
			return tried, nil
		}
		if _, err := create(ctx, changeEvent(c, e.omitted), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return true, fmt.Errorf("recording an Event on %s: %w", c.Configuration, err)
		}
		tried, e.last, e.omitted = true, c.Number, 0
	}
	return tried, nil
}

// changeEvent is the Event of a change, with the number of those that got none. Its name
// is the same for the same change, so that two replicas that both believe they lead
// record it once.
func changeEvent(c impact.PastChange, omitted int) *corev1.Event {
	message := text.Shorten(c.String(), maxMessage)
	h := fnv.New64a()
	fmt.Fprint(h, message, c.UID, c.At.Truncate(eventWindow).Unix())
	if omitted > 0 {
		message += "; and " + inventory.Counted(omitted, "more registration") + " changed"
	}
	out := newEvent(fmt.Sprintf("webhook-auditor.%016x", h.Sum64()), c.Type, corev1.ObjectReference{Name: c.Configuration, UID: types.UID(c.UID)}, c.At)
	out.Type, out.Reason, out.Message = corev1.EventTypeNormal, reasonChanged, message
	return out
}
