package report

import (
	"cmp"
	"slices"
)

// Table has the findings, one line each, and the totals.
func (d Document) Table() Blocks {
	t := findingsTable(d.Findings)
	lines := Sentences(d.summary())
	if d.Observed != nil {
		lines = append(lines, Line{Text: SourceLine(d.Observed)})
	}
	return Blocks{{Table: t}, {Lines: lines}}.NonEmpty()
}

// findingsTable has a row for each finding.
func findingsTable(findings []Finding) *Table {
	t := &Table{Headings: []string{"Severity", "Check", "Configuration", "Webhook", "Message"}, Cut: "Message"}
	for _, f := range findings {
		cells := []string{severityCell(f), f.Check, f.Configuration, f.Name, shortened(cmp.Or(f.Brief, f.Message), longest)}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// marked adds a column before the others with the same cell in each row.
func (t *Table) marked(heading, cell string) *Table {
	t.Headings = slices.Insert(t.Headings, 0, heading)
	for i, cells := range t.Rows {
		t.Rows[i] = slices.Insert(cells, 0, cell)
	}
	return t
}

func severityCell(f Finding) string {
	if f.Acknowledged {
		return f.Severity.String() + " (acknowledged)"
	}
	return f.Severity.String()
}
