package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Markdown has the findings for an issue or a pull request: a table, and what to do below
// it.
func (d Document) Markdown() Blocks {
	open, acknowledged := separateAcknowledged(d.Findings)
	out := Blocks{
		{Lines: Sentences(d.summary())},
		{Heading: "Findings", Table: markdownTable(append(open, acknowledged...))},
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
	var read Block
	for _, line := range append(readLines(inputs, snapshotTime), "webhook-auditor, snapshot of "+formatTime(snapshotTime)) {
		read.Lines = append(read.Lines, Line{Aside: line})
	}
	return append(out, read)
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
	fence := strings.Repeat("`", longestRun(s)+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// longestRun returns the length of the longest run of backquotes.
func longestRun(s string) int {
	longest, run := 0, 0
	for _, r := range s {
		if r != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// cell keeps a table's cell in its column: a pipe ends it even inside code.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
