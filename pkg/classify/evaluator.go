package classify

import (
	"context"
	"errors"
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Evaluator evaluates one Snapshot after another by one Policy. It remembers what the
// last one's webhooks are called for: that takes longest, and holds until something
// changes beside webhooks and backends. It is for one goroutine at a time.
type Evaluator struct {
	policy Policy
	last   *inventory.Snapshot
	// known are the matchClasses of the last Snapshot, by the matchKey.
	known map[string]*matchClass
}

// NewEvaluator returns an Evaluator by the Policy.
func NewEvaluator(p Policy) *Evaluator { return &Evaluator{policy: p} }

// Policy is the one by which it evaluates.
func (e *Evaluator) Policy() Policy { return e.policy }

// Evaluate evaluates the Snapshot once. It returns the errors of Evaluator.Evaluate.
func (p Policy) Evaluate(ctx context.Context, s *inventory.Snapshot) (*Report, error) {
	return NewEvaluator(p).Evaluate(ctx, admission.New(s))
}

// Evaluate runs all checks on the Snapshot of the Matcher. It returns an error when
// ctx ends first, or when a check asks for a request that the API server would not
// serve.
// It costs a step for each webhook and each resource that one matches, as all
// that it is made of; TestGrowth holds it to that.
func (e *Evaluator) Evaluate(ctx context.Context, m *admission.Matcher) (*Report, error) {
	return e.evaluate(newWork(ctx), m)
}

func (e *Evaluator) evaluate(w *work, m *admission.Matcher) (*Report, error) {
	s := m.Snapshot
	r := &Report{Snapshot: s, Matcher: m, Errors: m.Errors(), evaluation: &evaluation{}}
	known := e.derive(w, r)
	for _, step := range []func(*work, *Report){e.analyze, e.findProblems, e.findOfPolicies, e.finish} {
		if !w.ended {
			step(w, r)
		}
	}
	if err := errors.Join(w.ctx.Err(), w.err); err != nil {
		return nil, fmt.Errorf("evaluating %d webhooks: %w", len(s.Webhooks), err)
	}
	e.last, e.known = s, known
	return r, nil
}

// derive derives what is known of each webhook alone, and returns the matchClasses.
func (e *Evaluator) derive(w *work, r *Report) map[string]*matchClass {
	s := r.Snapshot
	d := e.policy.deriver(w, r.Matcher)
	if e.last != nil {
		if changed := s.ChangesSince(e.last); !changed.Resources && !changed.Others {
			d.before = e.known
		}
	}
	facts := make([]Facts, len(s.Webhooks))
	r.Profiles = make([]Profile, len(s.Webhooks))
	for i, webhook := range s.Webhooks {
		if !w.step() {
			break
		}
		d.derive(&facts[i], webhook)
		r.Profiles[i] = Profile{Facts: &facts[i], Snapshot: s, Matcher: r.Matcher, Policy: &e.policy}
	}
	return d.known
}

// analyze derives what concerns several webhooks together.
func (e *Evaluator) analyze(w *work, r *Report) {
	m, profiles := r.Matcher, r.Profiles
	for _, find := range []func(){
		func() { findDeadlocks(w, r) },
		func() { findSameNames(w, profiles) },
		func() { findUnmatchedVersions(w, m, profiles) },
		func() { findUnmatchedSubresources(w, m, profiles) },
		func() { findReinvoked(w, profiles) },
		func() { r.Errors = append(r.Errors, findRefusedAtInstall(w, m, profiles)...) },
		func() { r.Errors = append(r.Errors, e.policy.findCosts(w, r)...) },
		func() { r.Errors = append(r.Errors, e.policy.findOutlasting(w, m, profiles)...) },
	} {
		if !w.ended {
			find()
		}
	}
}

// findProblems runs the checks of webhooks.
func (e *Evaluator) findProblems(w *work, r *Report) {
	for i := range r.Profiles {
		p := &r.Profiles[i]
		for _, check := range Checks {
			if check.Find != nil && e.policy.runs(check) {
				r.Findings = appendFindings(r.Findings, check, &p.Registration, check.Find(p))
			}
		}
		if !w.step() {
			return
		}
	}
}

// finish sorts the findings and marks those that are acknowledged.
func (e *Evaluator) finish(w *work, r *Report) {
	r.Findings = sorted(r.Findings)
	e.policy.acknowledge(w, r)
}
