package impact

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// The bounds of a History: the changes that it keeps, and of each change the lines, their
// bytes, and the findings.
const (
	maxKept       = 200
	maxLines      = 10
	maxLine       = 400
	maxOfFindings = 3
)

// PastChange is a change of a registration in words. It holds no part of a Snapshot.
type PastChange struct {
	// Number counts the changes since the start, from 1.
	Number int
	// At is when the change was seen.
	At time.Time
	// Registration says what it is of; its webhooks are left out.
	Registration
	// Differences are what changed.
	Differences []string
	// Added and Resolved are the findings that came and went with it, the worst first.
	Added, Resolved []PastFinding
}

// PastFinding is a finding in words, which is the same of one or several webhooks.
type PastFinding struct {
	Severity classify.Severity // 0 counts the others
	Text     string
}

func (c PastChange) String() string {
	return strings.Join(append([]string{c.Subject()}, c.Differences...), ". ")
}

// History keeps the last changes of registrations. The zero History is ready to use; it
// is safe for concurrent use.
type History struct {
	mu    sync.Mutex
	since time.Time
	// changes are the last ones, the oldest first, and count is how many there were.
	changes []PastChange
	count   int
	// failing has since when webhooks have a finding that says that they fail.
	failing map[inventory.Ref]time.Time
}

// FailingSince is when the webhook was first seen to fail, and has since; zero where it
// does not.
func (h *History) FailingSince(ref inventory.Ref) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failing[ref]
}

// fail keeps the times of what failed before.
func (h *History) fail(r *classify.Report) {
	var now map[inventory.Ref]time.Time
	for _, f := range r.Findings {
		if f.Check.Fails() && !f.Acknowledged {
			if now == nil {
				now = map[inventory.Ref]time.Time{}
			}
			now[f.Webhook] = r.Snapshot.Taken
			if before, failed := h.failing[f.Webhook]; failed {
				now[f.Webhook] = before
			}
		}
	}
	h.failing = now
}

// Observe records what differs between two Reports in a row, and returns it; before is
// nil for the first one, of which nothing is known to be new.
func (h *History) Observe(before, after *classify.Report) []PastChange {
	return h.ObserveInput(before, after, after)
}

// ObserveInput does so of files: completed has what they lack as it was before.
func (h *History) ObserveInput(before, after, completed *classify.Report) []PastChange {
	var changes []PastChange
	if before != nil {
		changes = pastChanges(before, after, completed)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail(after)
	if before == nil {
		h.since = after.Snapshot.Taken
	}
	for i := range changes {
		h.count++
		changes[i].Number = h.count
	}
	h.changes = append(h.changes, changes...)
	h.changes = slices.Delete(h.changes, 0, max(len(h.changes)-maxKept, 0))
	return changes
}

// Since is when the History began; zero before that.
func (h *History) Since() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since
}

// After are the changes that it keeps of those after the one of that number, the oldest
// first; all of them after 0.
func (h *History) After(number int) []PastChange {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.count - len(h.changes)
	return slices.Clone(h.changes[min(max(number-first, 0), len(h.changes)):])
}

// Last is the number of the last change; 0 before the first.
func (h *History) Last() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// pastChanges are what differs between two Reports, in words.
func pastChanges(before, after, completed *classify.Report) []PastChange {
	var out []PastChange
	if !slices.Equal(before.Snapshot.Webhooks, after.Snapshot.Webhooks) {
		changed, _ := registrations(before.Matcher, after.Matcher)
		for _, r := range changed {
			out = append(out, PastChange{Registration: r, Differences: bounded(r.Lines(), maxLines)})
		}
	}
	policies, _ := differentPolicies(before.Snapshot, after.Snapshot)
	for _, p := range policies {
		out = append(out, PastChange{Registration: p.Registration, Differences: p.fields})
	}
	if len(out) == 0 {
		return nil
	}
	added, resolved := findingChanges(before.Findings, after.Findings)
	isOpen := LeftOpen(before, after, completed)
	resolved = slices.DeleteFunc(resolved,
		func(f *classify.Finding) bool { return isOpen(f.Check.Name, f.Webhook, f.Resource.String()) })
	for i := range out {
		c := &out[i]
		belongs := func(f *classify.Finding) bool {
			return len(out) == 1 || f.Webhook.Type == c.Type && f.Webhook.Configuration == c.Configuration
		}
		c.At, c.Webhooks, c.Order = after.Snapshot.Taken, nil, nil
		c.Added, c.Resolved = pastFindings(added, belongs), pastFindings(resolved, belongs)
	}
	return out
}

// bounded keeps so many lines, none of them long, and counts the others.
func bounded(lines []string, most int) []string {
	return lists.Map(lists.Bounded(lines, most, "and %d more"),
		func(line string) string { return text.Shorten(line, maxLine) })
}

// LeftOpen reports whether a finding that is gone may be there still: with what the input lacks as
// it was before, it is, or it is unknown whether its backend can be called.
func LeftOpen(before, after, completed *classify.Report) func(check string, ref inventory.Ref, resource string) bool {
	type id struct {
		check string
		inventory.Ref
		resource string
	}
	was, now, still := before.ByRef(), after.ByRef(), map[id]bool{}
	for _, f := range completed.Findings {
		still[id{f.Check.Name, f.Webhook, f.Resource.String()}] = true
	}
	return func(check string, ref inventory.Ref, resource string) bool {
		before, after := was[ref], now[ref]
		if still[id{check, ref, resource}] || before == nil || after == nil {
			return still[id{check, ref, resource}]
		}
		isUnknown := !after.State.Known && after.Webhook.Backend.Kind != inventory.BackendURL
		return isUnknown && check == string(before.State.Fault)
	}
}

// findingChanges are the findings that are new or worse, and those that are gone.
func findingChanges(before, after []*classify.Finding) (added, resolved []*classify.Finding) {
	type id struct {
		*classify.Check
		inventory.Ref
		inventory.Resource
	}
	return classify.Compare(before, after, func(f *classify.Finding) id { return id{f.Check, f.Webhook, f.Resource} },
		func(f *classify.Finding) classify.Severity {
			if f == nil || f.Acknowledged {
				return 0
			}
			return f.Severity
		})
}

// pastFindings are some of the findings that are meant, in words.
func pastFindings(all []*classify.Finding, selects func(*classify.Finding) bool) []PastFinding {
	groups := lists.Group(lists.Filter(all, selects), func(f *classify.Finding) string {
		return fmt.Sprint(f.Severity, f.Check.Name, f.Webhook.Type, f.Message)
	})
	slices.SortStableFunc(groups, func(a, b []*classify.Finding) int { return int(b[0].Severity - a[0].Severity) })
	var out []PastFinding
	for _, group := range groups[:min(len(groups), maxOfFindings)] {
		names := lists.Map(group, func(f *classify.Finding) string { return f.Webhook.Name })
		out = append(out, PastFinding{group[0].Severity, text.Shorten(inWords(group[0], names...), maxLine)})
	}
	if more := len(groups) - len(out); more > 0 {
		out = append(out, PastFinding{Text: fmt.Sprintf("and %d more", more)})
	}
	return out
}

// inWords is a finding which the named webhooks have in common.
func inWords(f *classify.Finding, names ...string) string {
	subjects := f.Webhook.Type.Noun() + " " + names[0]
	if len(names) > 1 {
		subjects = fmt.Sprintf("each of %s (%s)", inventory.Counted(len(names), f.Webhook.Type.Noun()), some(names))
	}
	return fmt.Sprintf("%s: %s: %s %s", f.Severity, f.Check.Name, subjects, f.Message)
}
