package operator

import (
	"context"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// The bounds of writes of one object: a burst, for a user who changes things one after
// the other, and then few, for a Service that flaps.
const (
	writeInterval = 10 * time.Second
	writeBurst    = 5
)

// status is what this replica knows of a target since it writes.
type status struct {
	// read is set once the object was read, or may not be.
	read bool
	// conditions and totals are what was last written.
	conditions []metav1.Condition
	totals     classify.Totals
	// writeTime is when it was last written; limiter bounds how often it is.
	writeTime time.Time
	limiter   *rate.Limiter
}

// due reports whether it is written now: it is not what was last written, or was written
// long ago, and its bounds allow it.
func (s *status) due(r *classify.Report, now time.Time) bool {
	differs := !equality.Semantic.DeepEqual(s.conditions, r.Conditions) || s.totals != r.Totals()
	return (differs || now.Sub(s.writeTime) > resyncPeriod) && s.limiter.AllowN(now, 1)
}

// writeStatuses writes the targets that are due, each where its API is served.
func (w *Writer) writeStatuses(ctx context.Context, r *classify.Report) {
	served := w.takeOver(ctx, r)
	if current := w.options.Tracker.Current(w.now()); current != nil {
		r = current // takeOver may have found another history
	}
	for _, t := range served {
		if w.statuses[t.kind].due(r, w.now()) {
			w.note(writing(t), w.writeStatus(ctx, t, r))
		}
	}
}

// takeOver returns the targets to write. Those that this replica begins to
// write are read first, so that it continues the history of the replica before;
// without the permission to read them, it continues its own.
func (w *Writer) takeOver(ctx context.Context, r *classify.Report) []target {
	var out []target
	adopted := false
	for _, t := range targets {
		if !t.servedBy(r.Snapshot) {
			w.forget(t)
			continue
		}
		s := w.statuses[t.kind]
		if s == nil {
			s = &status{limiter: rate.NewLimiter(rate.Every(writeInterval), writeBurst)}
			w.statuses[t.kind] = s
		}
		if !s.read {
			if !s.limiter.AllowN(w.now(), 1) {
				continue
			}
			found, err := t.read(ctx, w.dynamic)
			w.note(reading(t), err)
			if err != nil && !refused(err) {
				continue
			}
			if !adopted && len(found.conditions) > 0 {
				w.options.Tracker.adopt(found)
				adopted = true
			}
			s.read = true
		}
		out = append(out, t)
	}
	return out
}

// forget drops what is known of a target whose API is not served.
func (w *Writer) forget(t target) {
	delete(w.statuses, t.kind)
	for _, operation := range []string{reading(t), writing(t)} {
		w.note(operation, nil)
	}
}

// The operations on a target.
func reading(t target) string { return "reading " + t.kind }
func writing(t target) string { return "status of " + t.kind }

// writeStatus writes a status, and creates the object where it is missing. An API
// that went away is no failure: the next Snapshot shows that.
func (w *Writer) writeStatus(ctx context.Context, t target, r *classify.Report) error {
	content, err := t.statusOf(w.options, r)
	if err != nil {
		return err
	}
	s := w.statuses[t.kind]
	err = t.applyStatus(ctx, w.dynamic, content)
	if apierrors.IsNotFound(err) {
		if err = t.create(ctx, w.dynamic, w.owners(ctx)); err == nil {
			err = t.applyStatus(ctx, w.dynamic, content)
		}
	}
	switch {
	case absent(err):
		return nil
	case err != nil:
		return err
	}
	s.conditions, s.totals, s.writeTime = r.Conditions, r.Totals(), w.now()
	w.options.Tracker.wrote()
	return nil
}
