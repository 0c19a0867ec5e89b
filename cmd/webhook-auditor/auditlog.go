package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/observed"
)

// auditLogFlags say which audit logs are read.
type auditLogFlags struct {
	paths []string
	// requestID is the auditID of the event that is explained; "" for none.
	requestID string
}

func (a *auditLogFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&a.paths, "audit-log", nil, "audit log of an API server, with the requests that webhooks mutated, denied or failed: a file, .gz, archive, must-gather or directory, - for stdin; may be repeated")
}

// check refuses flags that do not go together; paths are other inputs.
func (a *auditLogFlags) check(paths []string) error {
	if slices.Contains(a.paths, "-") && slices.Contains(paths, "-") {
		return usageError{errors.New("--audit-log: must not read standard input as another input does")}
	}
	return exist(a.paths)
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
