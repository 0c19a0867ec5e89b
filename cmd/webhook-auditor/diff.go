package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

type diff struct {
	source
	output, failOn string
}

func diffCommand(s streams) *cobra.Command {
	d := &diff{}
	c := &cobra.Command{
		Use:   "diff [OLD] NEW",
		Short: "Show which requests a change of webhook configurations affects, and which findings it adds",
		Long: `Show the effect of changed webhook configurations, and of CRDs with a conversion
webhook. For each webhook: the resources and operations that it matches now or no
longer, the effect of each changed field, and its failure policy. Then how long
webhooks can hold up requests for critical resources, who wrote the object, and the
findings that are added or resolved. Changed selectors and matchConditions are
printed; the requests that they include are not compared. Admission policies that
differ are named with the fields; neither their requests nor expressions are compared.

OLD and NEW are files, directories or archives as for audit. Without OLD, the
cluster of the kubeconfig, or that of --from, is compared with its state
once NEW is applied.

Exit code: 0 nothing added at or above --fail-on, 1 some of the input cannot be
read, 2 usage error, 3 findings added at or above --fail-on.`,
		Example: `  # What will a chart change in this cluster?
  helm template policy | webhook-auditor diff -

  # What does this change of manifests do?
  webhook-auditor diff before/manifests manifests

  # What will this upgrade of a chart do, for a pull request?
  helm template policy --version 2.0.0 | webhook-auditor diff rendered-1.9.0.yaml - -o markdown

  # What happened between two must-gathers?
  webhook-auditor diff monday.tar.gz tuesday.tar.gz`,
		RunE: running(s, d.run),
	}
	var groups cliflag.NamedFlagSets
	flags := groups.FlagSet("output")
	enumFlag(flags, &d.output, "output", "o", "output format", impactFormats)
	failOn(flags, &d.failOn, "if findings of this severity or higher are added")
	flags = groups.FlagSet("input")
	flags.StringArrayVar(&d.paths, "from", nil, "file, directory or archive to read instead of a cluster, without OLD; may be repeated")
	d.input = inputFlags(flags)
	d.input.allowEmptyFlag(flags)
	d.access = registerCluster(groups.FlagSet("cluster"))
	addFlags(c, &groups)
	return c
}

func (d *diff) run(ctx context.Context, args []string, s streams) error {
	if err := d.checkArguments(args); err != nil {
		return err
	}
	policy, err := d.input.policy()
	if err != nil {
		return err
	}
	snapshots, err := d.snapshots(ctx, args, s)
	if err != nil {
		return err
	}
	reports := map[*inventory.Snapshot]*classify.Report{}
	for _, snapshot := range snapshots {
		if reports[snapshot] != nil { // of what is applied, nothing is lacking
			continue
		}
		if reports[snapshot], err = policy.Evaluate(ctx, snapshot); err != nil {
			return err
		}
	}
	before, after := reports[snapshots[0]], reports[snapshots[1]]
	changes := report.NewChanges(before, after, reports[snapshots[2]], impact.Compare(before, after))
	return cmp.Or(printAnswer(d.output, changes, changes.Errors, s), exitStatus(changes.Added, d.failOn))
}

func (d *diff) checkArguments(args []string) error {
	switch {
	case len(args) != 1 && len(args) != 2:
		return usageError{fmt.Errorf("diff: must be given [OLD] NEW, not %d paths", len(args))}
	case len(args) == 2 && len(d.paths) > 0:
		return usageError{errors.New("diff: --from must be given without OLD")}
	}
	return exist(append(args, d.paths...))
}

// snapshots are those before and after the change: of OLD and NEW, or of the cluster
// and what it will be; and that of NEW with what it lacks as OLD has it.
func (d *diff) snapshots(ctx context.Context, args []string, s streams) (out [3]*inventory.Snapshot, err error) {
	paths := args[len(args)-1:]
	updated, err := d.input.objects(paths, s)
	if err != nil {
		return out, err
	}
	alone := len(args) == 2
	later := collected(updated.Inputs, time.Now())
	after := updated.Snapshot(later)
	// What is applied to a cluster may be without webhooks, but it is something.
	if alone || !slices.ContainsFunc(updated.Inputs, func(input inventory.Input) bool { return input.Objects > 0 }) {
		if err := d.checkRead(paths, after, s); err != nil {
			return out, err
		}
	}
	if alone {
		d.paths = args[:1]
	}
	d.applied = &updated
	old, err := d.objects(ctx, s)
	if err != nil && !alone && len(d.paths) == 0 {
		return out, fmt.Errorf("diff: what is given alone is compared with a cluster: %w", err)
	}
	if err != nil {
		return out, err
	}
	now := collected(old.Inputs, time.Now())
	before := old.Snapshot(now)
	if alone {
		out = [3]*inventory.Snapshot{before, after, updated.CompletedBy(old).Snapshot(later)}
		return out, d.checkRead(args[:1], before, s)
	}
	applied := old.Apply(updated).Snapshot(now)
	return [3]*inventory.Snapshot{before, applied, applied}, nil
}

// checkRead refuses what a command that failed may have left of OLD or NEW: it would pass
// for a change that adds or removes all webhooks.
func (d *diff) checkRead(paths []string, read *inventory.Snapshot, s streams) error {
	if isEmpty(read) && len(read.Errors) > 0 {
		return printErrors(report.NewErrors(read.Errors), s)
	}
	return d.input.checkRead(paths, read)
}
