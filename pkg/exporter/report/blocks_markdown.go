package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes the Blocks for an issue or a pull request.
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
