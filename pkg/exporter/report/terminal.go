package report

import (
	"bufio"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

// style is the parameter of a terminal's "select graphic rendition" sequence.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "1;31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
	// verbatim is plain, and never broken.
	verbatim style = "0"
)

// word is text of one style; paragraph breaks it only where it must.
type word struct {
	text string
	style
}

// printer lays words out in lines.
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

func (p printer) newline() { p.WriteByte('\n') }

// flow writes a label and words, wrapped at the width; the lines after the first have the
// indent.
func (p printer) flow(label word, indent int, content []word) {
	if p.Width > 0 {
		content = unbrokenWords(content)
	}
	column := utf8.RuneCountInString(label.text)
	current := p.write(plain, label)
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
	p.newline()
}

// write writes a word where the current style is what is given, and returns
// the word's.
func (p printer) write(current style, w word) style {
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
func words(line string, s style) []word {
	line = text.Clean(line)
	if strings.Contains(line, "  ") || strings.HasPrefix(line, " ") || strings.HasSuffix(line, " ") {
		line = strings.Join(unbroken.FindAllString(line, -1), " ")
	}
	if line == "" {
		return nil
	}
	return []word{{line, s}}
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

// shortenLists keeps the first items of long lists and counts the rest. The
// JSON has them all.
func shortenLists(s string) string { return bounded(s, maxListed) }

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

// openBrackets counts those that are opened and not closed.
func openBrackets(s string) int { return strings.Count(s, "(") - strings.Count(s, ")") }
