package operator

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// The conditions that sum up the others.
const (
	Available   = "Available"
	Progressing = "Progressing"
	Degraded    = "Degraded"
	Upgradeable = "Upgradeable"
	// EvaluationConditionsDetected is what would degrade, without degrading.
	EvaluationConditionsDetected = "EvaluationConditionsDetected"
)

const asExpected = "AsExpected"

// notReady is the reason of a condition with several reasons at once.
const notReady = "WebhookServiceNotReady"

// RollUp selects the condition that the others roll up to.
type RollUp string

const (
	RollUpOn       RollUp = "on"
	RollUpEvaluate RollUp = "evaluate"
	RollUpOff      RollUp = "off"
	// RollUpEnhancement is RollUpOn for each webhook that OpenShift's enhancement
	// names, whatever its failure policy.
	RollUpEnhancement RollUp = "enhancement"
)

func (r RollUp) extent() classify.Extent {
	if r == RollUpEnhancement {
		return classify.EnhancementFindings
	}
	return classify.CriticalFindings
}

// conditionOptions are what conditions depend on besides the Report.
type conditionOptions struct {
	TrackerOptions
	// Now is the time by which an error lasts.
	Now time.Time
	// RollingOut is set if another version of this program wrote last.
	RollingOut bool

	// atFirst is how long an error that may end by itself lasts before it rolls up.
	atFirst time.Duration
}

// conditionsOf returns the operator conditions of the Report, in a fixed order,
// with the transition times of the conditions before. found are its OperatorErrors:
// finding them costs a pass over all findings, and each scrape computes the conditions.
func conditionsOf(r *classify.Report, found []classify.OperatorError, before []metav1.Condition,
	o conditionOptions,
) []metav1.Condition {
	now := o.Now
	errs := lists.Map(found,
		func(e classify.OperatorError) metav1.Condition {
			return withTransitionTime(errorCondition(e), before, now)
		})
	if !meta.IsStatusConditionTrue(before, Degraded) &&
		!meta.IsStatusConditionTrue(before, EvaluationConditionsDetected) {
		o.atFirst = rolloutInertia
	}
	watching := fmt.Sprintf("Watching %d webhooks.", len(r.Profiles))
	out := []metav1.Condition{
		withTransitionTime(condition(Available, metav1.ConditionTrue, asExpected, watching), before, now),
		withTransitionTime(progressing(o), before, now),
		withTransitionTime(condition(Upgradeable, metav1.ConditionTrue, asExpected, "Webhooks never hold back an upgrade."), before, now),
	}
	out = append(out, rollUps(r, o.lastingErrors(found, errs), before, o)...)
	return append(out, errs...)
}

// rolloutInertia is how long Pods that are being replaced may leave a webhook
// without a ready endpoint.
const rolloutInertia = 10 * time.Minute

// lastingErrors returns, of the conditions of the errors, the parts that roll up and have
// lasted.
func (o conditionOptions) lastingErrors(found []classify.OperatorError, errs []metav1.Condition) []metav1.Condition {
	var out []metav1.Condition
	for i, e := range found {
		all := e.Degradations
		e.Degradations = lists.Filter(all, func(d classify.Degradation) bool { return d.RollsUp })
		if len(e.Degradations) == 0 {
			continue
		}
		began := errs[i].LastTransitionTime
		if len(e.Degradations) < len(all) {
			// Dead conversions turn it True where they stop controllers: it may be newer.
			began = meta.FindStatusCondition(errs, classify.ResourceControllersError).LastTransitionTime
		}
		if o.Now.Sub(began.Time) >= o.inertia(e.Degradations) {
			out = append(out, errorCondition(e))
		}
	}
	return out
}

// inertia is how long errors last before they roll up. Once degraded, another
// attempt to replace the Pods changes nothing.
func (o conditionOptions) inertia(found []classify.Degradation) time.Duration {
	if slices.ContainsFunc(found, func(d classify.Degradation) bool { return !d.Transient }) {
		return o.Inertia
	}
	return max(o.Inertia, o.atFirst)
}

func condition(name string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: reason, Message: message}
}

// withTransitionTime gives a condition the time of its last transition. A time in the
// future, of a writer whose clock runs fast, counts as now.
func withTransitionTime(c metav1.Condition, before []metav1.Condition, now time.Time) metav1.Condition {
	c.LastTransitionTime = metav1.NewTime(now)
	b := meta.FindStatusCondition(before, c.Type)
	if b != nil && b.Status == c.Status && b.LastTransitionTime.Time.Before(now) {
		c.LastTransitionTime = b.LastTransitionTime
	}
	return c
}

