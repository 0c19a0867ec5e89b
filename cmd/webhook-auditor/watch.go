package main

import (
	"context"
	"errors"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster"
)

// watchDebounce is the minimum time between two reports of audit --watch: a
// rollout changes endpoints several times a second.
const watchDebounce = time.Second

// reportWatch prints the report of a cluster, and then what each change adds and
// resolves.
type reportWatch struct {
	audit    *audit
	policy   classify.Policy
	selected selection
	limit    classify.Severity
	// last is the last report; nil before the first one.
	last *report.Document
}

// checkWatch refuses flags and arguments that --watch cannot follow.
func (a *audit) checkWatch(paths []string) error {
	switch {
	case !a.watch:
		return nil
	case len(paths) > 0:
		return usageError{errors.New("--watch: must be given without a PATH: files are read once")}
	}
	return oneOf("output", a.output, []string{"text", "table", "json", "markdown"})
}

// run prints until the context ends; the exit code is that of the last report.
func (w *reportWatch) run(ctx context.Context, s streams) error {
	c, err := w.audit.access.connect(ctx, s)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	publish := func(m *admission.Matcher) {
		if err := w.publish(ctx, m, s); err != nil {
			stop(err)
		}
	}
	err = cluster.Watch(ctx, c.clients, cluster.Options{Debounce: watchDebounce, Routing: c.routing, NamespaceLabels: w.policy.NamespaceLabels}, publish)
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	if w.last == nil {
		return err
	}
	return exitStatus(*w.last, w.limit)
}

// publish prints the first report, and later ones where they differ.
func (w *reportWatch) publish(ctx context.Context, m *admission.Matcher, s streams) error {
	evaluated, err := classify.NewEvaluator(w.policy).Evaluate(ctx, m)
	if err != nil {
		return err
	}
	document := report.NewDocument(evaluated)
	if w.last == nil {
		if err := w.selected.check(document, s.err); err != nil {
			return err
		}
	}
	document = w.selected.of(document)
	last := w.last
	w.last = &document
	if last == nil {
		return w.audit.print(document, w.limit, s)
	}
	change := report.NewComparison(*last, document)
	if len(change.Added)+len(change.Resolved) == 0 {
		return nil
	}
	return w.audit.printComparison(change, w.limit, s)
}
