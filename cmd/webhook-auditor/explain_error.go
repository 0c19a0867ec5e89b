package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify/diagnose"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// maxErrorText bounds what is read of a log.
const maxErrorText = 16 << 20

// diagnose answers "explain --error": what happened, to which webhook, and the
// way out.
func (e *explain) diagnose(ctx context.Context, s streams) error {
	found, err := e.apiServerErrors(s)
	if err != nil {
		return err
	}
	policy, err := e.input.policy()
	if err != nil {
		return err
	}
	evaluated, unread := e.evaluate(ctx, policy, s)
	if unread != nil && (len(e.paths) > 0 || ctx.Err() != nil) {
		return unread
	}
	if unread != nil { // the message alone says much, in the outage that it is about too
		return e.fromMessage(found, unread, s)
	}
	answers := make([]diagnose.Answer, len(found))
	for i, c := range found {
		answers[i] = diagnose.Explain(evaluated, c)
	}
	return printAnswer(e.output, report.NewDiagnosis(answers, evaluated.Snapshot), report.NewErrors(evaluated.Snapshot.Errors), s)
}

// fromMessage answers where no cluster can be read, which is no error where none is configured.
func (e *explain) fromMessage(found []diagnose.APIServerError, unread error, s streams) error {
	answers := make([]diagnose.Answer, len(found))
	for i, c := range found {
		answers[i] = diagnose.FromMessage(c)
	}
	var errs []report.Error
	if _, err := e.access.loader().ClientConfig(); !clientcmd.IsEmptyConfig(err) {
		errs = report.NewErrors([]inventory.Error{{Object: "the cluster", Message: unread.Error()}})
	}
	diagnosis := report.NewDiagnosis(answers, inventory.Objects{}.Snapshot(time.Now()))
	diagnosis.FromMessage = true
	return printAnswer(e.output, diagnosis, errs, s)
}

// apiServerErrors are the errors in the text of --error, or of standard input.
func (e *explain) apiServerErrors(s streams) ([]diagnose.APIServerError, error) {
	text := e.errorText
	if text == "-" {
		b, err := io.ReadAll(io.LimitReader(s.reader, maxErrorText))
		if err != nil {
			return nil, fmt.Errorf("reading the error: %w", err)
		}
		text = string(b)
	}
	found := diagnose.Parse(text)
	if len(found) == 0 {
		says := diagnose.Unrecognized(text)
		if !strings.HasSuffix(says, "no webhook did") {
			says += `; pass the complete message in single quotes, as 'failed calling webhook "NAME": …', or - for stdin`
		}
		return nil, usageError{errors.New("explain --error: " + says)}
	}
	return found, nil
}
