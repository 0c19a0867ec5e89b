package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

// column is a column of a table of findings.
type column struct {
	title string
	value func(Finding) string
}

// tableColumns are those of a table, wideColumns those of a wide one.
var (
	tableColumns = []column{
		{"SEVERITY", severityColumn},
		{"CHECK", func(f Finding) string { return f.Check }},
		{"TYPE", func(f Finding) string { return string(f.Type) }},
		{"CONFIGURATION", func(f Finding) string { return f.Configuration }},
		{"WEBHOOK", func(f Finding) string { return f.Name }},
	}
	wideColumns = append(slices.Clone(tableColumns), []column{
		{"RESOURCE", func(f Finding) string { return f.Resource }},
		{"SOURCE", func(f Finding) string { return f.Source.String() }},
		{"MESSAGE", func(f Finding) string { return shortenLists(f.Message) }},
	}...)
)

func severityColumn(f Finding) string {
	if f.Acknowledged {
		return f.Severity.String() + " (acknowledged)"
	}
	return f.Severity.String()
}

// observedColumns show what was measured of the webhooks that findings are
// about; there are none without a source. wideObservedColumns are more of them.
var (
	observedColumns     = []string{"CALLS/S", "P99", "FAILING"}
	wideObservedColumns = []string{"CALLS/S", "P50", "P99", "FAILING", "REFUSED"}
)

// withObserved inserts columns of what was measured before those of the details.
func withObserved(columns []column, d Document, titles []string) []column {
	if d.Observed == nil {
		return columns
	}
	observed := d.observed()
	var added []column
	for _, title := range titles {
		index := slices.Index(topHeadings, title)
		added = append(added, column{title, func(f Finding) string {
			o := observed[f.Ref]
			if o == nil {
				return "-"
			}
			return topCells(TopWebhook{Series: f.Series(), Observed: *o})[index]
		}})
	}
	return slices.Insert(slices.Clone(columns), len(tableColumns), added...)
}

// WriteTable writes the findings, one line each, and the totals.
func WriteTable(w io.Writer, d Document) error {
	return writeRows(w, d, withObserved(tableColumns, d, observedColumns))
}

// WriteWideTable is WriteTable with more columns.
func WriteWideTable(w io.Writer, d Document) error {
	return writeRows(w, d, withObserved(wideColumns, d, wideObservedColumns))
}

func writeRows(w io.Writer, d Document, columns []column) error {
	t := newTable(w, inContexts(columns, d.Findings))
	t.rows("", d.Findings)
	if d.Observed != nil {
		return t.end(d.summary() + "\n" + text.Clean(d.Observed.sourceLine()))
	}
	return t.end(d.summary())
}

// WriteComparisonTable writes the findings added and resolved, one line each.
func WriteComparisonTable(w io.Writer, c Comparison) error { return writeChanges(w, c, tableColumns) }

// WriteComparisonWideTable is WriteComparisonTable with more columns.
func WriteComparisonWideTable(w io.Writer, c Comparison) error {
	return writeChanges(w, c, wideColumns)
}

func writeChanges(w io.Writer, c Comparison, columns []column) error {
	t := newTable(w, append([]column{{title: "CHANGE"}}, columns...))
	t.columns = columns
	t.rows("added\t", c.Added)
	t.rows("resolved\t", c.Resolved)
	return t.end(c.summary())
}

// table aligns rows; without a row it has no header.
type findingsTable struct {
	*tabwriter.Writer
	columns []column
	header  string
}

func newTable(w io.Writer, columns []column) *findingsTable {
	var titles []string
	for _, c := range columns {
		titles = append(titles, c.title)
	}
	return &findingsTable{tabwriter.NewWriter(w, 0, 8, 3, ' ', 0), columns, strings.Join(titles, "\t") + "\n"}
}

// rows writes a line for each finding, after a prefix.
func (t *findingsTable) rows(prefix string, findings []Finding) {
	for _, f := range findings {
		fmt.Fprint(t, t.header)
		t.header = ""
		cells := make([]string, 0, len(t.columns))
		for _, c := range t.columns {
			cells = append(cells, text.Clean(c.value(f)))
		}
		fmt.Fprintln(t, prefix+strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
}

// end writes the totals below the rows.
func (t *findingsTable) end(summary string) error {
	if t.header == "" {
		fmt.Fprintln(t)
	}
	fmt.Fprintln(t, summary)
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	return nil
}
