package main

import (
	"context"
	"errors"

	"github.com/prometheus/common/version"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/page"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
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
	shown := map[inventory.Ref]bool{}
	for _, w := range d.Webhooks {
		shown[inventory.Ref{Type: w.Type, Configuration: w.Configuration, Name: w.Name}] = true
	}
	if err := page.WriteFile(ctx, s.out, r, func(ref inventory.Ref) bool { return shown[ref] }, pageOptions()); err != nil {
		return err
	}
	return printErrors(d.Errors, s)
}

func pageOptions() page.Options {
	return page.Options{Version: version.Version, Similar: suggestions}
}
