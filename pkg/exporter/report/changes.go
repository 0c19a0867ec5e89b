package report

import (
	"fmt"
	"slices"
	"strings"

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
	old := NewDocument(before)
	out := Changes{NewComparison(old, NewDocument(after)), d}
	known := map[Error]bool{}
	out.Errors = slices.DeleteFunc(append(old.Errors, out.Errors...), func(e Error) bool {
		again := known[e]
		known[e] = true
		return again
	})
	return out
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
			var names []string
			for _, r := range group {
				names = append(names, r.Configuration)
			}
			subject = fmt.Sprintf("%d %s webhook configurations are %s: %s", n, all.Type.Title(), all.Edit, shortenLists(strings.Join(names, ", ")))
			for _, r := range group[1:] {
				all.Webhooks = slices.Concat(all.Webhooks, r.Webhooks)
			}
		}
		out = append(out, Block{Heading: capital(subject), Lines: Sentences(all.Lines()...)})
	}
	if len(out) == 0 {
		out = Blocks{{Heading: "No registration of a webhook changes."}}
	}
	more := Blocks{
		{Heading: "Not compared: admission policies that differ", Lines: Sentences(c.Policies...)},
		{Heading: "How long webhooks can hold up requests", Lines: lines(c.Budgets, impact.BudgetChange.String)},
	}
	return append(out, more.NonEmpty().Bounded(maxListed)...)
}

// alike groups the registrations of admission webhooks of which the same is printed.
func alike(all []impact.Registration) [][]impact.Registration {
	var out [][]impact.Registration
	at := map[string]int{}
	for _, r := range all {
		key := fmt.Sprint(r.Type, r.Edit)
		for _, w := range r.Webhooks {
			key += fmt.Sprintf("%q", w.Sentences)
		}
		if r.Type == inventory.Conversion || len(r.Order) > 0 {
			key = r.Configuration // has names of its own
		}
		if i, known := at[key]; known {
			out[i] = append(out[i], r)
			continue
		}
		at[key] = len(out)
		out = append(out, []impact.Registration{r})
	}
	return out
}
