package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
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

func (s *display) register(flags *pflag.FlagSet) {
	enumFlag(flags, &s.color, "color", "", "colors in texts", []string{"auto", "always", "never"})
	flags.BoolVarP(&s.verbose, "verbose", "v", false, "print everything: whole messages, what was read, which webhooks are skipped and why")
}

// textOptions fit a text to the terminal it is for; a pipe gets plain, long lines.
// NO_COLOR is https://no-color.org.
func textOptions(w io.Writer) report.TextOptions {
	width, isTerminal := terminal(w)
	o := report.TextOptions{Color: isTerminal && os.Getenv("NO_COLOR") == "", Width: width}
	s, isDisplay := w.(*display)
	if o.WithoutFlags = !isDisplay; isDisplay {
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

// progress is one line on a terminal that shows how far a long read is. It is
// silent without a terminal, and at first: most reads are short.
type progress struct {
	w io.Writer
	// width is how long the line may be: one that wraps cannot be drawn over.
	width  int
	mu     sync.Mutex
	line   string
	next   time.Time
	length int
	// first draws the line where a read that hangs calls show no more.
	first *time.Timer
}

// showAfter is how long a read lasts before the line appears, and redraw how
// often it changes.
const (
	showAfter = 2 * time.Second
	redraw    = 100 * time.Millisecond
)

func newProgress(w io.Writer) *progress {
	p := &progress{line: "waiting for the first answer…", next: time.Now().Add(showAfter)}
	if width, ok := terminal(w); ok {
		p.w, p.width = unfiltered(w), width
		p.first = time.AfterFunc(showAfter, p.draw)
	}
	return p
}

func (p *progress) show(format string, args ...any) {
	p.mu.Lock()
	p.line = fmt.Sprintf(format, args...)
	p.mu.Unlock()
	p.draw()
}

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w == nil || time.Now().Before(p.next) {
		return
	}
	p.next = time.Now().Add(redraw)
	line := []rune(text.Clean(p.line))
	line = line[:min(len(line), p.width-1)]
	fmt.Fprintf(p.w, "\r%-*s", p.length, string(line))
	p.length = len(line)
}

func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.length > 0 {
		fmt.Fprintf(p.w, "\r%*s\r", p.length, "")
	}
	if p.w != nil {
		p.first.Stop()
	}
	p.w, p.length = nil, 0
}
