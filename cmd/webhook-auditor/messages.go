package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

// messages is stderr without what a terminal would interpret: names of the input may
// hold anything, and an error names them.
type messages struct{ io.Writer }

// Write replaces what cannot be printed.
func (m messages) Write(p []byte) (int, error) {
	lines := strings.Split(string(p), "\n")
	for i, line := range lines {
		lines[i] = text.Clean(line)
	}
	if _, err := io.WriteString(m.Writer, strings.Join(lines, "\n")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// complain writes a message on stderr, whose first line begins with the program. So
// does any other that does not begin with a letter: a name of the input may hold lines,
// and CI systems take those that begin with :: or ## for commands.
func complain(stderr io.Writer, format string, args ...any) {
	for i, line := range strings.Split(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n") {
		line = text.Clean(line)
		first, _ := utf8.DecodeRuneInString(strings.TrimSpace(line))
		if i == 0 || line != "" && !unicode.IsLetter(first) {
			line = program + ": " + line
		}
		fmt.Fprintln(stderr, line)
	}
}

// unfiltered is the file behind messages or a display, for what cleans names itself and draws lines.
func unfiltered(w io.Writer) io.Writer {
	switch w := w.(type) {
	case messages:
		return w.Writer
	case *display:
		return w.Writer
	}
	return w
}
