package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

// WriteMarkdown writes the findings for an issue or a pull request: a table,
// and what to do below it.
func WriteMarkdown(w io.Writer, d Document) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "### Webhook audit\n\n%s\n", escape(d.summary()))
	open, acknowledged := separateAcknowledged(d.Findings)
	if len(d.Findings) > 0 {
		writeTable(b, append(open, acknowledged...))
		writeFixes(b, open)
	}
	writeObserved(b, d)
	writeAuditLog(b, d)
	writeErrorList(b, d.Errors)
	writeFoot(b, d.Inputs, d.Taken)
	return flush(b)
}

// writeFoot writes what was read, and as of when it is evaluated.
func writeFoot(b *bufio.Writer, inputs []Input, taken time.Time) {
	b.WriteString("\n<sub>")
	for _, line := range readLines(inputs, taken) {
		b.WriteString(escape(line) + "<br>")
	}
	b.WriteString("webhook-auditor, snapshot of " + formatTime(taken) + "</sub>\n")
}

func writeTable(b *bufio.Writer, findings []Finding) {
	b.WriteString("\n| # | Severity | Webhook | Finding | Check | Where |\n| --: | --- | --- | --- | --- | --- |\n")
	for i, f := range findings {
		severity := f.Severity.String()
		if f.Acknowledged {
			severity += " (acknowledged)"
		}
		fmt.Fprintf(b, "| %d | %s | %s | %s | [%s](%s) | %s |\n",
			i+1, severity, cell(code(f.Name)), cell(escape(shortenLists(f.Message))), cell(escape(f.Check)), f.Runbook, cell(location(f)))
	}
}

func location(f Finding) string {
	s := string(f.Type)
	if f.Configuration != f.Name {
		s += " " + code(f.Configuration)
	}
	if f.Source.File != "" {
		s += "<br>" + code(f.Source.String())
	}
	return s
}

// writeFixes writes each fix once, under the numbers of the rows it is for.
func writeFixes(b *bufio.Writer, findings []Finding) {
	if len(findings) == 0 {
		return
	}
	b.WriteString("\n#### What to do\n")
	row := 1
	for _, group := range groupByFix(findings) {
		heading := fmt.Sprintf("%d", row)
		if len(group) > 1 {
			heading = fmt.Sprintf("%d–%d", row, row+len(group)-1)
		}
		fmt.Fprintf(b, "\n**%s.** %s\n", heading, fixMarkdown(group[0].Fix))
		row += len(group)
	}
}

// fixMarkdown keeps the indented lines of a fix, commands or manifests, as code
// blocks.
func fixMarkdown(fix string) string {
	var b strings.Builder
	fence := strings.Repeat("`", max(3, longestRun(fix)+1)) + "\n"
	inCode := false
	for _, line := range fixLines(fix) {
		if indented(line) != inCode {
			b.WriteString(fence)
			inCode = !inCode
		}
		if inCode {
			b.WriteString(text.Clean(line) + "\n")
		} else {
			b.WriteString(markdown(line) + "\n")
		}
	}
	if inCode {
		b.WriteString(fence)
	}
	return strings.TrimSpace(b.String())
}

func writeErrorList(b *bufio.Writer, errors []Error) {
	if len(errors) == 0 {
		return
	}
	b.WriteString("\n#### Errors\n\n")
	for i, e := range errors {
		if i == MaxErrors {
			fmt.Fprintf(b, "- and %d more\n", len(errors)-i)
			return
		}
		fmt.Fprintf(b, "- %s\n", escape(e.String()))
	}
}

// special are the characters that Markdown would take for markup. The comment
// behind "@" keeps a report from notifying users who have that name.
var special = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`,
	"<", "&lt;", ">", "&gt;", "&", "&amp;", "#", `\#`, "~", `\~`, "@", "@<!-- -->",
)

// escape makes text show as it is, on one line.
func escape(s string) string { return special.Replace(text.Clean(s)) }

// markdown escapes a line of a fix, but for its commands, which become code.
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
