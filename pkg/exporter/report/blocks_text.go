package report

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

// The indents of a text.
const (
	listIndent    = 2 // of what has no label, below a heading
	underIndent   = 4 // of the lines below an entry
	commandIndent = 4
)

// WriteText writes the Blocks for a terminal.
func (b Blocks) WriteText(w io.Writer, o TextOptions) error {
	buffer := bufio.NewWriter(w)
	p := printer{buffer, o}
	for i, block := range b {
		if i > 0 {
			p.newline()
		}
		p.block(block)
	}
	return flush(buffer)
}

func (p printer) block(b Block) {
	indent := 0
	if b.Heading != "" {
		p.flow(word{}, 0, words(b.Heading, bold))
		indent = listIndent
	}
	if b.Table != nil && len(b.Table.Rows) > 0 {
		p.WriteString(b.Table.text(p.TextOptions) + "\n")
	}
	p.lines(b.Lines, margins{plain: indent, after: 2 * indent})
	for _, c := range b.Commands {
		p.WriteString(strings.Repeat(" ", commandIndent) + text.Clean(c) + "\n")
	}
}

// margins are the indents of lines without a label, of what follows the first one of each,
// and of labels.
type margins struct{ plain, after, label int }

// lines writes the lines with their labels aligned.
func (p printer) lines(lines []Line, m margins) {
	width := 0
	for _, l := range lines {
		width = max(width, utf8.RuneCountInString(l.Label))
	}
	for _, l := range lines {
		p.line(l, m, width)
		p.lines(l.Under, margins{underIndent, underIndent, underIndent})
	}
}

func (p printer) line(l Line, m margins, labels int) {
	label, tone := word{strings.Repeat(" ", m.plain), plain}, style(l.Tone)
	after := m.after
	if l.Label != "" {
		name := text.Clean(l.Label)
		label = word{
			strings.Repeat(" ", m.label) + name + strings.Repeat(" ", labels-utf8.RuneCountInString(name)+1), tone,
		}
		tone, after = plain, utf8.RuneCountInString(label.text)
	}
	line := slices.Concat(words(l.Name, bold), words(shortenLists(l.Text), tone))
	if l.Command != "" {
		line = append(line, word{text.Clean(l.Command), verbatim})
	}
	p.flow(label, after, append(line, p.aside(l.Aside, utf8.RuneCountInString(label.text), line)...))
}

// aside is at the right edge where it fits there.
func (p printer) aside(aside string, used int, line []word) []word {
	out := words(aside, dim)
	if len(out) == 0 || p.Width == 0 {
		return out
	}
	for _, w := range line {
		used += utf8.RuneCountInString(w.text) + 1
	}
	if free := p.Width - used - utf8.RuneCountInString(out[0].text); free > 0 {
		out[0].text = strings.Repeat(" ", free) + out[0].text
	}
	return out
}
