package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/diagnose"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

type explain struct {
	source
	request           *requestFlags
	errorText, output string
	// offline says not to read the object of a request.
	offline bool
	call    callFlags
}

func (e *explain) command(s streams) *cobra.Command {
	e.source = source{byUser: true, input: &input{}}
	c := &cobra.Command{
		Use:   "explain [OPERATION RESOURCE[/SUB] [NAME] | CHECK]",
		Short: "Show which webhooks a request meets, or what an error or a check means",
		Long: `Show which webhooks a request meets, in which order, and why the others are skipped.

OPERATION is create, update, patch, apply, scale, delete or connect; RESOURCE is
written as for kubectl: pods, deployments.apps, pods/exec. CHECK is one that audit
reports. With --error, show the meaning of an error that names a webhook, and how to
resolve it. With --audit-log and --request-id, show the result of one request beside
the webhooks that are registered for it.

Exit code: 0 answered, 1 some of the input cannot be read or the API server does
not serve the resource, 2 usage error.`,
		Example: `  # Show the webhooks that the creation of a Pod meets
  webhook-auditor explain create pods -n default

  # Show the webhooks that this very object meets
  webhook-auditor explain -f pod.yaml

  # Call these webhooks as dry runs, and show what each changes
  webhook-auditor explain -f pod.yaml --call

  # Print what a check means, and what to do
  webhook-auditor explain service-missing

  # Show the result of a request, by the header Audit-ID of its response
  webhook-auditor explain --audit-log audit.log --request-id 36dc0368-cf7d-4501-8574-813fbaa9df0d

  # Explain an error of kubectl, an Event or a log
  kubectl get events -A | webhook-auditor explain --error -`,
		RunE: running(s, e.run),
	}
	var groups cliflag.NamedFlagSets
	e.request = registerRequest(groups.FlagSet("request"))
	flags := groups.FlagSet("other subjects")
	flags.StringVar(&e.errorText, "error", "", "message of kubectl, an Event or a log about a webhook (- for stdin)")
	flags.StringVar(&e.observe.audit.requestID, "request-id", "", "with --audit-log, auditID of the request: show its result beside the webhooks that are registered for it")
	flags = groups.FlagSet("input")
	flags.StringArrayVar(&e.paths, "from", nil, "file, directory or archive to read instead of a cluster; may be repeated")
	flags.StringVar(&e.input.server, "server-version", "", serverVersionUsage)
	enumFlag(groups.FlagSet("output"), &e.output, "output", "o", "output format", []string{"text", "markdown", "json"})
	e.call.register(groups.FlagSet("calls"))
	e.observe.register(groups.FlagSet("observation"))
	e.observe.audit.register(groups.FlagSet("observation"))
	e.access = registerCluster(groups.FlagSet("cluster"))
	groups.FlagSet("cluster").BoolVar(&e.offline, "offline", false, "do not read the metadata of the object that a request changes or deletes: its labels, and whether it exists, are unknown then")
	addFlags(c, &groups)
	c.MarkFlagsMutuallyExclusive("error", "request-id")
	c.MarkFlagsRequiredTogether("audit-log", "request-id")
	c.ValidArgsFunction = completeOperation
	return c
}

func (e *explain) run(ctx context.Context, args []string, s streams) error {
	if err := errors.Join(e.observe.check(e.paths), e.checkCall(args)); err != nil {
		return err
	}
	if e.offline && len(e.paths) > 0 {
		return usageError{errors.New("--offline: must be given without files: they have no object to read")}
	}
	switch {
	case e.observe.audit.requestID+e.errorText == "":
	case len(args) > 0 || e.request.isGiven():
		return usageError{errors.New("explain: --error and --request-id: must be given without a request: neither OPERATION and RESOURCE nor flags of a request")}
	case e.observe.audit.requestID != "":
		return e.explainAudited(ctx, s)
	default:
		return e.diagnose(ctx, s)
	}
	if len(args) == 1 && !e.request.isGiven() {
		if check := classify.FindCheck(args[0]); check != nil {
			return e.explainCheck(ctx, check, s)
		}
		if near := arguments.Like(args[0], classify.CheckNames(classify.Checks)); len(near) > 0 {
			return usageError{fmt.Errorf("explain: no check is named %q%s", args[0], arguments.Suggested(near))}
		}
	}
	request, err := e.request.read(args, s)
	if err != nil {
		return err
	}
	snapshot, err := e.snapshot(ctx, s)
	if err != nil {
		return err
	}
	matcher := admission.New(snapshot)
	chain, err := request.chain(e.knowledge(ctx, matcher))
	if err != nil {
		return err
	}
	if e.call.call {
		answer, err := e.callChain(ctx, request, chain, matcher)
		if err != nil {
			return fmt.Errorf("explain: %w", err)
		}
		if e.call.ignore {
			answer = answer.WithIgnoreRules()
		}
		return printAnswer(e.output, answer, report.NewErrors(matcher.Snapshot.Errors), s)
	}
	return printAnswer(e.output, report.NewExplanation(chain, snapshot), report.NewErrors(matcher.Snapshot.Errors), s)
}

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
	answers := lists.Map(found, func(c diagnose.APIServerError) diagnose.Answer {
		if !isRead { // the message alone says much, in the outage that it is about too
			return diagnose.FromMessage(c)
		}
		return diagnose.Explain(evaluated, c)
	})
	diagnosis := report.NewDiagnosis(answers, evaluated.Snapshot)
	diagnosis.FromMessage = !isRead
	return printAnswer(e.output, diagnosis, report.NewErrors(evaluated.Snapshot.Errors), s)
}

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
			says += `; pass the complete message, as 'failed calling webhook "NAME": …'`
		}
		return nil, usageError{errors.New("explain: " + says)}
	}
	return found, nil
}

func checksCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "checks",
		Short: "List what audit looks for, a line for each check",
		Long: `List what audit looks for, a line for each check.

"webhook-auditor explain CHECK" prints the runbook of one.`,
		Example: `  # List all checks
  webhook-auditor checks

  # Print what a check means, and what to do
  webhook-auditor explain service-missing`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: running(s, func(_ context.Context, _ []string, s streams) error {
			t := &report.Table{Headings: []string{"Check", "Severity", "Summary"}, Cut: "Summary"}
			for _, c := range classify.Checks {
				t.Rows = append(t.Rows, []string{c.Name, c.Severity.String(), c.Summary})
			}
			return report.Blocks{{Table: t}}.WriteText(s.out, textOptions(s.out))
		}),
	}
}

// checkTimeout bounds how long a runbook waits for a cluster, which may be the one in trouble.
const checkTimeout = 20 * time.Second

// explainCheck prints the runbook of a check, with the names of a finding where a cluster
// or files have one.
func (e *explain) explainCheck(ctx context.Context, c *classify.Check, s streams) error {
	if c.OptIn {
		extended := *e.input // which calls of mcp share
		extended.checks = append(slices.Clone(extended.checks), c.Name)
		e.input = &extended
	}
	bounded, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	evaluated, _, err := e.evaluateIfPossible(bounded, s)
	if err != nil {
		return err
	}
	document := report.NewDocument(evaluated)
	return printAnswer(e.output, report.NewRunbook(c, document), document.Errors, s)
}
