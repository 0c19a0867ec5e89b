package classify

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Evaluator evaluates one Snapshot after another by one Policy, so that a change
// costs what it touches.
//
// What the last Report says of a webhook is taken over where the webhook, what is
// behind it and what is derived of it together with others are the same, and so is
// everything beside webhooks (inventory.Changes). Checks that read the
// time always run. FuzzEvaluator holds the result to that of a new Evaluator.
//
// It is for one goroutine at a time.
type Evaluator struct {
	policy Policy
	// last is the Report before, nil for the first.
	last *Report
	// known are the matchClasses of the last Report, and of a few before.
	known map[string]*matchClass
	// scratch is where the facts of an evaluation are derived, before those are
	// kept that are new.
	scratch []Facts
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
	last := e.comparable(s)
	r := &Report{Snapshot: s, Matcher: m, Errors: m.Errors(), evaluation: &evaluation{}}
	d := e.derive(w, r, last)
	e.analyze(w, r, last, d.changes)
	if !w.ended {
		e.keepFacts(r, d.unchanged)
		e.findProblems(w, r)
		r.ofPolicies = e.findOfPolicies(w, r, last)
		r.Findings = append(r.Findings, r.ofPolicies...)
	}
	if !w.ended {
		r.Findings = sorted(r.Findings)
		e.policy.acknowledge(w, r)
	}
	if err := errors.Join(w.ctx.Err(), w.err); err != nil {
		*e = Evaluator{policy: e.policy} // what was derived may lack its end
		return nil, fmt.Errorf("evaluating %d webhooks: %w", len(s.Webhooks), err)
	}
	e.last = r
	return r, nil
}

// comparable returns the last Report where some of it may still hold, else nil.
func (e *Evaluator) comparable(s *inventory.Snapshot) *Report {
	last := e.last
	if last != nil {
		if changed := s.ChangesSince(last.Snapshot); changed.Resources || changed.Others {
			last = nil
		}
	}
	if last == nil || len(e.known) > 2*len(s.Webhooks)+100 { // most are of webhooks that are gone
		e.known = map[string]*matchClass{}
	}
	return last
}

// webhookChange is a webhook that changed, or something behind it: what was derived of it
// before, nil where it is new, and what is now, nil where it is gone.
type webhookChange struct{ before, now *Facts }

// derived is what is known of each webhook alone.
type derived struct {
	// unchanged are the facts of the last Report, by the index of the webhook; nil
	// for one that changed.
	unchanged []*Facts
	changes   []webhookChange
}

// derive derives what is known of each webhook alone, in scratch.
func (e *Evaluator) derive(w *work, r, last *Report) derived {
	webhooks := r.Snapshot.Webhooks
	before, gone := align(last, webhooks)
	out := derived{unchanged: make([]*Facts, len(webhooks))}
	for _, f := range gone {
		out.changes = append(out.changes, webhookChange{before: f})
	}
	deriver := e.policy.deriver(w, r.Matcher, e.known)
	var backends *inventory.BackendChanges
	if last != nil {
		backends = r.Snapshot.BackendChangesSince(last.Snapshot)
	}
	r.Profiles = make([]Profile, len(webhooks))
	e.scratch = slices.Grow(e.scratch[:0], len(webhooks))[:len(webhooks)]
	for i, webhook := range webhooks {
		if !w.step() {
			return out
		}
		f := &e.scratch[i]
		r.Profiles[i] = Profile{Facts: f, Snapshot: r.Snapshot, Matcher: r.Matcher, Policy: &e.policy}
		if before[i] != nil && before[i].Webhook == webhook && backends.Same(webhook.Backend, before[i].State) {
			*f, out.unchanged[i] = *before[i], before[i]
			continue
		}
		*f = amongOthers(before[i])
		deriver.derive(f, webhook)
		out.changes = append(out.changes, webhookChange{before[i], f})
	}
	return out
}

// align returns the facts of the last Report by the index of their webhooks now,
// nil where there are none, and those whose webhooks are gone. Both are in the
// order of calls.
func align(last *Report, now []*inventory.Webhook) (before, gone []*Facts) {
	before = make([]*Facts, len(now))
	if last == nil {
		return before, nil
	}
	i := 0
	for n := range last.Profiles {
		f := last.Profiles[n].Facts
		for i < len(now) && now[i] != f.Webhook && now[i].Before(f.Webhook) {
			i++
		}
		if i < len(now) && (now[i] == f.Webhook || !f.Webhook.Before(now[i])) {
			before[i] = f
			i++
		} else {
			gone = append(gone, f)
		}
	}
	return before, gone
}

