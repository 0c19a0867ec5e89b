package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// top are the flags of the command top.
type top struct {
	source
	output, sort string
	// by is what requests of audit logs are grouped by.
	by        string
	namespace namespaceFlags
}

func topCommand(s streams) *cobra.Command {
	t := &top{}
	c := &cobra.Command{
		Use:   "top",
		Short: "Show which webhooks cost most now, as the API servers measure it",
		Long: `Show which webhooks cost most now, as the API servers measure it.

Without --prometheus-url, the API servers' /metrics are scraped twice, some
seconds apart, which needs permission to get the nonResourceURL /metrics.
SHARE is a webhook's part of the time that all admission webhooks took.

With --audit-log, show instead which requests webhooks and policies mutated,
denied or failed, as audit logs of the API servers record it: by webhook, or
--by resource, user or namespace. THEY TOOK is what requests over 500 ms waited.`,
		Example: `  # Show the webhooks that cost most in the next 10 seconds
  webhook-auditor top

  # Show the slowest webhooks of the last hour, of all API servers
  webhook-auditor top --prometheus-url https://prometheus.example.com --observe-for 1h --sort p99

  # Show whose requests webhooks denied, as a must-gather records it
  webhook-auditor top --audit-log must-gather --from must-gather --by user --sort refused`,
		Args: noArguments,
		RunE: running(s, t.run),
	}
	var groups cliflag.NamedFlagSets
	flags := groups.FlagSet("output")
	enumFlag(flags, &t.output, enum{"output", "o", "output format", []string{"text", "json"}})
	enumFlag(flags, &t.sort, enum{"sort", "", "sort by this column", report.SortKeys})
	t.namespace.register(flags, "show")
	enumFlag(flags, &t.by, enum{"by", "", "with --audit-log, group the requests", report.AuditDimensions})
	t.observe.registerSources(groups.FlagSet("observation"))
	groups.FlagSet("input").StringArrayVar(&t.from, "from", nil, "with --audit-log: file, directory or archive to read instead of a cluster; may be repeated")
	t.input = inputFlags(groups.FlagSet("input"))
	t.access = registerCluster(groups.FlagSet("cluster"))
	addFlags(c, &groups)
	return c
}

func (t *top) run(ctx context.Context, _ []string, s streams) error {
	if !t.observe.given() {
		t.observe.source = "apiserver"
	}
	if err := errors.Join(t.observe.check(t.from), t.checkAuditLog()); err != nil {
		return err
	}
	return t.show(ctx, s)
}

// show prints one table.
func (t *top) show(ctx context.Context, s streams) error {
	policy, err := t.input.policy()
	if err != nil {
		return err
	}
	if len(t.observe.audit.paths) > 0 {
		return t.showAuditLog(ctx, policy, s)
	}
	evaluated, err := t.evaluate(ctx, policy, s)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // the table would be of less than the span
	}
	table := report.NewTop(evaluated, t.sort)
	if selected := t.namespace.selected(); selected != "" {
		document, selection := report.NewDocument(evaluated), selection{namespace: selected}
		if err := selection.check(document, s.err); err != nil {
			return err
		}
		table = table.Select(selection.of(document))
	}
	return cmp.Or(show(t.output, table, s), printErrors(table.Errors, s))
}

// printErrors prints what cannot be read; the report is incomplete then.
func printErrors(list []report.Error, s streams) error {
	if len(list) == 0 {
		return nil
	}
	return cmp.Or(writeErrors(list, s), errIncomplete)
}
