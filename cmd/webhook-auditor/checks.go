package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
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

// checksLike are the names of checks that look like what was typed.
func checksLike(typed string) []string {
	var names []string
	for _, c := range classify.Checks {
		names = append(names, c.Name)
	}
	return arguments.Like(typed, names)
}

// explainCheck prints the runbook of a check, as it is written.
func explainCheck(c *classify.Check, s streams) error {
	_, err := fmt.Fprintf(s.out, "%s (%s): %s\n\n%s", c.Name, c.Severity, c.Summary, strings.TrimPrefix(c.Runbook(), "# "+c.Name+"\n\n"))
	return err
}
