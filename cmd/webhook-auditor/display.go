package main

import (
	"io"
	"os"

	"github.com/spf13/pflag"
	"golang.org/x/term"

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
