package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// checksCommand lists the checks; what one means is "explain CHECK".
func checksCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "checks",
		Short: "List what audit looks for, a line for each check",
		Long: `List what audit looks for, a line for each check.

"webhook-auditor explain CHECK" prints the runbook of one.`,
		Example: `  # List all checks
  webhook-auditor checks

  # Print what a check means, and what to do
  webhook-auditor explain service-missing`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: running(s, func(_ context.Context, _ []string, s streams) error {
			t := &report.Table{Headings: []string{"Check", "Severity", "Summary"}, Cut: "Summary"}
			for _, c := range classify.Checks {
				t.Rows = append(t.Rows, []string{c.Name, c.Severity.String(), c.Summary})
			}
			return report.Blocks{{Table: t}}.WriteText(s.out, textOptions(s.out))
		}),
	}
}

// checkTimeout bounds how long a runbook waits for a cluster, which may be the one in trouble.
const checkTimeout = 20 * time.Second

// explainCheck prints the runbook of a check, with the names of a finding where a cluster
// or files have one.
func (e *explain) explainCheck(ctx context.Context, c *classify.Check, s streams) error {
	if c.OptIn {
		in := *e.input // which calls of mcp share
		in.checks = append(slices.Clone(in.checks), c.Name)
		e.input = &in
	}
	bounded, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	evaluated, _, err := e.evaluateIfPossible(bounded, s)
	if err != nil {
		return err
	}
	document := report.NewDocument(evaluated)
	return printAnswer(e.output, report.NewRunbook(c, document), document.Errors, s)
}
