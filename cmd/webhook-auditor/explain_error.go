package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
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
	evaluated, unread, err := e.evaluateIfPossible(ctx, s)
	if err != nil {
		return err
	}
	answers := make([]diagnose.Answer, len(found))
	if evaluated == nil { // the message alone says much, in the outage that it is about too
		for i, c := range found {
			answers[i] = diagnose.FromMessage(c)
		}
		diagnosis := report.NewDiagnosis(answers, inventory.Objects{}.Snapshot(time.Now()))
		diagnosis.FromMessage = true
		return printAnswer(e.output, diagnosis, unread, s)
	}
	for i, c := range found {
		answers[i] = diagnose.Explain(evaluated, c)
	}
	return printAnswer(e.output, report.NewDiagnosis(answers, evaluated.Snapshot), report.NewErrors(evaluated.Snapshot.Errors), s)
}

// evaluateIfPossible evaluates the files or the cluster for what has an answer without.
// The Report is nil where no cluster is configured, and where the one that is cannot be
// read, which the errors say.
func (e *explain) evaluateIfPossible(ctx context.Context, s streams) (*classify.Report, []report.Error, error) {
	policy, err := e.input.policy()
	if err != nil {
		return nil, nil, err
	}
	if len(e.paths) == 0 && !e.access.isConfigured() {
		return nil, nil, nil
	}
	evaluated, err := e.evaluate(ctx, policy, s)
	if err != nil && len(e.paths) == 0 && !errors.Is(ctx.Err(), context.Canceled) {
		return nil, report.NewErrors([]inventory.Error{{Object: "the cluster", Message: err.Error()}}), nil
	}
	return evaluated, nil, err
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
