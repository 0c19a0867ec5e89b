package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"webhook-auditor": main, "explain-requests": explainRequests})
}

// TestCases: what operators of webhooks reported, with the answer that is right. Each
// case is a script and its input files in one text.
func TestCases(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/cases", RequireExplicitExec: true, RequireUniqueNames: true})
}

// explainRequests is a program of the end-to-end tests, which ask about thousands of requests:
// it takes the flags of explain, reads a request from each line of standard input as the command
// line has it, and answers each in JSON. What it asks of the cluster is read once.
func explainRequests() {
	s := streams{reader: os.Stdin, out: os.Stdout, err: os.Stderr}
	e := &explain{}
	c := e.command(s)
	c.RunE = func(c *cobra.Command, _ []string) error { return e.each(c.Context(), s) }
	c.SetContext(context.Background())
	c.SetArgs(append(os.Args[1:], "-o=json"))
	os.Exit(exit(c.Execute(), s.err))
}

func (e *explain) each(ctx context.Context, s streams) error {
	snapshot, err := e.snapshot(ctx, s)
	if err != nil {
		return err
	}
	facts := e.knowledge(ctx, admission.New(snapshot))
	for lines := bufio.NewScanner(s.reader); lines.Scan(); {
		flags := pflag.NewFlagSet("explain", pflag.ContinueOnError)
		request := registerRequest(flags)
		if err := flags.Parse(strings.Fields(lines.Text())); err != nil {
			return err
		}
		arguments, err := request.read(flags.Args(), streams{})
		if err != nil {
			return err
		}
		chain, err := arguments.chain(facts)
		if err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		if err := show(e.output, report.NewExplanation(chain, snapshot), s); err != nil {
			return err
		}
	}
	return printErrors(report.NewErrors(snapshot.Errors), s)
}
