package classify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Report is the opinion on one Snapshot.
type Report struct {
	Snapshot *inventory.Snapshot
	// Matcher answers what the API server of the Snapshot does with requests.
	Matcher *admission.Matcher
	// Profiles are in the order of the Snapshot's webhooks.
	Profiles []Profile
	// Costs are what the webhooks cost the requests to the critical resources.
	Costs []Cost
	// Findings are sorted: the worst first, then by check, webhook, resource.
	Findings []Finding
	// Errors are what could not be read of the Snapshot and its matchConditions.
	Errors []inventory.Error
	// Conditions are the operator's conditions where the Report comes from
	// operator.Tracker, which keeps their history; otherwise there are none.
	Conditions []metav1.Condition

	// evaluation is the same for all copies of a Report.
	evaluation *evaluation
}

// evaluation has a size, so that no two of them share an address.
type evaluation struct{ _ byte }

// SameAs reports whether both are copies of one Report, whose Conditions alone
// may differ.
func (r *Report) SameAs(o *Report) bool {
	return r == o || r.evaluation != nil && r.evaluation == o.evaluation
}

// AsOf is when all that the Report is about was known to be current.
func (r *Report) AsOf() time.Time {
	if r.Snapshot.Current.IsZero() {
		return r.Snapshot.Taken
	}
	return r.Snapshot.Current
}

// Evaluate judges the Snapshot. It returns an error when ctx ends first, or when a
// check asks for a request that the API server would not serve.
// It costs a step for each webhook and each resource that one matches, as all
// that it is made of; TestGrowth holds it to that.
func (p Policy) Evaluate(ctx context.Context, s *inventory.Snapshot) (*Report, error) {
	w := newWork(ctx)
	r := p.evaluate(w, s)
	if err := errors.Join(ctx.Err(), w.err); err != nil {
		return nil, fmt.Errorf("evaluating %d webhooks: %w", len(s.Webhooks), err)
	}
	return r, nil
}

func (p Policy) evaluate(w *work, s *inventory.Snapshot) *Report {
	m := admission.New(s)
	r := &Report{Snapshot: s, Matcher: m, evaluation: &evaluation{}, Errors: m.Errors(), Profiles: p.profiles(w, m)}
	if w.ended {
		return r
	}
	r.Costs = p.findCosts(w, m, r.Profiles)
	for i := range r.Profiles {
		if !w.step() {
			return r
		}
		for _, check := range Checks {
			r.Findings = appendFindings(r.Findings, check, &r.Profiles[i])
		}
	}
	p.acknowledge(r)
	r.Findings = sorted(r.Findings)
	return r
}

// sorted sorts the findings by way of pointers, for they are large.
func sorted(findings []Finding) []Finding {
	order := make([]*Finding, len(findings))
	for i := range findings {
		order[i] = &findings[i]
	}
	slices.SortStableFunc(order, compareFindings)
	out := make([]Finding, len(findings))
	for i, f := range order {
		out[i] = *f
	}
	return out
}

// appendFindings appends what the check finds of the webhook.
func appendFindings(findings []Finding, check *Check, profile *Profile) []Finding {
	for _, problem := range check.Find(profile) {
		problem.Severity = cmp.Or(problem.Severity, check.Severity)
		findings = append(findings, Finding{
			Check:   check,
			Webhook: profile.Ref,
			Source:  profile.Object.Source,
			Problem: problem,
		})
	}
	return findings
}

func compareFindings(a, b *Finding) int {
	return cmp.Or(
		cmp.Compare(b.Severity, a.Severity),
		cmp.Compare(a.Check.Name, b.Check.Name),
		a.Webhook.Compare(b.Webhook),
		a.Resource.Compare(b.Resource),
	)
}

// Totals counts findings by severity.
type Totals struct{ Critical, Warning, Info, Acknowledged int }

// Totals counts the report's findings; acknowledged ones count apart.
func (r *Report) Totals() Totals {
	var t Totals
	for _, f := range r.Findings {
		switch {
		case f.Acknowledged:
			t.Acknowledged++
		case f.Severity == Critical:
			t.Critical++
		case f.Severity == Warning:
			t.Warning++
		default:
			t.Info++
		}
	}
	return t
}
