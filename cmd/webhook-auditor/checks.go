package main

import (
	"cmp"
	"context"
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
		Args:              noArguments,
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

// explainCheck prints the runbook of a check.
func explainCheck(c *classify.Check, s streams) error {
	head := report.Block{Heading: c.Name, Lines: []report.Line{{Text: c.Summary, Aside: c.Severity.String()}}}
	o := textOptions(s.out)
	o.Width = cmp.Or(o.Width, defaultWidth)
	return append(report.Blocks{head}, runbookBlocks(c.Runbook())...).WriteText(s.out, o)
}

// runbookBlocks are the sections of a runbook, its code as commands.
func runbookBlocks(markdown string) report.Blocks {
	var out report.Blocks
	var paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			last := &out[len(out)-1]
			last.Lines = append(last.Lines, report.Line{Text: strings.Join(paragraph, " ")})
			paragraph = nil
		}
	}
	code := false
	for line := range strings.Lines(markdown) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			end()
			code = !code
		case code:
			out[len(out)-1].Lines = append(out[len(out)-1].Lines, report.Line{Label: "$", Command: line})
		case strings.HasPrefix(line, "## "):
			end()
			out = append(out, report.Block{Heading: line[len("## "):]})
		case line == "" || strings.HasPrefix(line, "# "):
			end()
		case strings.HasPrefix(line, "- "):
			end()
			paragraph = []string{line}
		default:
			paragraph = append(paragraph, strings.TrimSpace(line))
		}
	}
	end()
	return out
}
