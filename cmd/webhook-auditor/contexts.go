package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// isSeveral reports whether the output is that of several clusters.
func (a *clusterFlags) isSeveral() bool { return len(a.contextNames) > 1 }

// contextFormats are the formats of a report of several clusters.
var contextFormats = []string{"text", "table", "json"}

// checkContexts refuses what is about one cluster where several are to be read.
func (a *audit) checkContexts(paths []string) error {
	switch {
	case !a.access.isSeveral():
		return nil
	case slices.Contains(a.access.contextNames, ""):
		return usageError{errors.New("--context: must be names, with a comma between two")}
	case len(paths) > 0:
		return usageError{errors.New("--context: must be given without PATH: files are of no cluster")}
	case a.baseline != "" || a.observe.given():
		return usageError{errors.New("--context: must be given once with --baseline, --observe, --prometheus-url or --audit-log")}
	case !slices.Contains(contextFormats, a.output):
		return usageError{fmt.Errorf("--context: must be given once with -o %s: several are for %v", a.output, contextFormats)}
	}
	return nil
}

// contexts reports on one context after the other. One that cannot be read is an error of
// its Document.
func (a *audit) contexts(ctx context.Context, policy classify.Policy, s streams) ([]report.Document, error) {
	var out []report.Document
	for i, name := range a.access.contextNames {
		if slices.Contains(a.access.contextNames[:i], name) {
			continue
		}
		one, access := *a, *a.access
		one.access, access.contextNames = &access, []string{name}
		var document report.Document
		evaluated, err := one.evaluate(ctx, policy, s)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			document.Errors = []report.Error{{Message: err.Error()}}
		default:
			document = report.NewDocument(evaluated)
		}
		out = append(out, document.InContext(name))
	}
	return out, nil
}

// runContexts prints one report of all: a line for each finding and for each cluster, or JSON.
func (a *audit) runContexts(ctx context.Context, policy classify.Policy, selected selection, s streams) error {
	documents, err := a.contexts(ctx, policy, s)
	if err != nil {
		return err
	}
	if err := selected.check(report.Merge(documents), s.err); err != nil {
		return err
	}
	for i := range documents {
		documents[i] = selected.of(documents[i])
	}
	merged := report.Merge(documents)
	if a.output == "text" {
		a.output = "table"
	}
	if err := a.write(merged, s); err != nil {
		return err
	}
	if a.output == "table" {
		fmt.Fprintln(s.out)
		if err := (report.Blocks{{Table: merged.ByContext()}}).WriteText(s.out, textOptions(s.out)); err != nil {
			return err
		}
	}
	return cmp.Or(printErrors(merged.Errors, s), exitStatus(merged.Findings, a.failOn))
}
