package main

import (
	"errors"
	"strings"

	"github.com/prometheus/common/version"
	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/page"
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

func pageOptions() page.Options {
	return page.Options{Version: version.Version, Explain: explainRequest}
}

// explainRequest answers a request that a user puts into the box of the status page, as
// the command line would. It reads no file: those here are not the user's.
func explainRequest(m *admission.Matcher, q page.Request) (admission.Chain, error) {
	flags := pflag.NewFlagSet("explain", pflag.ContinueOnError)
	request := registerRequest(flags)
	if err := flags.Parse(q.Words); err != nil {
		return admission.Chain{}, err
	}
	if request.file != "" {
		return admission.Chain{}, errors.New("-f: the status page reads no files: paste the object")
	}
	if q.Object != "" {
		request.file = "-"
	}
	arguments, err := request.read(flags.Args(), streams{in: strings.NewReader(q.Object)})
	if err != nil {
		return admission.Chain{}, err
	}
	return arguments.chain(knowledge{Matcher: m})
}
