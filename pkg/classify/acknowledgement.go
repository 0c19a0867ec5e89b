package classify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Acknowledgement says that the cluster's owner knows of findings. Its first
// three fields are globs.
type Acknowledgement struct {
	Check         string `json:"check,omitempty"`
	Configuration string `json:"configuration,omitempty"`
	Name          string `json:"name,omitempty"`
	Reason        string `json:"reason"`
	Until         Date   `json:"until,omitzero"`
}

// Date is a day, UTC.
type Date struct{ time.Time }

func (d Date) MarshalJSON() ([]byte, error) { return json.Marshal(d.Format(time.DateOnly)) }

func (d *Date) UnmarshalJSON(b []byte) error {
	var written string
	if err := json.Unmarshal(b, &written); err != nil {
		return fmt.Errorf("reading a day: must be in quotes, as in \"2027-01-31\": %w", err)
	}
	day, err := time.Parse(time.DateOnly, written)
	if err != nil {
		return fmt.Errorf("reading day %q: must be YYYY-MM-DD", written)
	}
	d.Time = day
	return nil
}

func (d Date) isOver(now time.Time) bool { return !d.IsZero() && !now.Before(d.AddDate(0, 0, 1)) }

// String names the acknowledgement as the Policy writes it.
func (a Acknowledgement) String() string {
	var words []string
	for _, w := range []struct{ key, value string }{{"check", a.Check}, {"configuration", a.Configuration}, {"name", a.Name}} {
		if w.value != "" {
			words = append(words, w.key+": "+w.value)
		}
	}
	return "{" + strings.Join(words, ", ") + "}"
}

func (a Acknowledgement) covers(f *Finding) bool {
	return matchOrAny(a.Check, f.Check.Name) && matchOrAny(a.Configuration, f.Webhook.Configuration) &&
		matchOrAny(a.Name, f.Webhook.Name)
}

func matchOrAny(glob, name string) bool { return glob == "" || match(glob, name) }

// acknowledge marks the findings that are acknowledged, and reports the
// acknowledgements that cover none.
func (p Policy) acknowledge(w *work, r *Report) {
	list := p.Acknowledgements
	used := make([]bool, len(list))
	for _, f := range r.Findings {
		for n, a := range list {
			if !w.step() {
				return
			}
			if a.covers(f) {
				used[n] = true
				f.Acknowledged = f.Acknowledged || !a.Until.isOver(r.Snapshot.Taken)
			}
		}
	}
	var unused []*Finding
	for i, a := range list {
		switch {
		case a.Until.isOver(r.Snapshot.Taken):
			unused = append(unused, a.unusedFinding("which ended on "+day(a.Until.Time)))
		case !used[i]:
			unused = append(unused, a.unusedFinding("which matches no finding"))
		}
	}
	r.Findings = slices.Concat(r.Findings, r.acknowledgeAnnotated(), unused)
	slices.SortStableFunc(r.Findings, compareFindings)
}

// unusedFinding is the finding on an acknowledgement of the Policy; it belongs to no
// webhook, so it carries what the acknowledgement itself names.
func (a Acknowledgement) unusedFinding(why string) *Finding {
	return &Finding{
		Check:   staleAcknowledgement,
		Webhook: inventory.Ref{Configuration: a.Configuration, Name: a.Name},
		Problem: Problem{
			Severity: staleAcknowledgement.Severity,
			Message:  fmt.Sprintf("is acknowledged by %s in the Policy, %s", a, why),
			Fix:      "take it out of acknowledgements in the Policy, or renew it",
		},
	}
}

// acknowledgeAnnotated marks what configurations acknowledge of themselves, never a
// critical finding, which is for the cluster's owner. It returns the findings on
// acknowledgements that cover nothing, each with the configuration's first webhook.
func (r *Report) acknowledgeAnnotated() (unused []*Finding) {
	found, isRead := map[inventory.Ref][]*Finding{}, map[inventory.Ref]bool{}
	for _, f := range r.Findings {
		found[f.Webhook.WithoutName()] = append(found[f.Webhook.WithoutName()], f)
	}
	for _, registration := range r.registrations() {
		annotation, key := registration.Object.Annotations[acknowledgeAnnotation], registration.WithoutName()
		if annotation == "" || isRead[key] {
			continue
		}
		isRead[key] = true
		checks, used := acknowledged(annotation), map[string]bool{}
		for _, f := range found[key] {
			if f.Severity < Critical && slices.Contains(checks, f.Check.Name) {
				f.Acknowledged, used[f.Check.Name] = true, true
			}
		}
		left := slices.DeleteFunc(checks, func(check string) bool { return used[check] })
		if len(left) == 0 {
			continue
		}
		unused = appendFindings(unused, staleAcknowledgement, registration, []Problem{{
			Message: fmt.Sprintf("is annotated with %s, which acknowledges %s: that covers no finding", acknowledgeAnnotation, JoinBounded(lists.Distinct(left))),
			Fix: fmt.Sprintf("write it as 'check[, check…]: reason', with checks that are reported at info or warning; or remove it: kubectl annotate %s %s-%s",
				objectName(registration), acknowledgeAnnotation, changedBy(registration.Object.Owner)),
		}})
	}
	return unused
}

// registrations are those of all webhooks and policies.
func (r *Report) registrations() []*inventory.Registration {
	out := lists.Map(r.Profiles, func(p *Profile) *inventory.Registration { return &p.Registration })
	for _, p := range r.Snapshot.Policies {
		out = append(out, &p.Registration)
	}
	return out
}

// acknowledged reads "check[, check…]: reason". Without a reason nothing is
// acknowledged: the annotation stays unused, and is reported so.
func acknowledged(annotation string) []string {
	list, reason, _ := strings.Cut(annotation, ":")
	var out []string
	for check := range strings.SplitSeq(list, ",") {
		check = strings.TrimSpace(check)
		if strings.TrimSpace(reason) == "" {
			check += " (without a reason)"
		}
		out = append(out, check)
	}
	return out
}

var staleAcknowledgement = &Check{
	Name:     "stale-acknowledgement",
	Summary:  "An acknowledgement covers no finding, or has ended.",
	Severity: Info,
	// It is found once all other findings are: see Policy.acknowledge.
	Find: func(*Profile) []Problem { return nil },
}
