package classify

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Report is the opinion on one Snapshot.
type Report struct {
	Snapshot *inventory.Snapshot
	// Profiles are in the order of the Snapshot's webhooks.
	Profiles []Profile
	// Costs are what the webhooks cost the requests to the critical resources.
	Costs []Cost
	// Findings are sorted: the worst first, then by check, webhook, resource.
	Findings []Finding
	// Conditions are the operator conditions that the findings add up to. Who
	// keeps them over time fills them in: they depend on those before.
	Conditions []metav1.Condition
}

// Evaluate judges the Snapshot.
func (p Policy) Evaluate(s *inventory.Snapshot) *Report {
	r := &Report{Snapshot: s, Profiles: p.profiles(s)}
	r.Costs = p.findCosts(s, r.Profiles)
	for _, profile := range r.Profiles {
		for _, check := range Checks {
			r.add(check, profile)
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

// add adds what the check finds of the webhook.
func (r *Report) add(check *Check, profile Profile) {
	for _, problem := range check.Find(profile) {
		problem.Severity = cmp.Or(problem.Severity, check.Severity)
		r.Findings = append(r.Findings, Finding{
			Check:   check,
			Webhook: profile.Ref,
			Source:  profile.Object.Source,
			Problem: problem,
		})
	}
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
