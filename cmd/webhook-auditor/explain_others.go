package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/diagnose"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
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
	if unread != nil && (len(e.from) > 0 || ctx.Err() != nil) {
		return unread
	}
	if unread != nil { // the message alone says much, in the outage that it is about too
		nothing := inventory.Objects{Errors: []inventory.Error{{Object: "the cluster", Message: unread.Error() + "; the answer is from the message alone"}}}
		if evaluated, err = policy.Evaluate(ctx, nothing.Snapshot(time.Now())); err != nil {
			return err
		}
	}
	answers := make([]diagnose.Answer, len(found))
	for i, c := range found {
		answers[i] = diagnose.Explain(evaluated, c)
	}
	return printAnswer(e.output, report.NewDiagnosis(answers, evaluated.Snapshot), report.NewErrors(evaluated.Snapshot.Errors), s)
}

// apiServerErrors are the errors in the text of --error, or of standard input.
func (e *explain) apiServerErrors(s streams) ([]diagnose.APIServerError, error) {
	text := e.errorText
	if text == "-" {
		b, err := io.ReadAll(io.LimitReader(s.in, maxErrorText))
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

// explainAudited answers "explain --request-id": what the audit log records of a
// request, beside what is registered for it.
func (e *explain) explainAudited(ctx context.Context, s streams) error {
	snapshot, err := e.snapshot(ctx, s)
	if err != nil {
		return err
	}
	log := snapshot.AuditLog
	if log.Request == nil {
		return fmt.Errorf("explain: no event with the auditID %s in %s of %s: an API server returns it as the header Audit-ID, and names it in its own log",
			e.observe.audit.requestID, inventory.Counted(int(log.Lines), "line"), strings.Join(e.observe.audit.paths, ", "))
	}
	matcher := admission.New(snapshot)
	chain, err := audited(matcher, log.Request)
	if err != nil {
		return err
	}
	return printAnswer(e.output, report.NewAuditedRequest(log, chain), report.NewErrors(matcher.Snapshot.Errors), s)
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

// explainEach answers "explain --requests": what it asks is read once, however
// many requests there are. Each is answered as it comes, and one that cannot be
// understood spoils no other.
func (e *explain) explainEach(ctx context.Context, s streams) error {
	file, err := opened(e.requests, s)
	if err != nil {
		return usageError{fmt.Errorf("reading the requests %s: %w", e.requests, err)}
	}
	defer file.Close()
	snapshot, err := e.snapshot(ctx, s)
	if err != nil {
		return err
	}
	matcher := admission.New(snapshot)
	known := e.knowledge(ctx, matcher)
	total, refused := 0, 0
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, maxObject)
	for number := 1; scanner.Scan() && ctx.Err() == nil; number++ {
		words := strings.Fields(scanner.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		total++
		chain, err := explainLine(words, known)
		if err != nil {
			refused++
			complain(s.err, "%s:%d: %v", e.requests, number, err)
			continue
		}
		if e.output == "text" && total-refused > 1 {
			fmt.Fprintln(s.out)
		}
		explanation := report.NewExplanation(chain, snapshot)
		explanation.Line = number
		if err := show(e.output, explanation, s); err != nil {
			return err
		}
	}
	err = printErrors(report.NewErrors(matcher.Snapshot.Errors), s)
	switch {
	case scanner.Err() != nil:
		return fmt.Errorf("reading the requests: %s: %w", e.requests, scanner.Err())
	case total == 0:
		return usageError{fmt.Errorf("explain: --requests %s: must have a line with a request, for example: create pods -n default", e.requests)}
	case refused > 0:
		return usageError{fmt.Errorf("explain: %d of %d requests not understood", refused, total)}
	}
	return err
}

// explainLine answers a request that is written as on the command line.
func explainLine(words []string, known knowledge) (admission.Chain, error) {
	flags := pflag.NewFlagSet("explain", pflag.ContinueOnError)
	flags.Usage = func() {} // that of the command would not help
	request := registerRequest(flags)
	if err := flags.Parse(words); err != nil {
		return admission.Chain{}, fmt.Errorf("%w; a line takes -n, -l, -f and --api-version, the command line all else", err)
	}
	switch {
	case request.file == "" && flags.NArg() < 2:
		return admission.Chain{}, errors.New("must be OPERATION RESOURCE[/SUB] [NAME], for example: create pods -n default; or -f FILE")
	case request.file == "-":
		return admission.Chain{}, errors.New("-f: must be a file: standard input has the requests")
	}
	arguments, err := request.read(flags.Args(), streams{})
	if err != nil {
		return admission.Chain{}, err
	}
	return arguments.chain(known)
}
