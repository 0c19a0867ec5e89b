package classify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
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

// MarshalJSON writes the day as YYYY-MM-DD.
func (d Date) MarshalJSON() ([]byte, error) { return json.Marshal(d.Format(time.DateOnly)) }

// UnmarshalJSON reads a day as YYYY-MM-DD.
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

// isOver reports whether the day has passed.
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
	for i, f := range r.Findings {
		for n, a := range list {
			if !w.step() {
				return
			}
			if a.covers(f) {
				used[n] = true
				if !a.Until.isOver(r.Snapshot.Taken) {
					r.Findings[i] = f.acknowledged()
				}
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

// acknowledged is the finding as one that the cluster's owner knows of.
func (f *Finding) acknowledged() *Finding {
	out := *f
	out.Acknowledged = true
	return &out
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
func (r *Report) acknowledgeAnnotated() []*Finding {
	type acknowledgement struct {
		ref   inventory.Ref
		check string
	}
	checks, used := map[inventory.Ref][]string{}, map[acknowledgement]bool{}
	var carriers []*inventory.Registration
	for _, of := range r.registrations() {
		annotation := of.Object.Annotations[acknowledgeAnnotation]
		if key := of.WithoutName(); annotation != "" && checks[key] == nil {
			checks[key], carriers = acknowledged(annotation), append(carriers, of)
		}
	}
	for i, f := range r.Findings {
		by := f.Webhook.WithoutName()
		if f.Severity < Critical && slices.Contains(checks[by], f.Check.Name) {
			used[acknowledgement{by, f.Check.Name}] = true
			r.Findings[i] = f.acknowledged()
		}
	}
	var unused []*Finding
	for _, of := range carriers {
		by := of.WithoutName()
		left := slices.DeleteFunc(checks[by], func(check string) bool { return used[acknowledgement{by, check}] })
		if len(left) > 0 {
			unused = appendFindings(unused, staleAcknowledgement, of,
				[]Problem{unusedAnnotation(of, text.Distinct(left))})
		}
	}
	return unused
}

// registrations are those of all webhooks and policies.
func (r *Report) registrations() []*inventory.Registration {
	out := text.Map(r.Profiles, func(p *Profile) *inventory.Registration { return &p.Registration })
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
