package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// messages is stderr without what a terminal would interpret: names of the input may
// hold anything, and an error names them.
type messages struct{ io.Writer }

// Write replaces what cannot be printed.
func (m messages) Write(p []byte) (int, error) {
	lines := strings.Split(string(p), "\n")
	for i, line := range lines {
		lines[i] = report.Clean(line)
	}
	if _, err := io.WriteString(m.Writer, strings.Join(lines, "\n")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// complain writes a message on stderr. Each line begins with the program: CI systems
// take a line that begins with a name of the input for a command to them.
func complain(stderr io.Writer, format string, args ...any) {
	for line := range strings.SplitSeq(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n") {
		fmt.Fprintf(stderr, "%s: %s\n", program, report.Clean(line))
	}
}

// unfiltered is the file behind messages, for what cleans names itself and draws lines.
func unfiltered(w io.Writer) io.Writer {
	if m, ok := w.(messages); ok {
		return m.Writer
	}
	return w
}
