package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// checkAuditLog refuses what is of measurements with audit logs, and the reverse.
func (t *top) checkAuditLog() error {
	logged := len(t.observe.audit.paths) > 0
	switch {
	case !logged && (t.by != report.AuditDimensions[0] || len(t.from) > 0):
		return usageError{errors.New("--by and --from: must be given with --audit-log: no metric has users or namespaces, and files no metrics")}
	}
	return nil
}

// showAuditLog prints the requests of the audit log.
func (t *top) showAuditLog(ctx context.Context, policy classify.Policy, s streams) error {
	evaluate := func() (*classify.Report, error) { return t.evaluate(ctx, policy, s) }
	if _, err := t.access.loader().ClientConfig(); len(t.from) == 0 && clientcmd.IsEmptyConfig(err) {
		// Whether anything registers what the log names is not known then.
		evaluate = func() (*classify.Report, error) {
			return policy.Evaluate(ctx, t.observe.audit.addTo(ctx, inventory.Objects{}.Snapshot(time.Now()), s))
		}
	}
	evaluated, err := evaluate()
	if err != nil {
		return err
	}
	table := report.NewAuditTop(evaluated, t.by, t.sort)
	if selected := t.namespace.selected(); selected != "" {
		document, selection := report.NewDocument(evaluated), selection{namespace: selected}
		if err := selection.check(document, s.err); err != nil {
			return err
		}
		table = table.Select(selection.of(document))
	}
	return cmp.Or(show(t.output, table, s), printErrors(table.Errors, s))
}
