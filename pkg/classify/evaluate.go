package classify

import (
	"context"
	"fmt"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Evaluate is EvaluateBy with a Matcher of its own.
func (p Policy) Evaluate(ctx context.Context, s *inventory.Snapshot) (*Report, error) {
	return p.EvaluateBy(ctx, admission.New(s))
}

// EvaluateBy runs all checks on the Snapshot of the Matcher. It returns an error when
// ctx ends first.
// It costs a step for each webhook and each resource that one matches, as all
// that it is made of; TestGrowth holds it to that.
func (p Policy) EvaluateBy(ctx context.Context, m *admission.Matcher) (*Report, error) {
	return p.evaluate(newWork(ctx), m)
}

func (p *Policy) evaluate(w *work, m *admission.Matcher) (*Report, error) {
	r := &Report{Snapshot: m.Snapshot, Matcher: m, Platform: m.Platform, Errors: slices.Clip(m.Snapshot.Errors)}
	for _, step := range []func(*work, *Report){
		p.derive,
		// What concerns several webhooks together.
		findDeadlocks, findSameNames, findUnmatchedVersions, findUnmatchedSubresources, findStuck,
		p.findCosts, p.findOutlasting,
		p.findProblems, p.findOfPolicies, p.acknowledge, p.weigh,
	} {
		if !w.ended {
			step(w, r)
		}
	}
	if err := w.ctx.Err(); err != nil {
		return nil, fmt.Errorf("evaluating %d webhooks: %w", len(m.Snapshot.Webhooks), err)
	}
	return r, nil
}

func (p *Policy) derive(w *work, r *Report) {
	s := r.Snapshot
	w.requests = p.controlPlaneRequests(r.Matcher)
	d := &deriver{w, p, r.Matcher, map[string]Profile{}, map[inventory.Resource][]Class{}, p.onRunLevel(s, "0")}
	r.Profiles = make([]*Profile, 0, len(s.Webhooks))
	for _, webhook := range s.Webhooks {
		if !w.step() {
			break
		}
		r.Profiles = append(r.Profiles, d.derive(webhook))
	}
}

func (p *Policy) findProblems(w *work, r *Report) {
	for _, profile := range r.Profiles {
		refused := len(r.Matcher.RefusedWebhook(profile.Webhook)) > 0 // all else follows from that
		for _, check := range Checks {
			if check.Find != nil && p.runs(check) && (!refused || check == refusedByAPI) {
				r.Findings = appendFindings(r.Findings, check, &profile.Registration, check.Find(profile))
			}
		}
		if !w.step() {
			return
		}
	}
}

// work counts the steps of an evaluation and stops it once its context ends.
type work struct {
	ctx context.Context
	// every is the number of steps between two looks at the context.
	every int
	steps int
	// requests are those on the path of the control plane, made once for all.
	requests controlPlaneRequests
	ended    bool
}

func newWork(ctx context.Context) *work { return &work{ctx: ctx, every: checkEvery} }

// checkEvery steps take a millisecond or a few.
const checkEvery = 1024

// step counts a step; false says that the context ended, so that the caller
// returns with what it has.
func (w *work) step() bool {
	w.steps++
	if w.steps%w.every == 0 && w.ctx.Err() != nil {
		w.ended = true
	}
	return !w.ended
}