// analysis derives something of several webhooks together.
type analysis struct {
	// dependsOn reports whether the result depends on the webhook.
	dependsOn func(*Facts) bool
	// onNames says that of each webhook nothing counts but its name, onBackends that
	// what is behind it counts, too.
	onNames, onBackends bool
	clear               func(*Facts)
	find                func()
}

// analyses are those of the Report's profiles.
func (e *Evaluator) analyses(w *work, r *Report) []analysis {
	m, profiles := r.Matcher, r.Profiles
	all := func(*Facts) bool { return true }
	return []analysis{
		{dependsOn: (*Facts).CanBlock, onBackends: true, clear: func(f *Facts) { f.Deadlock = nil }, find: func() { findDeadlocks(w, m, profiles) }},
		{dependsOn: all, onNames: true, clear: func(f *Facts) { f.SameName = Others{} }, find: func() { findSameNames(w, profiles) }},
		{dependsOn: all, clear: func(f *Facts) { f.UnmatchedVersions = nil }, find: func() { findUnmatchedVersions(w, m, profiles) }},
		{dependsOn: seesPods, clear: func(f *Facts) { f.UnmatchedSubresources = nil }, find: func() { findUnmatchedSubresources(w, m, profiles) }},
		{dependsOn: isReinvoked, clear: func(f *Facts) { f.Reinvoked = Others{} }, find: func() { findReinvoked(w, profiles) }},
		{dependsOn: failsWithBackend, onBackends: true, clear: func(f *Facts) { f.RefusedAtInstall = nil }, find: func() { r.Errors = append(r.Errors, findRefusedAtInstall(w, m, profiles)...) }},
		{dependsOn: e.policy.isCounted, clear: func(f *Facts) { f.Excesses = nil }, find: func() { r.Costs = e.policy.findCosts(w, m, profiles) }},
	}
}

// analyze makes each analysis where something changed on which its result depends;
// else that of the last Report holds.
func (e *Evaluator) analyze(w *work, r, last *Report, changes []webhookChange) {
	if last != nil {
		r.Costs = last.Costs
	}
	for _, a := range e.analyses(w, r) {
		if w.ended {
			return
		}
		if last != nil && !slices.ContainsFunc(changes, a.mayChangeBy) {
			continue
		}
		for i := range e.scratch {
			a.clear(&e.scratch[i])
		}
		a.find()
	}
}

// mayChangeBy reports whether the change may change the result.
func (a analysis) mayChangeBy(c webhookChange) bool {
	if c.before != nil && c.now != nil && (a.onNames && c.before.Ref == c.now.Ref || !a.onBackends && c.before.Webhook == c.now.Webhook) {
		return false
	}
	return c.before != nil && a.dependsOn(c.before) || c.now != nil && a.dependsOn(c.now)
}

// keepFacts gives the Report the facts of the last one where they are the same, and
// copies elsewhere: scratch is for the next evaluation.
func (e *Evaluator) keepFacts(r *Report, unchanged []*Facts) {
	if e.last == nil { // scratch itself, of which there is no other use yet
		e.scratch = nil
		return
	}
	for i := range r.Profiles {
		p := &r.Profiles[i]
		if before := unchanged[i]; before != nil && p.sameAmongOthers(before) {
			p.Facts = before
			continue
		}
		f := *p.Facts
		f.findings = nil
		p.Facts = &f
	}
	clear(e.scratch)
}

// findProblems runs the checks: those that do not read the time only on new facts.
func (e *Evaluator) findProblems(w *work, r *Report) {
	if e.last != nil {
		r.Findings = make([]*Finding, 0, len(e.last.Findings)+len(e.last.Findings)/8)
	}
	timeless, timed := checksBy(false), checksBy(true)
	for i := range r.Profiles {
		if !w.step() {
			return
		}
		p := &r.Profiles[i]
		if p.findings == nil {
			p.findings = findingsOf(p, timeless)
		}
		r.Findings = append(r.Findings, p.findings...)
		for _, check := range timed {
			r.Findings = appendFindings(r.Findings, check, &p.Registration, check.Find(p))
		}
	}
}

// checksBy returns the Checks of webhooks that read the time, or all others.
func checksBy(readsTime bool) []*Check {
	return slices.DeleteFunc(slices.Clone(Checks), func(c *Check) bool { return c.Find == nil || c.ReadsTime != readsTime })
}

// findingsOf runs the checks. It never returns nil.
func findingsOf(p *Profile, checks []*Check) []*Finding {
	out := []*Finding{}
	for _, check := range checks {
		out = appendFindings(out, check, &p.Registration, check.Find(p))
	}
	return out
}
