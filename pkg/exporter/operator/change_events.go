package operator

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
)

// reasonChanged is the reason of Events on registrations that changed.
const reasonChanged = "WebhookConfigurationChanged"

// changeEvents records Events for changes of registrations, as many and as fast as
// those for findings, beside them. The page and the log have also what exceeds that.
type changeEvents struct {
	history *impact.History
	// last is the number of the last change that has an Event, or gets none.
	last    int
	limiter *rate.Limiter
}

func newChangeEvents(h *impact.History) changeEvents {
	if h == nil {
		h = &impact.History{}
	}
	return changeEvents{history: h, limiter: newEventLimiter()}
}

// skip leaves what changed until now to the replica that writes.
func (e *changeEvents) skip() { e.last = e.history.Last() }

// flush records the last changes that have no Event yet, and reports whether it tried
// to. It stops at the first failure.
func (e *changeEvents) flush(ctx context.Context, create createEvent, now time.Time) (tried bool, err error) {
	changes := e.history.After(e.last)
	for _, c := range changes[max(len(changes)-maxEvents, 0):] {
		if c.Others > 0 { // of no object
			continue
		}
		if !e.limiter.AllowN(now, 1) {
			break
		}
		if _, err := create(ctx, changeEvent(c), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return true, fmt.Errorf("recording an Event on %s: %w", c.Configuration, err)
		}
		tried, e.last = true, c.Number
	}
	return tried, nil
}

func changeEvent(c impact.PastChange) *corev1.Event {
	out := newEvent(c.Type, corev1.ObjectReference{Name: c.Configuration, UID: types.UID(c.UID)}, c.At, c.String())
	out.Type, out.Reason = corev1.EventTypeNormal, reasonChanged
	return out
}
