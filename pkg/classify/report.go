package classify

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Report is the opinion on one Snapshot.
type Report struct {
	Snapshot *inventory.Snapshot
	Matcher  *admission.Matcher
	Platform inventory.Platform
	// Profiles are in the order of the Snapshot's webhooks.
	Profiles []*Profile
	// Costs are what the webhooks cost the requests to the critical resources.
	Costs []Cost
	// Findings are sorted: the worst first, then by check, webhook, resource.
	Findings []*Finding
	// Stops are what stops now, by critical findings: functions of the cluster, and writes of
	// resources.
	Stops []string
	// ReleaseNotes are those of the API server's own release and of the next one, as far as
	// they are for any of its webhooks; none where its version is unknown.
	ReleaseNotes []ReleaseNote
	// Errors are what could not be read of the Snapshot and its matchConditions.
	Errors []inventory.Error
	// Conditions are the operator's conditions where the Report comes from
	// operator.Tracker, which keeps their history; otherwise there are none.
	Conditions []metav1.Condition
}

func (r *Report) ByRef() map[inventory.Ref]*Profile {
	out := make(map[inventory.Ref]*Profile, len(r.Profiles))
	for _, p := range r.Profiles {
		out[p.Ref] = p
	}
	return out
}

// AsOf is when all that the Report is about was known to be current.
func (r *Report) AsOf() time.Time {
	return cmp.Or(r.Snapshot.Current, r.Snapshot.Taken)
}

// appendFindings appends what the check finds of the webhook or policy.
func appendFindings(findings []*Finding, check *Check, registration *inventory.Registration,
	problems []Problem,
) []*Finding {
	for _, problem := range problems {
		problem.Severity = cmp.Or(problem.Severity, check.Severity)
		findings = append(findings,
			&Finding{Check: check, Webhook: registration.Ref, Source: registration.Object.Source, Problem: problem})
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

// Compare returns the findings that are new or worse after a change, and those that are
// gone. The same is what has the same key, of which the worst counts; the weight of what is
// acknowledged is 0: it is accepted, not resolved.
func Compare[F any, K comparable](before, after []F, key func(F) K, weight func(F) Severity) (added, resolved []F) {
	was, now := worst(before, key, weight), worst(after, key, weight)
	for _, f := range after {
		if weight(was[key(f)]) < weight(f) {
			added = append(added, f)
		}
	}
	for _, f := range before {
		if _, still := now[key(f)]; !still && weight(f) > 0 {
			resolved = append(resolved, f)
		}
	}
	return added, resolved
}

func worst[F any, K comparable](findings []F, key func(F) K, weight func(F) Severity) map[K]F {
	out := make(map[K]F, len(findings))
	for _, f := range findings {
		if other, ok := out[key(f)]; !ok || weight(other) < weight(f) {
			out[key(f)] = f
		}
	}
	return out
}
