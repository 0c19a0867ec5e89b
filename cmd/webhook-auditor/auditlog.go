package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/observed"
)

type auditLogFlags struct {
	paths []string
	// requestID is the auditID of the event that is explained; "" for none.
	requestID string
}

func (a *auditLogFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&a.paths, "audit-log", nil, "audit log of an API server, with the requests that webhooks mutated, denied or failed: a file, .gz, archive, must-gather or directory, - for stdin; may be repeated")
}

// addTo returns the Snapshot with what the logs record, and why some cannot be read.
func (a *auditLogFlags) addTo(ctx context.Context, snapshot *inventory.Snapshot, s streams) *inventory.Snapshot {
	if len(a.paths) == 0 {
		return snapshot
	}
	line := newProgress(s.err)
	defer line.clear()
	logs := observed.AuditLogs{Paths: a.paths, Stdin: s.reader, RequestID: a.requestID, Progress: func(bytes int64) {
		line.show("reading the audit log: %d MiB", bytes>>20)
	}}
	out := *snapshot
	log, errs := logs.Read(ctx)
	out.AuditLog, out.Errors = log, slices.Concat(snapshot.Errors, errs)
	return &out
}

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
		if log.IsUnanswered {
			reasons[0] = "the request is there, and its answer is not: it hangs, or the answer is in another file"
		}
		return fmt.Errorf("explain: no answer to a request with the auditID %s in %s of %s: %s", e.observe.audit.requestID,
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
	if !slices.Contains(arguments.Operations(), verb) {
		return admission.Chain{}, nil // a read, which meets no admission
	}
	a := requestArguments{operation: verb, resource: r.Resource.String(), subject: admission.Subject{
		Namespace: r.Namespace, Name: r.Name, Version: r.Version, Object: r.Object,
	}}
	return a.chain(knowledge{Matcher: m, user: admission.NewUser(r.User, nil)})
}
