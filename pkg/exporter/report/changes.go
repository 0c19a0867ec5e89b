package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Changes is what "diff -o json" prints: what changed of the registrations, what
// that does, and the findings that it adds and resolves.
type Changes struct {
	Comparison
	impact.Difference
}

// NewChanges returns how two Reports differ as it is handed out.
func NewChanges(before, after *classify.Report, d impact.Difference) Changes {
	old, now := NewDocument(before), NewDocument(after)
	was := old.withoutUnread(after.Snapshot, now.Webhooks).withoutUnknown(before, after)
	is := now.withoutUnread(before.Snapshot, old.Webhooks)
	out := Changes{NewComparison(was, is), d}
	out.Errors = append([]Error{}, lists.Once(slices.Concat(old.Errors, out.Errors))...)
	return out
}

// withoutUnread leaves out the findings of what the other side may have and was not read, so
// that it may have the same.
func (d Document) withoutUnread(other *inventory.Snapshot, others []Webhook) Document {
	read := map[inventory.Ref]bool{}
	for _, w := range others {
		read[w.Ref] = true
	}
	d.Findings = slices.DeleteFunc(slices.Clone(d.Findings),
		func(f Finding) bool { return !read[f.Ref] && other.Unread(f.Ref) })
	return d
}

// withoutUnknown leaves out that backends cannot be called, where the other side does not show
// whether they can: nothing is resolved by an input that lacks them.
func (d Document) withoutUnknown(own, other *classify.Report) Document {
	was, now := own.ByRef(), other.ByRef()
	d.Findings = slices.DeleteFunc(slices.Clone(d.Findings), func(f Finding) bool {
		before, after := was[f.Ref], now[f.Ref]
		return before != nil && after != nil && f.Check == string(before.State.Fault) &&
			!after.State.Known && after.Webhook.Backend.Kind != inventory.BackendURL
	})
	return d
}

// Text has the changes, and the findings that they add and resolve.
func (c Changes) Text(o TextOptions) Blocks { return append(c.blocks(), c.Comparison.Text(o)...) }

// Markdown is the same for a pull request.
func (c Changes) Markdown() Blocks {
	return slices.Concat(Blocks{{Heading: "Webhooks: what this change does"}}, c.blocks(), c.Comparison.Markdown())
}

// blocks are the changes in words.
func (c Changes) blocks() Blocks {
	var out Blocks
	for _, group := range alike(c.Registrations) {
		subject, all := group[0].Subject(), group[0]
		if n := len(group); n > 1 {
			names := lists.Map(group, func(r impact.Registration) string { return r.Configuration })
			what := all.Type.Title() + " webhook configurations"
			if all.Type == inventory.Conversion {
				what = "conversions of CRDs"
			}
			subject = fmt.Sprintf("%d %s are %s: %s", n, what, all.Edit, shortenLists(strings.Join(names, ", ")))
			for _, r := range group[1:] {
				all.Webhooks = slices.Concat(all.Webhooks, r.Webhooks)
			}
		}
		out = append(out, Block{Heading: text.Capital(subject), Lines: Sentences(all.Lines()...)})
	}
	if len(out) == 0 {
		out = Blocks{{Heading: "No registration of a webhook changes."}}
	}
	more := Blocks{
		{Heading: "Not compared: admission policies that differ", Lines: Sentences(c.Policies...)},
		{Heading: "Not compared: one side has them, and of the other they cannot be read", Lines: Sentences(c.Unread...)},
		{Heading: "How long webhooks can hold up requests", Lines: lines(c.Budgets, impact.BudgetChange.String)},
	}
	return append(out, more.NonEmpty().Bounded(maxListed)...)
}

// alike groups the registrations of admission webhooks of which the same is printed.
func alike(all []impact.Registration) [][]impact.Registration {
	return grouped(all, func(r impact.Registration) string {
		if len(r.Order) > 0 {
			return r.Configuration // has names of its own
		}
		key := []string{fmt.Sprint(r.Type, r.Edit)}
		for _, w := range r.Webhooks {
			key = append(key, fmt.Sprintf("%q", w.Sentences))
		}
		return strings.Join(key, " ")
	})
}
