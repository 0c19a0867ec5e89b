package report

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

const (
	listIndent    = 2 // of what has no label, below a heading
	underIndent   = 4 // of the lines below an entry
	commandIndent = 4
)

func (b Blocks) WriteText(w io.Writer, o TextOptions) error {
	buffer := bufio.NewWriter(w)
	p := printer{buffer, o}
	for i, block := range b {
		if i > 0 {
			p.WriteByte('\n')
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
	label, tone := word{strings.Repeat(" ", m.plain), Plain}, l.Tone
	after := m.after
	if l.Label != "" {
		name := text.Clean(l.Label)
		label = word{
			strings.Repeat(" ", m.label) + name + strings.Repeat(" ", labels-utf8.RuneCountInString(name)+1), tone,
		}
		tone, after = Plain, utf8.RuneCountInString(label.text)
	}
	line := slices.Concat(words(l.Name, bold), words(shortenLists(l.Text), tone))
	if l.Command != "" {
		line = append(line, word{text.Clean(l.Command), verbatim})
	}
	p.flow(label, after, append(line, p.alignRight(l.Aside, utf8.RuneCountInString(label.text), line)...))
}

// alignRight puts the aside at the right edge, where it fits there.
func (p printer) alignRight(content string, used int, line []word) []word {
	out := words(content, Dim)
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

// The styles of words that are no Tones of Lines.
const (
	bold Tone = "1"
	// verbatim is plain, and never broken.
	verbatim Tone = "0"
)

// word is text of one style, which is broken only where it must be.
type word struct {
	text  string
	style Tone
}

type printer struct {
	*bufio.Writer
	TextOptions
}

func flush(b *bufio.Writer) error {
	if err := b.Flush(); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	return nil
}

// flow writes a label and words, wrapped at the width; the lines after the first have the
// indent.
func (p printer) flow(label word, indent int, content []word) {
	if p.Width > 0 {
		content = unbrokenWords(content)
	}
	column := utf8.RuneCountInString(label.text)
	current := p.write(Plain, label)
	for i, w := range content {
		n := utf8.RuneCountInString(w.text)
		switch {
		case i == 0:
		case p.Width > 0 && column+1+n > p.Width && !commandsCI.MatchString(w.text):
			p.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			p.WriteByte(' ')
			column++
		}
		current = p.write(current, w)
		column += n
	}
	p.write(current, word{})
	p.WriteByte('\n')
}

// write writes a word where the current style is what is given, and returns
// the word's.
func (p printer) write(current Tone, w word) Tone {
	if p.Color && w.style != current {
		fmt.Fprintf(p, "\x1b[0;%sm", w.style)
	}
	p.WriteString(w.text)
	return w.style
}

// command matches what is for the shell: a program with its arguments, up to a
// bracket or semicolon that is not quoted, and what is piped into it.
const command = `(?:(?:echo (?:\\'|'[^']*')+ \| )?kubectl|webhook-auditor explain)(?: (?:\\'|'[^']*'|"[^"]*"|[^\s;()'"])+)+`

// commandsCI matches what GitHub or Azure take for a command where a line begins with it.
var commandsCI = regexp.MustCompile(`^(?:::|##)`)

// remark matches what a brief message leaves out.
var remark = regexp.MustCompile(` \((?:rules|failurePolicy|matchConditions)[^()]*\)`)

// unbroken matches what stays on one line: a word, a quoted name, or a command,
// which would not survive being copied in two pieces.
var unbroken = regexp.MustCompile(`'[^']*'(?:"'"'[^']*')*\S*|(?:` + command + `|\S)+`)

// words are a text on one line, with one space where there were several; what
// is for the shell stays as it is.
func words(line string, style Tone) []word {
	line = text.Clean(line)
	if strings.Contains(line, "  ") || strings.HasPrefix(line, " ") || strings.HasSuffix(line, " ") {
		line = strings.Join(unbroken.FindAllString(line, -1), " ")
	}
	if line == "" {
		return nil
	}
	return []word{{line, style}}
}

// unbrokenWords are the pieces in which no line is ever broken.
func unbrokenWords(content []word) []word {
	var out []word
	for _, w := range content {
		if w.style == verbatim || strings.HasPrefix(w.text, " ") { // padded to the right edge
			out = append(out, w)
			continue
		}
		for _, piece := range unbroken.FindAllString(w.text, -1) {
			out = append(out, word{piece, w.style})
		}
	}
	return out
}

const (
	// maxListed is how many items of a list a person reads.
	maxListed = 10
	// leastListed is how many are left at least where there is no place for more.
	leastListed = 3
)

// longList matches an enumeration of single words, as in "pods, secrets, … and
// jobs" or "pods, secrets, … and 30 more".
var longList = regexp.MustCompile(`([^\s,]+(?:, (?:and )?[^\s,]+){` + strconv.Itoa(leastListed) + `,})(?: and (\d+) more| and ([^\s,]+))?`)

// shortenLists keeps the first items of long lists and counts the rest; commands stay whole.
// The JSON has them all.
func shortenLists(s string) string {
	var b strings.Builder
	for _, part := range fixParts(s) {
		if !part.Command {
			part.Text = bounded(part.Text, maxListed)
		}
		b.WriteString(part.Text)
	}
	return b.String()
}

// bounded keeps so many items of each list, not fewer than leastListed.
func bounded(s string, most int) string {
	if strings.Count(s, ", ") < most {
		return s
	}
	return longList.ReplaceAllStringFunc(s, func(list string) string {
		m := longList.FindStringSubmatch(list)
		items := strings.Split(strings.ReplaceAll(m[1], ", and ", ", "), ", ")
		if len(items) <= most {
			return list
		}
		// Not a number where the list does not say how many it left out.
		more, _ := strconv.Atoi(m[2])
		more += len(items) - most
		if m[3] != "" {
			more++
		}
		out := strings.Join(items[:most], ", ")
		end := strings.Repeat(")", max(0, openBrackets(out)-openBrackets(list)))
		return fmt.Sprintf("%s and %d more%s%s", out, more, end, list[len(strings.TrimRight(list, ".:;")):])
	})
}

func openBrackets(s string) int { return strings.Count(s, "(") - strings.Count(s, ")") }
