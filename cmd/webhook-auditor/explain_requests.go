package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

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
func explainLine(words []string, knowledge knowledge) (admission.Chain, error) {
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
	return arguments.chain(knowledge)
}
