package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"
)

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func standard() streams { return streams{in: os.Stdin, out: os.Stdout, err: os.Stderr} }

// command is one verb of the program. Flags registers its flags and returns
// what runs with them once they are parsed.
type command struct {
	name, args, summary string
	flags               func(*pflag.FlagSet) action
}

// action runs a command with the arguments that are no flags.
type action func(ctx context.Context, args []string, s streams) error

func commands() []command {
	return []command{
		{daemon, "", "the operator: watch, classify, serve /metrics", runCommand},
		{"audit", "[PATH…|-]", "one report: of the cluster when no PATH is given, else of files", auditCommand},
		{"explain", "[OPERATION RESOURCE[/SUB] [NAME]]", "which webhooks that request meets, in which order, and why the others are skipped", explainCommand},
		{"print", "NAME", "what this very binary checks, exports and ships", printCommand},
		{"version", "", "the version", versionCommand},
	}
}

// daemon is the command that runs until it is stopped.
const daemon = "run"

// The exit codes.
const (
	exitOK       = 0
	exitError    = 1 // could not look at some of it
	exitUsage    = 2
	exitFindings = 3
)

// usageError is a wrong call of the program.
type usageError struct{ error }

// errFindings says that there are findings at or above --fail-on, and
// errIncomplete that some of the input could not be looked at. Both are told by
// the report already.
var (
	errFindings   = errors.New("findings at or above --fail-on")
	errIncomplete = errors.New("some of the input could not be looked at")
)

// exit prints an error, once, and returns the exit code.
func exit(err error, stderr io.Writer) int {
	var usage usageError
	switch {
	case err == nil, errors.Is(err, pflag.ErrHelp):
		return exitOK
	case errors.Is(err, errIncomplete):
		return exitError
	case errors.Is(err, errFindings):
		return exitFindings
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "webhook-auditor: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "webhook-auditor: %v\n", err)
	return exitError
}

// run is the program.
func run(ctx context.Context, args []string, s streams) error {
	if len(args) == 0 {
		writeUsage(s.err)
		return usageError{errors.New("which command?")}
	}
	if args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		writeUsage(s.out)
		return nil
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(ctx, args[1:], s)
		}
	}
	writeUsage(s.err)
	return usageError{fmt.Errorf("no command %q", args[0])}
}

func (c command) run(ctx context.Context, args []string, s streams) error {
	flags := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
	flags.SetOutput(s.out)
	flags.SortFlags = false
	do := c.flags(flags)
	flags.Usage = func() {
		fmt.Fprintf(s.out, "%s\n\nUsage:\n  webhook-auditor %s %s[flags]\n\nFlags:\n%s", capitalized(c.summary), c.name, spaced(c.args), flags.FlagUsages())
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return err
		}
		return usageError{fmt.Errorf("%s: %w; see webhook-auditor %s --help", c.name, err, c.name)}
	}
	if c.name == daemon { // ends with its context, in its own time
		return do(ctx, flags.Args(), s)
	}
	return interrupted(ctx, func() error { return do(ctx, flags.Args(), s) })
}

func spaced(s string) string {
	if s == "" {
		return ""
	}
	return s + " "
}

func capitalized(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }

func writeUsage(w io.Writer) {
	fmt.Fprintf(w, "webhook-auditor tells what the webhooks of a cluster intercept, whether they work,\nand what breaks if they do not. It reads and reports; it never changes a webhook.\n\nUsage:\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range commands() {
		fmt.Fprintf(table, "  webhook-auditor %s %s\t%s\n", c.name, spaced(c.args), c.summary)
	}
	table.Flush()
	fmt.Fprintf(w, "\nEach command takes --help.\n")
}
