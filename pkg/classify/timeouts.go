package classify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var longTimeout = &Check{
	Name:     "long-timeout",
	Summary:  "A webhook may hold every request that it intercepts for longer than 15 s.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if p.Platform || p.Type == inventory.Conversion || p.Timeout <= usefulTimeout(p, p.Policy.LongTimeoutSeconds) {
			return nil
		}
		limit := "while clients wait 30 s for all webhooks together"
		if end, alone := endedAlone(p); alone {
			limit = "not within " + end.String()
		}
		return []Problem{{
			Message: fmt.Sprintf("may hold each request for %s (timeoutSeconds), %s", text.Seconds(p.Timeout), limit),
			Fix:     patch(p, shorten(p, p.Policy.LongTimeoutSeconds)),
		}}
	},
}

// shorten sets a timeoutSeconds that is short enough for all checks: at most those seconds,
// and the API's default.
func shorten(p *Profile, seconds int) edit {
	seconds = min(seconds, 10)
	if p.Outlasting != nil {
		if enough := p.Outlasting.enough(p); enough >= time.Second {
			seconds = min(seconds, int(enough.Seconds()))
		}
	}
	return set(p, "timeoutSeconds", seconds)
}

// usefulTimeout is the number of seconds, or what the platform leaves a webhook alone.
func usefulTimeout(p *Profile, seconds int) time.Duration {
	return min(secondsOf(seconds), p.Matcher.LongestTimeout(p.Type))
}

// endedAlone is the limit that ends a request for which the webhook alone is called. One
// that hangs changes nothing, so that it is not called again.
func endedAlone(p *Profile) (limit admission.Limit, ended bool) {
	budget := admission.Budget{}.Add(p.Webhook, admission.Create)
	budget.Reinvocable = 0
	limit, _, ended = admission.End(p.Matcher.Limits(admission.Create, inventory.Resource{}), budget)
	return limit, ended
}

var chainOutlastsRequest = &Check{
	Name:     "chain-outlasts-request",
	Summary:  "Webhooks of one request can take longer than the API server waits: it refuses the request in spite of failurePolicy Ignore.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		o := p.Outlasting
		if o == nil || p.Platform {
			return nil
		}
		return []Problem{{
			Severity: warningIf(o.Critical && !o.Conditional), Message: o.message(), Brief: o.Brief(), Fix: o.fix(p),
		}}
	},
}

// Outlasting is a chain of webhooks with failurePolicy Ignore that can take longer than
// their request has.
type Outlasting struct {
	// Cost is what those with failurePolicy Ignore cost together.
	Cost
	// By is the limit that ends the request, after End.
	By  admission.Limit
	End time.Duration
	// Critical says that the resource is of the class critical or vital.
	Critical bool
	// Conditional says that matchConditions may keep some of them from being called.
	Conditional bool
}

func (o *Outlasting) message() string {
	who, wait := "is one of "+inventory.Counted(o.Webhooks, "webhook")+" with failurePolicy Ignore that "+where(o.Cost)+" meets", "while all of them hang"
	if o.Webhooks == 1 {
		who, wait = "has failurePolicy Ignore and is called for "+where(o.Cost), "while it hangs"
	}
	if o.Conditional {
		wait += " and no matchCondition leaves one out"
	}
	return fmt.Sprintf("%s: %s, the request is refused after %s of %s (%s)", who, wait, text.Seconds(o.End), text.Seconds(o.Total()), o.By)
}

func (o *Outlasting) Brief() string {
	why := fmt.Sprintf("if all hang: %d webhooks with failurePolicy Ignore take up to %s together", o.Webhooks, text.Seconds(o.Total()))
	if o.Webhooks == 1 {
		why = fmt.Sprintf("if it hangs: it takes up to %s, in spite of failurePolicy Ignore", text.Seconds(o.Total()))
	}
	return fmt.Sprintf("%s is refused after %s %s", where(o.Cost), text.Seconds(o.End), why)
}

