package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify/diagnose"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
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
	evaluated, isRead, err := e.evaluateIfPossible(ctx, s)
	if err != nil {
		return err
	}
	answers := make([]diagnose.Answer, len(found))
	if !isRead { // the message alone says much, in the outage that it is about too
		for i, c := range found {
			answers[i] = diagnose.FromMessage(c)
		}
		diagnosis := report.NewDiagnosis(answers, evaluated.Snapshot)
		diagnosis.FromMessage = true
		return printAnswer(e.output, diagnosis, report.NewErrors(evaluated.Snapshot.Errors), s)
	}
	for i, c := range found {
		answers[i] = diagnose.Explain(evaluated, c)
	}
	return printAnswer(e.output, report.NewDiagnosis(answers, evaluated.Snapshot),
		report.NewErrors(evaluated.Snapshot.Errors), s)
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
		if strings.HasPrefix(says, diagnose.NotRecognized) {
			says += `; pass the complete message in single quotes, as 'failed calling webhook "NAME": …', or - for stdin`
		}
		return nil, usageError{errors.New("explain --error: " + says)}
	}
	return found, nil
}
