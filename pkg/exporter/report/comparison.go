package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Comparison is what "audit --baseline -o json" prints: the findings that a
// change adds and resolves.
type Comparison struct {
	Version  string            `json:"version"`
	Taken    time.Time         `json:"taken"`
	Server   string            `json:"server"`
	Baseline Baseline          `json:"baseline" jsonschema:"Baseline is what it is compared with."`
	Added    []Finding         `json:"added" jsonschema:"Added are the findings that are new, or worse than before."`
	Resolved []Finding         `json:"resolved" jsonschema:"Resolved are the findings that are gone."`
	Errors   []Error           `json:"errors" jsonschema:"Errors are what cannot be read after the change."`
	Totals   ComparisonTotals  `json:"totals"`
	Inputs   []inventory.Input `json:"inputs,omitempty" jsonschema:"Inputs are the paths that were read after the change; absent for a cluster."`
}

// Baseline names the Document before the change.
type Baseline struct {
	Taken  time.Time         `json:"taken"`
	Server string            `json:"server"`
	Inputs []inventory.Input `json:"inputs,omitempty" jsonschema:"Inputs are the paths that were read before the change; absent for a cluster."`
}

// ComparisonTotals count what a Comparison holds.
type ComparisonTotals struct {
	Added    FindingTotals `json:"added"`
	Resolved FindingTotals `json:"resolved"`
}

// findingID identifies a finding across Documents. Its position in a file, its
// severity and its message may change; it is the same finding.
type findingID struct {
	check string
	inventory.Ref
	resource string
}

func (f Finding) id() findingID { return findingID{f.Check, f.Ref, f.Resource} }

// weight orders findings by how much they matter; accepted ones do not.
func (f Finding) weight() classify.Severity {
	if f.Acknowledged {
		return 0
	}
	return f.Severity
}

// NewComparison compares the Documents before and after a change.
func NewComparison(before, after Document) Comparison {
	added, resolved := classify.Compare(before.Findings, after.Findings, Finding.id, Finding.weight)
	return Comparison{
		Version:  documentVersion,
		Taken:    after.Taken,
		Server:   after.Server,
		Baseline: Baseline{before.Taken, before.Server, before.Inputs},
		Added:    append([]Finding{}, added...),
		Resolved: append([]Finding{}, resolved...),
		Errors:   append([]Error{}, after.Errors...),
		Totals:   ComparisonTotals{countFindings(added), countFindings(resolved)},
		Inputs:   after.Inputs,
	}
}

func countFindings(findings []Finding) FindingTotals {
	var n FindingTotals
	for _, f := range findings {
		switch f.Severity {
		case classify.Critical:
			n.Critical++
		case classify.Warning:
			n.Warning++
		case classify.Info:
			n.Info++
		}
	}
	return n
}

// String lists the counts: "1 critical, 0 warning, 2 info".
func (n FindingTotals) String() string {
	return fmt.Sprintf("%d critical, %d warning, %d info", n.Critical, n.Warning, n.Info)
}

// Text has the findings added and those resolved.
func (c Comparison) Text(o TextOptions) Blocks {
	return Blocks{
		{Heading: "ADDED", Lines: o.entries(c.Added, causeOf)},
		{Heading: "RESOLVED", Lines: o.entries(c.Resolved, causeOf)},
		{Lines: slices.Concat(Sentences(c.summary()), inputLines(c.Inputs, c.Taken, o),
			dimmed(unreadInputs(c.Baseline.Inputs)))},
	}.NonEmpty()
}

// Table has the findings added and resolved, one line each.
func (c Comparison) Table() Blocks {
	t := findingsTable(c.Added).marked("Change", "added")
	t.Rows = append(t.Rows, findingsTable(c.Resolved).marked("Change", "resolved").Rows...)
	return Blocks{{Table: t}, {Lines: Sentences(c.summary())}}.NonEmpty()
}

// summary is the Comparison in one line.
func (c Comparison) summary() string {
	found := "No finding is added or resolved"
	switch {
	case len(c.Added) > 0 && len(c.Resolved) > 0:
		found = "Added: " + c.Totals.Added.String() + "; resolved: " + c.Totals.Resolved.String()
	case len(c.Added) > 0:
		found = "Added: " + c.Totals.Added.String()
	case len(c.Resolved) > 0:
		found = "Resolved: " + c.Totals.Resolved.String()
	}
	after := Document{Server: c.Server, Inputs: c.Inputs}.subject()
	return fmt.Sprintf("%s. Compared: %s with %s.%s", found, after, c.Baseline, unreadableNote(c.Errors))
}

// String is the cluster by its version, or the files, and the time of what was recorded.
func (b Baseline) String() string {
	out := Document{Server: b.Server, Inputs: b.Inputs}.subject()
	if len(b.Inputs) == 0 || evaluatedAsOf(b.Inputs, b.Taken) != "" {
		out += " of " + formatTime(b.Taken)
	}
	return out
}

// Markdown has the Comparison for a pull request.
func (c Comparison) Markdown() Blocks {
	out := Blocks{{Heading: "Webhook audit: what this change does"}, {Lines: Sentences(c.summary())}}
	if len(c.Added) > 0 {
		out = append(out, Block{Heading: "Added", Table: markdownTable(c.Added)}, whatToDo(c.Added))
	}
	if len(c.Resolved) > 0 {
		out = append(out, Block{Heading: "Resolved", Table: markdownTable(c.Resolved)})
	}
	return append(out, markdownFoot(c.Errors, c.Inputs, c.Taken).NonEmpty()...)
}

// Document has what is added, for formats that know findings alone.
func (c Comparison) Document() Document {
	return Document{Findings: c.Added, Errors: c.Errors, Inputs: c.Inputs, Taken: c.Taken}
}
