package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
)

// Changes is what "diff -o json" prints: what changed of the registrations, what
// that does, and the findings that it adds and resolves.
type Changes struct {
	Comparison
	// Registrations are the configurations, and CRDs with a conversion webhook, that
	// register other webhooks, or register them otherwise.
	Registrations []impact.Registration `json:"registrations"`
	// Budgets are requests for critical resources whose webhooks can hold them up longer,
	// or less long, in the namespace where that is worst.
	Budgets []impact.BudgetChange `json:"budgets"`
}

// NewChanges compares two Reports.
func NewChanges(before, after *classify.Report) Changes {
	old := NewDocument(before)
	out := Changes{
		Comparison:    NewComparison(old, NewDocument(after)),
		Registrations: append([]impact.Registration{}, impact.Registrations(before.Matcher, after.Matcher)...),
		Budgets:       append([]impact.BudgetChange{}, impact.BudgetChanges(before, after)...),
	}
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
	for _, r := range c.Registrations {
		subject := r.Subject()
		out = append(out, Block{Heading: strings.ToUpper(subject[:1]) + subject[1:], Lines: Sentences(r.Lines()...)})
	}
	if len(out) == 0 {
		return Blocks{{Heading: "No registration of a webhook changes."}}
	}
	worst := Block{Heading: "How long webhooks can hold up requests"}
	for i, b := range c.Budgets {
		if i == maxListed {
			worst.Lines = append(worst.Lines, Line{Text: fmt.Sprintf("and %d more; -o json lists them all", len(c.Budgets)-i)})
			break
		}
		worst.Lines = append(worst.Lines, Line{Text: b.String()})
	}
	if len(worst.Lines) > 0 {
		out = append(out, worst)
	}
	return out
}
