package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// contextNames is the flag --context. Commands that read one cluster take the last,
// as kubectl does.
type contextNames struct{ *clusterFlags }

// String returns the default: that of the kubeconfig.
func (contextNames) String() string { return "" }

// Set adds a context.
func (c contextNames) Set(name string) error {
	c.contextNames = append(c.contextNames, name)
	c.overrides.CurrentContext = name
	return nil
}

// Type is the type as help prints it.
func (contextNames) Type() string { return "string" }

// in returns the flags for one of the contexts.
func (a *clusterFlags) in(name string) *clusterFlags {
	one := *a
	one.overrides.CurrentContext, one.contextNames = name, []string{name}
	return &one
}

// contextFormats are the formats of a report of several clusters.
var contextFormats = []string{"text", "table", "wide", "json"}

// checkContexts refuses what is about one cluster where several are to be read.
func (a *audit) checkContexts(paths []string) error {
	switch {
	case len(a.access.contextNames) < 2:
		return nil
	case len(paths) > 0:
		return usageError{errors.New("--context: must be given without PATH: files are of no cluster")}
	case a.watch || a.baseline != "" || a.observe.enabled():
		return usageError{errors.New("--context: must be given once with --watch, --baseline, --observe or --prometheus-url")}
	case !slices.Contains(contextFormats, a.output):
		return usageError{fmt.Errorf("--context: must be given once with -o %s: several are for %v", a.output, contextFormats)}
	}
	return nil
}

// contextsReport reports on several clusters.
type contextsReport struct {
	*audit
	policy   classify.Policy
	selected selection
	limit    classify.Severity
}

// documents are those of the clusters, which are read one after the other. One that
// cannot be read is an error of its document.
func (a *contextsReport) documents(ctx context.Context, s streams) ([]report.Document, error) {
	var documents []report.Document
	for _, name := range a.access.contextNames {
		one := *a.audit
		one.access = a.access.in(name)
		_, document, err := one.evaluate(ctx, nil, a.policy, s)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			document = report.Document{Errors: []report.Error{{Message: err.Error()}}}
		}
		documents = append(documents, document.InContext(name))
	}
	if err := a.selected.check(report.Merge(documents), s.err); err != nil {
		return nil, err
	}
	for i := range documents {
		documents[i] = a.selected.of(documents[i])
	}
	return documents, nil
}

// run prints one report of all; as text, one below the other.
func (a *contextsReport) run(ctx context.Context, s streams) error {
	documents, err := a.documents(ctx, s)
	if err != nil {
		return err
	}
	merged := report.Merge(documents)
	if a.output != "text" {
		documents = []report.Document{merged}
	}
	for i, d := range documents {
		if a.output == "text" {
			fmt.Fprintf(s.out, "Context %s:\n\n", a.access.contextNames[i])
		}
		if err := a.print(d, a.limit, s); err != nil {
			return err
		}
		if i < len(documents)-1 {
			fmt.Fprintln(s.out)
		}
	}
	return exitStatus(merged, a.limit)
}
