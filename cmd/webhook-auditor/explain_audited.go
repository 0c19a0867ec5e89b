package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// explainAudited answers "explain --request-id": what the audit log records of a
// request, beside what is registered for it.
func (e *explain) explainAudited(ctx context.Context, s streams) error {
	snapshot, _, err := e.snapshotIfPossible(ctx, s)
	if err != nil {
		return err
	}
	log := snapshot.AuditLog
	if log.Request == nil {
		reasons := append([]string{"an API server returns it as the header Audit-ID, and names it in its own log"}, log.Breaks...)
		return fmt.Errorf("explain: no event with the auditID %s in %s of %s: %s", e.observe.audit.requestID,
			inventory.Counted(int(log.Lines), "line"), strings.Join(e.observe.audit.paths, ", "), strings.Join(reasons, "; "))
	}
	matcher := admission.New(snapshot)
	chain, err := audited(matcher, log.Request)
	if err != nil {
		return err
	}
	answer := report.NewAuditedRequest(snapshot, chain)
	if !textOptions(s.out).Verbose {
		answer = answer.WithoutValues()
	}
	return printAnswer(e.output, answer, report.NewErrors(matcher.Snapshot.Errors), s)
}

// audited is the chain of a request of the log. The stored object is of now, not of
// then, and is not asked for.
func audited(m *admission.Matcher, r *inventory.AuditRequest) (admission.Chain, error) {
	verb := strings.ToLower(r.Operation)
	if r.Verb == "patch" {
		verb = r.Verb
	}
	if !slices.Contains(arguments.Operations(), verb) {
		return admission.Chain{}, nil // a read, which meets no admission
	}
	a := requestArguments{operation: verb, resource: r.Resource.String(), subject: admission.Subject{
		Namespace: r.Namespace, Name: r.Name, Version: r.Version, Object: r.Object,
	}}
	return a.chain(knowledge{Matcher: m, user: admission.NewUser(r.User, nil)})
}
