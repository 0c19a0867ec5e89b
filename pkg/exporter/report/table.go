package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	prettytext "github.com/jedib0t/go-pretty/v6/text"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

// leastCut is what is left at least of a column that is cut. Where that does not fit either, the
// terminal breaks the line in any case, and nothing is cut.
const leastCut = 12

// bounded keeps so many rows, and says how many more there are.
func (t *Table) bounded(most int) *Table {
	out := *t
	if more := len(t.Rows) - most; more > 0 {
		last := make([]string, len(t.Headings))
		last[0] = fmt.Sprintf("… and %d more", more)
		out.Rows = append(slices.Clone(t.Rows[:most]), last)
	}
	return &out
}

// dropEmpty leaves the column out where no cell says anything.
func (t *Table) dropEmpty(heading string) {
	i := slices.Index(t.Headings, heading)
	if slices.ContainsFunc(t.Rows, func(cells []string) bool { return cells[i] != "" && cells[i] != "-" }) {
		return
	}
	t.drop(i)
}

func (t *Table) drop(i int) {
	t.Headings = slices.Delete(slices.Clone(t.Headings), i, i+1)
	t.Rows = slices.Clone(t.Rows)
	for j, cells := range t.Rows {
		t.Rows[j] = slices.Delete(slices.Clone(cells), i, i+1)
	}
}

// narrowed leaves out as many of the spare columns as a terminal is too narrow for, and names
// them.
func (t *Table) narrowed(o TextOptions) (out Table, dropped []string) {
	out = *t
	for _, heading := range t.Spare {
		if o.Piped || o.Width == 0 || out.leastWidth() <= o.Width+len(columnGap) {
			break
		}
		if i := slices.Index(out.Headings, heading); i >= 0 {
			out.drop(i)
			dropped = append(dropped, strings.ToUpper(heading))
		}
	}
	return out, dropped
}

// writer returns the table with its cells as the format writes them.
func (t *Table) writer(cell func(content, link string) string) table.Writer {
	out := table.NewWriter()
	out.SuppressTrailingSpaces()
	out.AppendHeader(row(t.Headings, func(s string) string { return cell(s, "") }))
	for _, cells := range t.Rows {
		out.AppendRow(row(cells, func(s string) string { return cell(s, t.Links[s]) }))
	}
	out.SetColumnConfigs(t.columns())
	return out
}

func row(cells []string, write func(string) string) table.Row {
	return lists.Map(cells, func(c string) any { return write(c) })
}

// columns align numbers to the right.
func (t *Table) columns() []table.ColumnConfig {
	out := make([]table.ColumnConfig, len(t.Headings))
	for i := range t.Headings {
		out[i].Number = i + 1
		if !slices.ContainsFunc(t.Rows, func(cells []string) bool { return !isNumber(cells[i]) }) {
			out[i].Align, out[i].AlignHeader = prettytext.AlignRight, prettytext.AlignRight
		}
	}
	return out
}

// isNumber returns whether a cell counts or measures something, or nothing.
func isNumber(cell string) bool {
	return cell == "-" || strings.Trim(cell, "0123456789.<>%ms ") == "" && cell != ""
}

const columnGap = "  "

// text draws the table as kubectl does.
func (t *Table) text(o TextOptions) string {
	narrow, dropped := t.narrowed(o)
	t = &narrow
	w := t.writer(func(s, _ string) string { return text.Clean(s) })
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", columnGap
	style.Format.HeaderAlign, style.Format.Header = prettytext.AlignLeft, prettytext.FormatUpper
	w.SetStyle(style)
	if i := slices.Index(t.Headings, t.Cut); i >= 0 && o.Width-t.widthBeside(i) >= leastCut {
		columns := t.columns()
		columns[i].WidthMax = o.Width - t.widthBeside(i)
		columns[i].WidthMaxEnforcer = wrapped
		w.SetColumnConfigs(columns)
	}
	if len(dropped) > 0 {
		w.SetCaption("A wider terminal has " + strings.Join(dropped, ", ") + " as well.")
	}
	return w.Render()
}

// wrapped breaks a cell between its words, and cuts one with a word that is too long, such as a URL.
func wrapped(cell string, width int) string {
	isTooLong := func(word string) bool { return utf8.RuneCountInString(word) > width }
	if slices.ContainsFunc(strings.Fields(cell), isTooLong) {
		return text.Shorten(cell, width)
	}
	return prettytext.WrapSoft(cell, width)
}

// leastWidth is the width with the column that is cut as narrow as it can be.
func (t *Table) leastWidth() int {
	i := slices.Index(t.Headings, t.Cut)
	if i < 0 {
		return t.widthBeside(i)
	}
	return min(t.widthBeside(-1), t.widthBeside(i)+leastCut+len(columnGap))
}

// widthBeside is the width of all columns but one, with what separates them.
func (t *Table) widthBeside(but int) int {
	sum := 0
	for i, heading := range t.Headings {
		if i == but {
			continue
		}
		widest := utf8.RuneCountInString(heading)
		for _, cells := range t.Rows {
			widest = max(widest, utf8.RuneCountInString(text.Clean(cells[i])))
		}
		sum += widest + len(columnGap)
	}
	return sum
}

func (d Document) Table() Blocks {
	t := findingsTable(mostUrgentFirst(d.Findings))
	foot := Block{Lines: Sentences(d.summary())}
	foot.Add("", Line{Text: SourceLine(d.Observed)})
	return Blocks{{Table: t}, foot}.NonEmpty()
}

func findingsTable(findings []Finding) *Table {
	t := &Table{Headings: []string{"Severity", "Check", "Configuration", "Webhook", "Message"}, Cut: "Message"}
	for _, f := range findings {
		message := shortened(cmp.Or(f.Brief, f.Message), longest)
		t.Rows = append(t.Rows, []string{severityCell(f), f.Check, f.Configuration, f.Name, message})
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
	return f.Severity.String() + f.AlertNote()
}
