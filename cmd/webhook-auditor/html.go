package main

import (
	"context"
	"errors"
	"strings"

	"github.com/prometheus/common/version"
	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/page"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// htmlFormat is the output format that shows more than the findings.
const htmlFormat = "html"

// checkHTML refuses what the pages do not show.
func (a *audit) checkHTML() error {
	if a.output == htmlFormat && a.baseline != "" {
		return usageError{errors.New("-o html: must be given without --baseline: the pages show one report")}
	}
	return nil
}

// printHTML prints the pages of the webhooks that the document is about, and the
// errors on stderr.
func (a *audit) printHTML(ctx context.Context, r *classify.Report, d report.Document, s streams) error {
	if err := page.WriteFile(ctx, s.out, r, d.Shown(), pageOptions()); err != nil {
		return err
	}
	return printErrors(d.Errors, s)
}

func pageOptions() page.Options {
	return page.Options{Version: version.Version, Similar: arguments.Like, Explain: explainRequest}
}

// explainRequest answers a request that a form of the status page describes, as
// the command line would.
func explainRequest(m *admission.Matcher, q page.Request) (admission.Chain, error) {
	flags := pflag.NewFlagSet("explain", pflag.ContinueOnError)
	request := registerRequest(flags)
	var words []string
	for _, flag := range []struct{ name, value string }{{"namespace", q.Namespace}, {"labels", q.Labels}} {
		if flag.value != "" {
			words = append(words, "--"+flag.name+"="+flag.value)
		}
	}
	args := []string{q.Operation}
	if q.Object != "" {
		words = append(words, "--filename=-")
	}
	for _, arg := range []string{q.Resource, q.Name} {
		if arg != "" {
			args = append(args, arg)
		}
	}
	if err := flags.Parse(words); err != nil {
		return admission.Chain{}, err
	}
	arguments, err := request.read(args, streams{in: strings.NewReader(q.Object)})
	if err != nil {
		return admission.Chain{}, err
	}
	return arguments.chain(knowledge{Matcher: m})
}
