package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// top are the flags of the command top.
type top struct {
	access       *clusterFlags
	input        *input
	observe      observeFlags
	output, sort string
	watch        bool
	namespace    namespaceFlags
}

func topCommand(s streams) *cobra.Command {
	t := &top{}
	c := &cobra.Command{
		Use:   "top",
		Short: "Show which webhooks cost most now, as the API servers measure it",
		Long: `Show which webhooks cost most now, as the API servers measure it.

Without --prometheus-url, the API servers' /metrics are scraped twice, some
seconds apart, which needs permission to get the nonResourceURL /metrics.
SHARE is a webhook's part of the time that all admission webhooks took.`,
		Example: `  # Show the webhooks that cost most in the next 10 seconds
  webhook-auditor top

  # Show the slowest webhooks of the last hour, of all API servers
  webhook-auditor top --prometheus-url https://prometheus.example.com --observe-for 1h --sort p99`,
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
	t.observe.register(groups.FlagSet("observation"))
	t.input = inputFlags(groups.FlagSet("input"))
	t.access = registerCluster(groups.FlagSet("cluster"))
	addFlags(c, &groups)
	t.access.completeContext(c)
	completeFlag(c, "namespace", candidates(t.access.namespaces).complete)
	return c
}

func (t *top) run(ctx context.Context, _ []string, s streams) error {
	if t.observe.prometheus.URL == "" {
		t.observe.source = "apiserver"
	}
	if err := errors.Join(oneOf("output", t.output, []string{"text", "json"}), oneOf("sort", t.sort, report.SortKeys), t.observe.check(nil)); err != nil {
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

// show prints one table.
func (t *top) show(ctx context.Context, s streams) error {
	policy, err := t.input.policy(ctx, s.err)
	if err != nil {
		return err
	}
	observed := t.observe.start(ctx, t.access, s)
	snapshot, err := t.access.read(ctx, t.input, s)
	if err != nil {
		return err
	}
	evaluated, err := policy.Evaluate(ctx, observed(snapshot))
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // the table would be of less than the span
	}
	table := report.NewTop(evaluated, t.sort)
	if selected := t.namespace.selected(); selected != "" {
		document := report.NewDocument(evaluated)
		selection := selection{namespace: selected}
		if err := selection.check(document, s.err); err != nil {
			return err
		}
		table = table.Select(selection.of(document))
	}
	if t.output == "json" {
		err = report.WriteTopJSON(s.out, table)
	} else {
		err = report.WriteTopText(s.out, table, textOptions(s.out))
	}
	return cmp.Or(err, printErrors(table.Errors, s))
}

// printErrors prints what cannot be read; the report is incomplete then.
func printErrors(list []report.Error, s streams) error {
	if len(list) == 0 {
		return nil
	}
	return cmp.Or(writeErrors(list, s), errIncomplete)
}