func progressing(o conditionOptions) metav1.Condition {
	if o.RollingOut {
		return condition(Progressing, metav1.ConditionTrue, "RollingOut", "Another version of webhook-auditor takes over.")
	}
	return condition(Progressing, metav1.ConditionFalse, asExpected, "Running the desired version.")
}

func errorCondition(e classify.OperatorError) metav1.Condition {
	switch {
	case len(e.Degradations) > 0:
		all := lists.Distinct(lists.Map(e.Degradations, func(d classify.Degradation) string { return d.Message }))
		return condition(e.Name, metav1.ConditionTrue, commonReason(e.Degradations), bounded(all))
	case e.Unreadable != nil:
		return condition(e.Name, metav1.ConditionUnknown, "CannotRead", text.Shorten("Cannot read "+e.Unreadable.Error(), maxLength))
	}
	return condition(e.Name, metav1.ConditionFalse, asExpected, noProblems)
}

const noProblems = "No problems detected."

// commonReason is the reason of all degradations, or notReady for a mixture.
func commonReason(found []classify.Degradation) string {
	if slices.ContainsFunc(found, func(d classify.Degradation) bool { return d.Reason != found[0].Reason }) {
		return notReady
	}
	return found[0].Reason
}

// rollUps sums the errors up: to Degraded, to EvaluationConditionsDetected, or
// nowhere. Degraded is always there, because its absence counts as degraded.
func rollUps(r *classify.Report, errs, before []metav1.Condition, o conditionOptions) []metav1.Condition {
	sum := summed(errs)
	fine := withTransitionTime(condition(Degraded, metav1.ConditionFalse, asExpected, noProblems), before, o.Now)
	switch o.RollUp {
	case RollUpOff:
		return []metav1.Condition{fine}
	case RollUpEvaluate:
		sum.Type = EvaluationConditionsDetected
		return []metav1.Condition{fine, withTransitionTime(sum, before, o.Now)}
	}
	if sum.Status == metav1.ConditionTrue && r.Snapshot.Upgrading && !meta.IsStatusConditionTrue(before, Degraded) {
		sum = condition(Degraded, metav1.ConditionFalse, asExpected, "The cluster is being upgraded; webhooks may come and go.")
	}
	return []metav1.Condition{withTransitionTime(sum, before, o.Now)}
}

// summed unites the errors as OpenShift's operators do: reasons joined by "::",
// a line for each.
func summed(errs []metav1.Condition) metav1.Condition {
	var reasons, all []string
	for _, e := range errs {
		reasons = append(reasons, e.Type+"_"+e.Reason)
		for l := range strings.SplitSeq(e.Message, "\n") {
			all = append(all, e.Type+": "+l)
		}
	}
	if len(reasons) == 0 {
		return condition(Degraded, metav1.ConditionFalse, asExpected, noProblems)
	}
	slices.Sort(reasons)
	return condition(Degraded, metav1.ConditionTrue, strings.Join(reasons, "::"), bounded(all))
}

// The bounds of a message: conditions are written to etcd and read by people.
const (
	maxLines  = 10
	maxLength = 500
)

func bounded(all []string) string {
	out := lists.Map(lists.Bounded(all, maxLines, "And %d more."),
		func(line string) string { return text.Shorten(line, maxLength) })
	return strings.Join(out, "\n")
}

type TrackerOptions struct {
	RollUp RollUp
	// Inertia is how long an error lasts before it rolls up.
	Inertia time.Duration
	Version string
}

// Tracker keeps the last Report and the history of its conditions. It is their
// one owner: /metrics and the Writer read the same. NewTracker makes it. It is
// safe for concurrent use.
type Tracker struct {
	options TrackerOptions

	mu         sync.Mutex
	report     *classify.Report
	errors     []classify.OperatorError
	conditions []metav1.Condition
	// now is the latest time that the conditions were computed for. It never
	// goes back: a Snapshot is older than the scrape that came before it.
	now time.Time
	// written is the version whose status the cluster has; "" if unknown.
	written string
}

func NewTracker(o TrackerOptions) *Tracker { return &Tracker{options: o} }

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

func (t *Tracker) wrote() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written = t.options.Version
}
