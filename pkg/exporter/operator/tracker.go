package operator

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// TrackerOptions are what conditions depend on besides the Report.
type TrackerOptions struct {
	RollUp RollUp
	// Inertia is how long an error lasts before it rolls up.
	Inertia time.Duration
	// Version is the version of this program.
	Version string
}

// Tracker keeps the last Report and the history of its conditions. It is their
// one owner: /metrics and the Writer read the same. NewTracker makes it. It is
// safe for concurrent use.
type Tracker struct {
	options TrackerOptions

	mu     sync.Mutex
	report *classify.Report
	// errors are those of the Report.
	errors     []classify.OperatorError
	conditions []metav1.Condition
	// now is the latest time that the conditions were computed for. It never
	// goes back: a Snapshot is older than the scrape that came before it.
	now time.Time
	// written is the version whose status the cluster has; "" if unknown.
	written string
}

// NewTracker returns a Tracker without a Report.
func NewTracker(o TrackerOptions) *Tracker { return &Tracker{options: o} }

// Observe makes a Report the current one.
func (t *Tracker) Observe(r *classify.Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report, t.errors = r, r.OperatorErrors(t.options.RollUp.extent())
	t.advance(r.Snapshot.Taken)
}

// Current returns the last Report with its conditions at the time, nil before
// the first one: an error that outlasts the inertia rolls up though no other
// Report came.
func (t *Tracker) Current(now time.Time) *classify.Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.report == nil {
		return nil
	}
	t.advance(now)
	current := *t.report
	current.Conditions = t.conditions
	return &current
}

// advance computes the conditions for the time, from those before.
func (t *Tracker) advance(now time.Time) {
	if now.After(t.now) {
		t.now = now
	}
	if t.report == nil {
		return
	}
	t.conditions = conditionsOf(t.report, t.errors, t.conditions, conditionOptions{
		TrackerOptions: t.options,
		Now:            t.now,
		RollingOut:     t.written != "" && t.written != t.options.Version,
	})
}

// adopt continues the history in the cluster's status: of this program
// before it was restarted, or of the replica that writes. An error that only
// one side sees is left alone, as the other is about to see it.
func (t *Tracker) adopt(found recorded) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written = found.version
	for _, c := range found.conditions {
		if c.LastTransitionTime.IsZero() {
			continue
		}
		i := slices.IndexFunc(t.conditions, func(own metav1.Condition) bool { return own.Type == c.Type })
		switch {
		case i < 0:
			t.conditions = append(slices.Clip(t.conditions), c)
		case t.conditions[i].Status == c.Status || c.Type == Degraded || c.Type == EvaluationConditionsDetected: // these depend on their own history
			t.conditions = slices.Clone(t.conditions)
			t.conditions[i] = c
		}
	}
	t.advance(t.now)
}

// wrote notes that the cluster's status is of this version.
func (t *Tracker) wrote() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written = t.options.Version
}
