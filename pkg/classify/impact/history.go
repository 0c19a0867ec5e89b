package impact

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// The bounds of a History: the changes that it keeps, those of one Report that are
// compared, and of each change the bytes of its sentences, of one of them, and of a
// finding, and the findings.
const (
	maxKept       = 200
	maxAtOnce     = 20
	maxSentences  = 3000
	maxSentence   = 1000
	maxMessage    = 300
	maxOfFindings = 3
)

// PastChange is a change of a registration in words. It holds no part of a Snapshot.
type PastChange struct {
	// Number counts the changes since the start, from 1.
	Number int
	// At is when the change was seen.
	At time.Time
	// Registration has of its webhooks the sentences alone.
	Registration
	// MoreWebhooks counts those that are left out.
	MoreWebhooks int
	// Added and Resolved are findings that came and went with the change.
	Added, Resolved PastFindings
	// Others counts registrations that changed at the same time, of which nothing else
	// is known: they were too many.
	Others int
}

// PastFindings are some findings, and how many more there are.
type PastFindings struct {
	Findings []PastFinding
	More     int
}

// PastFinding is a finding, of which the text alone is kept.
type PastFinding struct {
	Check    *classify.Check
	Severity classify.Severity
	Webhook  inventory.Ref
	Message  string
}

// String says what changed, as Registration does.
func (c PastChange) String() string {
	switch {
	case c.Others > 0:
		return inventory.Counted(c.Others, "more registration") + " changed at once"
	case c.MoreWebhooks > 0:
		return c.Registration.String() + ". " + inventory.Counted(c.MoreWebhooks, "more webhook") + " changed"
	}
	return c.Registration.String()
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
	h.mu.Lock()
	defer h.mu.Unlock()
	var now map[inventory.Ref]time.Time
	for _, f := range r.Findings {
		if f.Check.Fails && !f.Acknowledged {
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
	h.fail(after)
	if before == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.since = after.Snapshot.Taken
		return nil
	}
	if before.Snapshot.SameRegistrations(after.Snapshot) {
		return nil
	}
	changes := pastChanges(before, after)
	h.mu.Lock()
	defer h.mu.Unlock()
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
func pastChanges(before, after *classify.Report) []PastChange {
	unread := unread(before.Snapshot)
	changes := slices.DeleteFunc(Registrations(before.Matcher, after.Matcher), func(r Registration) bool {
		return r.Edit == Added && slices.Contains(unread, r.Type)
	})
	var out []PastChange
	for _, r := range changes[:min(len(changes), maxAtOnce)] {
		out = append(out, newPastChange(r))
	}
	if more := len(changes) - len(out); more > 0 {
		out = append(out, PastChange{Others: more})
	}
	if len(out) == 0 {
		return nil
	}
	added, resolved := findingChanges(before.Findings, after.Findings)
	for i := range out {
		c := &out[i]
		c.At = after.Snapshot.Taken
		with := func(f *classify.Finding) bool {
			return len(out) == 1 || f.Webhook.Type == c.Type && f.Webhook.Configuration == c.Configuration
		}
		c.Added, c.Resolved = newPastFindings(added, with), newPastFindings(resolved, with)
	}
	return out
}

// unread are the types of webhooks of which nothing is known as what registers them
// cannot be read: what is there once it can be is not new.
func unread(s *inventory.Snapshot) []inventory.Type {
	var out []inventory.Type
	for _, t := range []inventory.Type{inventory.Mutating, inventory.Validating, inventory.Conversion} {
		if slices.ContainsFunc(s.Errors, func(e inventory.Error) bool { return strings.HasPrefix(e.Object, t.Resource().Resource) }) &&
			!slices.ContainsFunc(s.Webhooks, func(w *inventory.Webhook) bool { return w.Type == t }) {
			out = append(out, t)
		}
	}
	return out
}

func newPastChange(r Registration) PastChange {
	out := PastChange{Registration: r}
	out.Webhooks = nil
	left := maxSentences
	for i, w := range r.Webhooks {
		if left <= 0 {
			out.MoreWebhooks = len(r.Webhooks) - i
			break
		}
		past := WebhookChange{Ref: w.Ref, Edit: w.Edit}
		for n, sentence := range w.Sentences {
			if left <= 0 {
				past.Sentences = append(past.Sentences, inventory.Counted(len(w.Sentences)-n, "more difference"))
				break
			}
			past.Sentences = append(past.Sentences, text.Shorten(sentence, min(maxSentence, left)))
			left -= len(sentence)
		}
		left -= len(w.Name)
		out.Webhooks = append(out.Webhooks, past)
	}
	return out
}

// findingChanges are the findings that are new or worse, and those that are gone.
func findingChanges(before, after []*classify.Finding) (added, resolved []*classify.Finding) {
	type id struct {
		*classify.Check
		inventory.Ref
		inventory.Resource
	}
	return classify.Compare(before, after, func(f *classify.Finding) id { return id{f.Check, f.Webhook, f.Resource} }, func(f *classify.Finding) classify.Severity {
		if f == nil || f.Acknowledged {
			return 0
		}
		return f.Severity
	})
}

// newPastFindings are some of the findings that are meant.
func newPastFindings(all []*classify.Finding, meant func(*classify.Finding) bool) PastFindings {
	var out PastFindings
	for _, f := range all {
		switch {
		case !meant(f):
		case len(out.Findings) == maxOfFindings:
			out.More++
		default:
			out.Findings = append(out.Findings, PastFinding{f.Check, f.Severity, f.Webhook, text.Shorten(f.Message, maxMessage)})
		}
	}
	return out
}
