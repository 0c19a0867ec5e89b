package operator

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
)

// reasonChanged is the reason of Events on registrations that changed.
const reasonChanged = "WebhookConfigurationChanged"

// changeEvents records Events for changes of registrations. The page and the log have
// also those beyond the limit.
type changeEvents struct {
	history *impact.History
	// last is the number of the last change that has an Event, or gets none.
	last int
}

func newChangeEvents(h *impact.History) changeEvents {
	if h == nil {
		h = &impact.History{}
	}
	return changeEvents{history: h}
}

// skip leaves what changed until now to the replica that writes.
func (e *changeEvents) skip() { e.last = e.history.Last() }

// flush records the last changes that have no Event yet.
func (e *changeEvents) flush(ctx context.Context, to *recorder, now time.Time) error {
	changes := e.history.After(e.last)
	for _, c := range changes[max(len(changes)-maxEvents, 0):] {
		if err := to.record(ctx, changeEvent(c), now); err != nil {
			return err
		}
		e.last = c.Number
	}
	return nil
}

func changeEvent(c impact.PastChange) *corev1.Event {
	out := newEvent(c.Type, corev1.ObjectReference{Name: c.Configuration, UID: types.UID(c.UID)}, c.At, c.String())
	out.Type, out.Reason = corev1.EventTypeNormal, reasonChanged
	return out
}
