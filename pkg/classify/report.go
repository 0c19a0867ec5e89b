package classify

import (
	"cmp"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Report is the opinion on one Snapshot.
type Report struct {
	Snapshot *inventory.Snapshot
	// Profiles are in the order of the Snapshot's webhooks.
	Profiles []Profile
	// Findings are sorted: the worst first, then by check, webhook, resource.
	Findings []Finding
}

// Profile is what is derived of a webhook before it is judged.
type Profile struct {
	*inventory.Webhook
	// Snapshot holds the facts around the webhook.
	Snapshot *inventory.Snapshot
	// Reached are all resources that the webhook is called for.
	Reached []inventory.Reached
	// Reach are those of each class.
	Reach map[Class][]inventory.Resource
	// Approval is the value of the annotation webhook-approved.openshift.io.
	Approval string
	// Approved says that Approval is a URL.
	Approved bool
	// Platform says that the webhook is part of a stock cluster.
	Platform bool
	// ThirdParty says that the backend is outside the platform's namespaces.
	ThirdParty bool
	// Threshold is the latency in seconds from which the webhook is slow.
	Threshold float64
	// State is what the objects tell of the backend.
	State inventory.BackendState
	// BackendReady is nil where it cannot be known.
	BackendReady *bool
}

// Evaluate judges the Snapshot.
func (p Policy) Evaluate(s *inventory.Snapshot) *Report {
	r := &Report{Snapshot: s, Profiles: p.profiles(s)}
	for _, profile := range r.Profiles {
		for _, check := range Checks {
			for _, problem := range check.Find(profile) {
				r.Findings = append(r.Findings, p.finding(check, profile, problem))
			}
		}
	}
	slices.SortStableFunc(r.Findings, compareFindings)
	return r
}

func (p Policy) finding(check *Check, profile Profile, problem Problem) Finding {
	problem.Severity = cmp.Or(problem.Severity, check.Severity)
	return Finding{
		Check:   check,
		Webhook: profile.Ref,
		Source:  profile.Object.Source,
		Problem: problem,
	}
}

func compareFindings(a, b Finding) int {
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
