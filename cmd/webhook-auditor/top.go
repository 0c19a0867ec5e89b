package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

type top struct {
	source
	output, sort string
	// column is what requests of audit logs are grouped by.
	column    string
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
--by resource, user or namespace. It also shows which fields they changed.`,
		Example: `  # Show the webhooks that cost most in the next 10 seconds
  webhook-auditor top

  # Show the slowest webhooks of the last hour, of all API servers
  webhook-auditor top --prometheus-url https://prometheus.example.com --observe-for 1h --sort p99

  # Show whose requests webhooks denied, as a must-gather records it
  webhook-auditor top --audit-log must-gather --from must-gather --by user`,
		Args: cobra.NoArgs,
		RunE: running(s, t.run),
	}
	var groups cliflag.NamedFlagSets
	flags := groups.FlagSet("output")
	enumFlag(flags, &t.output, "output", "o", "output format", []string{"text", "json"})
	enumFlag(flags, &t.sort, "sort", "", "sort by this column", report.SortKeys)
	t.namespace.register(flags, "show")
	enumFlag(flags, &t.column, "by", "", "with --audit-log, group the requests", report.AuditDimensions)
	t.observe.register(groups.FlagSet("observation"))
	t.observe.audit.register(groups.FlagSet("observation"))
	groups.FlagSet("input").StringArrayVar(&t.paths, "from", nil, "with --audit-log: file, directory or archive to read instead of a cluster; may be repeated")
	t.input = &input{}
	groups.FlagSet("input").StringVar(&t.input.config, "config", "", configUsage)
	t.access = registerConnection(groups.FlagSet("cluster"))
	addFlags(c, &groups)
	c.MarkFlagsMutuallyExclusive("audit-log", "sort")
	c.MarkFlagsMutuallyExclusive("audit-log", "config")
	c.MarkFlagsMutuallyExclusive("audit-log", "observe")
	c.MarkFlagsMutuallyExclusive("audit-log", "prometheus-url")
	return c
}

func (t *top) run(ctx context.Context, _ []string, s streams) error {
	logged := len(t.observe.audit.paths) > 0
	switch {
	case !logged && len(t.paths) > 0:
		return usageError{errors.New("--from: must be given with --audit-log: files have no metrics")}
	case !logged && t.column != report.AuditDimensions[0]:
		return usageError{errors.New("--by: must be given with --audit-log: no metric has users or namespaces")}
	}
	if !logged && !t.observe.enabled() {
		t.observe.source = "apiserver"
	}
	if err := t.observe.check(t.paths); err != nil {
		return err
	}
	evaluated, err := t.evaluated(ctx, s)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // the table would be of less than the span
	}
	document, selected := report.NewDocument(evaluated), selection{namespace: t.namespace.selected()}
	if err := selected.check(document, s); err != nil {
		return err
	}
	document = selected.narrowed(document, evaluated)
	if logged {
		if selected.namespace != "" {
			evaluated = document.At(evaluated)
		}
		table := report.NewAuditTop(evaluated, t.column)
		return printAnswer(t.output, table, table.Errors, s)
	}
	table := report.NewTop(evaluated, t.sort)
	if selected.namespace != "" {
		table = table.Select(document)
	}
	return printAnswer(t.output, table, table.Errors, s)
}

// evaluated is the Report to print of. An audit log needs no cluster: whether anything
// registers what it names is unknown then.
func (t *top) evaluated(ctx context.Context, s streams) (*classify.Report, error) {
	if len(t.observe.audit.paths) > 0 {
		evaluated, _, err := t.evaluateIfPossible(ctx, s)
		return evaluated, err
	}
	evaluated, _, err := t.evaluate(ctx, s)
	return evaluated, err
}
