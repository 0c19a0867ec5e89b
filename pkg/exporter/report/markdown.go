package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Markdown has the findings for an issue or a pull request: a table, and what to do below
// it.
func (d Document) Markdown() Blocks {
	open := slices.Concat(byUrgency(d.Findings))
	out := Blocks{
		{Lines: Sentences(d.summary())},
		{Heading: "Findings", Table: markdownTable(mostUrgentFirst(d.Findings))},
		whatToDo(open),
	}
	out = append(out, markdownFoot(d.Errors, d.Inputs, d.Taken)...)
	return append(Blocks{{Heading: "Webhook audit"}}, out.NonEmpty()...)
}

// markdownTable has a row for each finding, by whose number its fix is found.
func markdownTable(findings []Finding) *Table {
	t := &Table{Headings: []string{"#", "Severity", "Webhook", "Finding", "Check", "Where"}, Links: map[string]string{}}
	for i, f := range findings {
		t.Links[f.Check] = f.Runbook
		t.Rows = append(t.Rows,
			[]string{fmt.Sprint(i + 1), severityCell(f), f.Name, shortenLists(f.Message), f.Check, particulars(f)})
	}
	return t
}

// whatToDo has each fix once, under the numbers of the rows it is for.
func whatToDo(findings []Finding) Block {
	out := Block{Heading: "What to do"}
	for i, f := range findings {
		number := fmt.Sprintf("%d.", i+1)
		if i > 0 && f.Check == findings[i-1].Check && f.Fix == findings[i-1].Fix {
			last := &out.Lines[len(out.Lines)-1]
			first, _, _ := strings.Cut(strings.TrimSuffix(last.Label, "."), "–")
			last.Label = first + "–" + number
			continue
		}
		out.Lines = append(out.Lines, Line{Label: number, Text: f.Fix})
	}
	return out
}

// markdownFoot are the first errors, what was read, and as of when it is evaluated.
func markdownFoot(errors []Error, inputs []inventory.Input, snapshotTime time.Time) Blocks {
	out := Blocks{{Heading: "Errors", Lines: lines(ByCause(errors), Error.String)}}.Bounded(MaxErrors)
	read := append(readLines(inputs, snapshotTime), "webhook-auditor, snapshot of "+formatTime(snapshotTime))
	return append(out, Block{Lines: lists.Map(read, func(line string) Line { return Line{Aside: line} })})
}

func unreadableNote(errs []Error) string {
	if len(errs) == 0 {
		return ""
	}
	return fmt.Sprintf(" Some of the input cannot be read: %s.", inventory.Counted(len(errs), "error"))
}

// special are the characters that Markdown would take for markup. The comment
// behind "@" keeps a report from notifying users who have that name.
var special = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`,
	"<", "&lt;", ">", "&gt;", "&", "&amp;", "#", `\#`, "~", `\~`, "@", "@<!-- -->",
)

// escape makes text show as it is, on one line.
func escape(s string) string { return special.Replace(text.Clean(s)) }

// markdown escapes a text, but for its commands, which become code.
func markdown(s string) string {
	var b strings.Builder
	for _, part := range fixParts(text.Clean(s)) {
		if part.Command {
			b.WriteString(code(part.Text))
		} else {
			b.WriteString(escape(part.Text))
		}
	}
	return b.String()
}

// code returns a code span that shows s as it is.
func code(s string) string {
	s = text.Clean(s)
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// cell keeps a table's cell in its column: a pipe ends it even inside code.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func (b Blocks) WriteMarkdown(w io.Writer) error {
	buffer := bufio.NewWriter(w)
	level := "###"
	for i, block := range b {
		if i > 0 {
			buffer.WriteString("\n")
		}
		if block.Heading != "" {
			fmt.Fprintf(buffer, "%s %s\n", level, escape(block.Heading))
			level = "####"
		}
		block.markdown(buffer)
	}
	return flush(buffer)
}

func (b Block) markdown(w *bufio.Writer) {
	separator, list := "", b.Heading != ""
	if list {
		separator = "\n"
	}
	if b.Table != nil && len(b.Table.Rows) > 0 {
		w.WriteString(separator + b.Table.markdown() + "\n")
		separator = "\n"
	}
	for i, l := range b.Lines {
		if i == 0 || !list {
			w.WriteString(separator)
		}
		separator = "\n"
		if list {
			w.WriteString("- ")
		}
		w.WriteString(l.markdown() + "\n")
		for _, u := range l.Under {
			w.WriteString("  - " + u.markdown() + "\n")
		}
	}
	for i, c := range b.Commands {
		if i == 0 && len(b.Lines) == 0 {
			w.WriteString(separator)
		}
		w.WriteString("- " + code(c) + "\n")
	}
}

// markdown is the line without what is below it.
func (l Line) markdown() string {
	var parts []string
	for _, part := range []struct{ text, form string }{
		{escape(l.Label), "%s"},
		{escape(l.Name), "**%s**"},
		{markdown(shortenLists(l.Text)), "%s"},
		{escape(l.Aside), "<sub>%s</sub>"},
	} {
		if part.text != "" {
			parts = append(parts, fmt.Sprintf(part.form, part.text))
		}
	}
	if l.Command != "" {
		parts = append(parts, code(l.Command))
	}
	return strings.Join(parts, " ")
}

func (t *Table) markdown() string {
	return t.writer(func(s, link string) string {
		if link != "" {
			return "[" + escape(s) + "](" + link + ")"
		}
		return escape(s)
	}).RenderMarkdown()
}
