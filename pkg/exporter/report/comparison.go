package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

type Comparison struct {
	Version    string            `json:"version"`
	Taken      time.Time         `json:"taken"`
	Server     string            `json:"server"`
	Baseline   Baseline          `json:"baseline" jsonschema:"Baseline is what it is compared with."`
	Added      []Finding         `json:"added" jsonschema:"Added are the findings that are new, or worse than before."`
	Resolved   []Finding         `json:"resolved" jsonschema:"Resolved are the findings that are gone."`
	NotChecked []Finding         `json:"notChecked,omitempty" jsonschema:"NotChecked are findings of which the input after the change does not show whether they are gone: it lacks what decides that."`
	Errors     []Error           `json:"errors" jsonschema:"Errors are what cannot be read after the change."`
	Totals     ComparisonTotals  `json:"totals"`
	Inputs     []inventory.Input `json:"inputs,omitempty" jsonschema:"Inputs are the paths that were read after the change; absent for a cluster."`
}

type Baseline struct {
	Taken  time.Time         `json:"taken"`
	Server string            `json:"server"`
	Inputs []inventory.Input `json:"inputs,omitempty" jsonschema:"Inputs are the paths that were read before the change; absent for a cluster."`
}

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

func (n FindingTotals) String() string {
	return fmt.Sprintf("%d critical, %d warning, %d info", n.Critical, n.Warning, n.Info)
}

func (c Comparison) Text(o TextOptions) Blocks {
	return Blocks{
		{Heading: "ADDED", Lines: o.entries(c.Added)},
		{Heading: "RESOLVED", Lines: o.entries(c.Resolved)},
		{Heading: strings.ToUpper(notChecked) + ": " + lacksFacts, Lines: o.entries(c.NotChecked)},
		{Lines: slices.Concat(Sentences(c.summary()), inputLines(c.Inputs, c.Taken, o),
			dimmed(unreadInputs(c.Baseline.Inputs)))},
	}.NonEmpty()
}

func (c Comparison) Table() Blocks {
	t := findingsTable(c.Added).marked("Change", "added")
	t.Rows = append(t.Rows, findingsTable(c.Resolved).marked("Change", "resolved").Rows...)
	t.Rows = append(t.Rows, findingsTable(c.NotChecked).marked("Change", notChecked).Rows...)
	return Blocks{{Table: t}, {Lines: Sentences(c.summary())}}.NonEmpty()
}

const notChecked, lacksFacts = "not checked", "the input lacks what decides whether they are gone"

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
	if len(c.NotChecked) > 0 {
		found += "; " + notChecked + ": " + countFindings(c.NotChecked).String()
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

func (c Comparison) Markdown() Blocks {
	out := Blocks{{Heading: "Webhook audit: what this change does"}, {Lines: Sentences(c.summary())}}
	if len(c.Added) > 0 {
		out = append(out, Block{Heading: "Added", Table: markdownTable(c.Added)}, whatToDo(c.Added))
	}
	if len(c.Resolved) > 0 {
		out = append(out, Block{Heading: "Resolved", Table: markdownTable(c.Resolved)})
	}
	if len(c.NotChecked) > 0 {
		out = append(out, Block{Heading: text.Capital(notChecked) + ": " + lacksFacts, Table: markdownTable(c.NotChecked)})
	}
	return append(out, markdownFoot(c.Errors, c.Inputs, c.Taken).NonEmpty()...)
}

// Document has what is added, for formats that know findings alone.
func (c Comparison) Document() Document {
	return Document{Findings: c.Added, Errors: c.Errors, Inputs: c.Inputs, Taken: c.Taken}
}

// Changes is what "diff -o json" prints: what changed of the registrations, what
// that does, and the findings that it adds and resolves.
type Changes struct {
	Comparison
	impact.Difference
}

// NewChanges returns how two Reports differ as it is handed out. The third one is of the input
// after the change with what that lacks as it was before.
func NewChanges(before, after, completed *classify.Report, d impact.Difference) Changes {
	old, now := NewDocument(before), NewDocument(after)
	was := old.withoutUnread(after.Snapshot, now.Webhooks)
	is := now.withoutUnread(before.Snapshot, old.Webhooks)
	out := Changes{NewComparison(was, is), d}
	isOpen := impact.LeftOpen(before, after, completed)
	out.leave(func(f Finding) bool { return isOpen(f.Check, f.Ref, f.Resource) })
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

// LeaveOpen takes out of what is resolved the findings on what is registered as before, where the
// input after the change lacks more than the one before, was not observed, or not dialed.
func (c *Comparison) LeaveOpen(before, after Document, isDialed bool) {
	ofRef := func(w Webhook) inventory.Ref { return w.Ref }
	was, now := lists.By(before.Registered(), ofRef), lists.By(after.Registered(), ofRef)
	lacksMore := slices.ContainsFunc(commonLacks(after.Inputs),
		func(what string) bool { return !slices.Contains(commonLacks(before.Inputs), what) })
	c.leave(func(f Finding) bool {
		before, wasRegistered := was[f.Ref] // a binding of no policy is not
		now, isRegistered := now[f.Ref]
		switch {
		case isRegistered != wasRegistered:
			return false
		case f.Check == "backend-unreachable" || f.Check == "serving-certificate":
			return !isDialed
		case f.Check == "never-called":
			return after.Observed == nil
		}
		return lacksMore && now.registration() == before.registration()
	})
}

// leave takes the findings that are open out of what is resolved.
func (c *Comparison) leave(isOpen func(Finding) bool) {
	c.NotChecked, c.Resolved = lists.Filter(c.Resolved, isOpen), slices.DeleteFunc(c.Resolved, isOpen)
	c.Totals.Resolved = countFindings(c.Resolved)
}

// registration is what the Document has of how the webhook is registered.
func (w Webhook) registration() string {
	return fmt.Sprint(w.FailurePolicy, w.MatchPolicy, w.TimeoutSeconds, w.Backend, w.Approved)
}

func (c Changes) Text(o TextOptions) Blocks { return append(c.blocks(), c.Comparison.Text(o)...) }

func (c Changes) Markdown() Blocks {
	return slices.Concat(Blocks{{Heading: "Webhooks: what this change does"}}, c.blocks(), c.Comparison.Markdown())
}

func (c Changes) blocks() Blocks {
	var out Blocks
	for _, group := range groupsOf(c.Registrations) {
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

// groupsOf groups the registrations of admission webhooks of which the same is printed.
func groupsOf(all []impact.Registration) [][]impact.Registration {
	return lists.Group(all, func(r impact.Registration) string {
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
