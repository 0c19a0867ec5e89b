package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// top are the flags of the command top.
type top struct {
	source
	output, sort string
	// by is what requests of audit logs are grouped by.
	by        string
	watch     bool
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
--by resource, user or namespace. ADDED is what slow requests waited for them.`,
		Example: `  # Show the webhooks that cost most in the next 10 seconds
  webhook-auditor top

  # Show the slowest webhooks of the last hour, of all API servers
  webhook-auditor top --prometheus-url https://prometheus.example.com --observe-for 1h --sort p99

  # Show the webhooks that cost most in several clusters, in one table
  webhook-auditor top --context staging,production

  # Show whose requests webhooks denied, as a must-gather records it
  webhook-auditor top --audit-log must-gather --from must-gather --by user --sort refused`,
		Args: noArguments,
		RunE: func(c *cobra.Command, args []string) error {
			err := running(s, t.run)(c, args)
			if t.watch && c.Context().Err() != nil {
				return nil // the user ends it so
			}
			return err
		},
	}
	var groups cliflag.NamedFlagSets
	flags := groups.FlagSet("output")
	enumFlag(flags, &t.output, enum{"output", "o", "output format", []string{"text", "json"}})
	enumFlag(flags, &t.sort, enum{"sort", "", "sort by this column", report.SortKeys})
	flags.BoolVarP(&t.watch, "watch", "w", false, "repeat until interrupted")
	t.namespace.register(flags, "show")
	enumFlag(flags, &t.by, enum{"by", "", "with --audit-log, group the requests", report.AuditDimensions})
	t.observe.registerSources(groups.FlagSet("observation"))
	groups.FlagSet("input").StringArrayVar(&t.from, "from", nil, "with --audit-log: file, directory or archive to read instead of a cluster; may be repeated")
	t.input = inputFlags(groups.FlagSet("input"))
	t.access = registerCluster(groups.FlagSet("cluster"))
	t.access.takeSeveral(groups.FlagSet("cluster"))
	addFlags(c, &groups)
	return c
}

func (t *top) run(ctx context.Context, _ []string, s streams) error {
	if !t.observe.given() {
		t.observe.source = "apiserver"
	}
	if err := errors.Join(oneOf("output", t.output, []string{"text", "json"}), oneOf("sort", t.sort, report.SortKeys), oneOf("by", t.by, report.AuditDimensions), t.observe.check(t.from), t.checkContexts(), t.checkAuditLog()); err != nil {
		return err
	}
	if !t.watch {
		return t.show(ctx, s)
	}
	first := true
	return repeat(ctx, min(t.observe.span, scrapeSpan), func() error {
		if !first && t.output == "text" {
			fmt.Fprintln(s.out)
		}
		first = false
		return t.show(ctx, s)
	})
}

// repeat shows until the context ends, once an interval at most. What is incomplete
// is shown again.
func repeat(ctx context.Context, interval time.Duration, show func() error) error {
	for {
		next := time.After(interval)
		if err := show(); err != nil && !errors.Is(err, errIncomplete) {
			return err
		}
		select {
		case <-next:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// checkContexts refuses one Prometheus for several clusters.
func (t *top) checkContexts() error {
	if t.access.isSeveral() && t.observe.prometheus.URL != "" {
		return usageError{errors.New("--prometheus-url: must be given with one --context: its series are taken for those of that cluster")}
	}
	return nil
}

// topOf is what was observed of one cluster, and its webhooks.
type topOf struct {
	top      report.Top
	document report.Document
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
	read := t.one
	if t.access.isSeveral() {
		read = t.each
	}
	found, err := read(ctx, policy, s)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // the table would be of less than the span
	}
	table := found.top
	if selected := t.namespace.selected(); selected != "" {
		selection := selection{namespace: selected}
		if err := selection.check(found.document, s.err); err != nil {
			return err
		}
		table = table.Select(selection.of(found.document))
	}
	return cmp.Or(show(t.output, table, s), printErrors(table.Errors, s))
}

// one observes one cluster.
func (t *top) one(ctx context.Context, policy classify.Policy, s streams) (topOf, error) {
	evaluated, err := t.evaluate(ctx, policy, s)
	if err != nil {
		return topOf{}, err
	}
	return topOf{report.NewTop(evaluated, t.sort), report.NewDocument(evaluated)}, nil
}

// each observes several clusters. One that cannot be read is an error of the table.
func (t *top) each(ctx context.Context, policy classify.Policy, s streams) (topOf, error) {
	names, err := t.access.several()
	if err != nil {
		return topOf{}, err
	}
	reads := contextRead[topOf]{names, contextLimit + t.observe.span, func(ctx context.Context, name string, s streams) (topOf, error) {
		one := *t
		one.access = t.access.in(name)
		return one.one(ctx, policy, s)
	}}
	var tops []report.Top
	var documents []report.Document
	for i, outcome := range reads.all(ctx, s) {
		if outcome.err != nil {
			outcome.value.top.Errors = []report.Error{{Message: outcome.err.Error()}}
		}
		tops = append(tops, outcome.value.top.InContext(names[i]))
		documents = append(documents, outcome.value.document.InContext(names[i]))
	}
	return topOf{report.MergeTops(tops, t.sort), report.Merge(documents)}, nil
}

// printErrors prints what cannot be read; the report is incomplete then.
func printErrors(list []report.Error, s streams) error {
	if len(list) == 0 {
		return nil
	}
	return cmp.Or(writeErrors(list, s), errIncomplete)
}
