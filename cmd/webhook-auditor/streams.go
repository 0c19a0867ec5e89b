package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// display is stdout, with how a text is to be written to it.
type display struct {
	io.Writer
	// color is when to use colors: auto on a terminal, always or never.
	color   string
	verbose bool
}

// register adds the flags of all commands.
func (s *display) register(flags *pflag.FlagSet) {
	enumFlag(flags, &s.color, enum{"color", "", "colors in texts", []string{"auto", "always", "never"}})
	flags.BoolVarP(&s.verbose, "verbose", "v", false, "print everything: whole messages, what was read, which webhooks are skipped and why")
}

// textOptions fit a text to the terminal it is for; a pipe gets plain, long lines.
// NO_COLOR is https://no-color.org.
func textOptions(w io.Writer) report.TextOptions {
	width, isTerminal := terminal(w)
	o := report.TextOptions{Color: isTerminal && os.Getenv("NO_COLOR") == "", Width: width}
	if s, ok := w.(*display); ok {
		o.Color = s.color == "always" || s.color == "auto" && o.Color
		o.Verbose = s.verbose
	}
	return o
}

// terminal returns the width of the terminal that w is, false if it is none.
func terminal(w io.Writer) (int, bool) {
	f, ok := unfiltered(w).(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width == 0 {
		width = 80
	}
	return width, true
}

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