// fix shortens the webhook alone, where that is enough.
func (o *Outlasting) fix(p *Profile) string {
	show := explainCommand(o.Cost)
	if o.enough(p) >= time.Second {
		return fmt.Sprintf("%s; to see the share of each: %s", patch(p, shorten(p, p.Policy.LongTimeoutSeconds)), show)
	}
	return fmt.Sprintf("shorten timeoutSeconds of all of them until they add up to less than %s; to see the share of each: %s%s",
		text.Seconds(o.By.After), show, byOwner(p))
}

// enough is how long the webhook may take for the request to have the time of the others.
func (o *Outlasting) enough(p *Profile) time.Duration {
	rest := o.By.Bounded(o.Budget) - p.Timeout
	if o.By.Of == inventory.Validating {
		rest = 0 // they are called at once
	}
	return o.By.After - rest - time.Second
}

func explainCommand(c Cost) string {
	command := fmt.Sprintf("webhook-auditor explain %s %s", strings.ToLower(string(c.Operation)), quoted(c.Resource.String()))
	if c.Namespace != "" {
		command += " " + ShellFlag("-n", c.Namespace)
	}
	return command
}

// findOutlasting finds the worst chain of each webhook with failurePolicy Ignore that
// outlasts its requests, those to critical resources before others.
func (p *Policy) findOutlasting(w *work, r *Report) {
	m := r.Matcher
	open := slices.DeleteFunc(slices.Clone(r.Profiles), func(f *Profile) bool {
		return f.Type == inventory.Conversion || f.FailsClosed()
	})
	b := newCostIndex(w, m, open, outlasted(m, open))
	for resource := range b.chains {
		for _, op := range m.Operations(resource) {
			if !w.step() {
				return
			}
			for _, c := range b.meetings(resource, op) {
				p.addOutlasting(b, c)
			}
		}
	}
	r.Errors = append(r.Errors, b.errors...)
}

// outlasted are the resources whose requests the webhooks could outlast if all of them
// were called for each that one matches.
func outlasted(m *admission.Matcher, open []*Profile) []inventory.Resource {
	total := map[inventory.Resource]admission.Budget{}
	for _, p := range open {
		for _, r := range p.Matched {
			total[r.Resource] = total[r.Resource].Add(p.Webhook, admission.Create)
		}
	}
	maps.DeleteFunc(total, func(r inventory.Resource, budget admission.Budget) bool {
		_, _, ended := admission.End(m.Limits(admission.Create, r), budget)
		return !ended
	})
	return slices.SortedFunc(maps.Keys(total), inventory.Resource.Compare)
}

// addOutlasting gives the chain, if it outlasts the request, to its webhooks that have no
// worse one. What hangs changes nothing, so that none is called again.
func (p *Policy) addOutlasting(b costIndex, c chainCost) {
	c.Reinvocable = 0
	limit, end, ended := admission.End(b.matcher.Limits(c.Operation, c.Resource), c.Budget)
	if !ended {
		return
	}
	bounded := slices.DeleteFunc(c.chain, func(f *Profile) bool { return limit.Of != "" && f.Type != limit.Of })
	if limit.Of != "" {
		c.Webhooks = len(bounded)
	}
	if !slices.ContainsFunc(bounded, func(f *Profile) bool { return !f.NamespaceSelector.Empty() }) {
		c.Namespace = "" // it is the same in all
	}
	o := &Outlasting{Cost: c.Cost, By: limit, End: end}
	o.Critical = slices.Contains(p.Classes[ClassCritical], c.Resource) ||
		slices.Contains(p.Classes[ClassVital], c.Resource)
	o.Conditional = slices.ContainsFunc(bounded, func(f *Profile) bool { return len(f.MatchConditions) > 0 })
	for _, f := range bounded {
		if f.takesTime(c.Budget) && o.worseThan(f.Outlasting) {
			f.Outlasting = o
		}
	}
}

// worseThan puts critical resources first, then what takes longest.
func (o *Outlasting) worseThan(other *Outlasting) bool {
	if other == nil || o.Critical != other.Critical {
		return other == nil || o.Critical
	}
	return cmp.Or(cmp.Compare(o.Total(), other.Total()), other.Resource.Compare(o.Resource),
		cmp.Compare(other.Operation, o.Operation), cmp.Compare(o.Namespace, other.Namespace)) > 0
}
