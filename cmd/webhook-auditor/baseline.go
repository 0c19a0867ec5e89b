package main

import (
	"fmt"
	"io"
	"os"

	"github.com/prometheus/common/version"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// before reads the report that a change is measured against.
func (a *audit) before() (report.Document, error) {
	f, err := os.Open(a.baseline)
	if err != nil {
		return report.Document{}, usageError{fmt.Errorf("--baseline: %w", err)}
	}
	defer f.Close()
	d, err := report.ReadDocument(f)
	if err != nil {
		return report.Document{}, usageError{fmt.Errorf("--baseline %s: %w", a.baseline, err)}
	}
	return d, nil
}

// compare prints what the change adds and resolves; what it adds makes the exit
// code.
func (a *audit) compare(before, after report.Document, limit classify.Severity, s streams) error {
	c := report.NewComparison(before, after)
	if err := a.printComparison(c, limit, s); err != nil {
		return err
	}
	after.Findings = c.Added
	return exitStatus(after, limit)
}

// printComparison prints a comparison, and its errors on stderr.
func (a *audit) printComparison(c report.Comparison, limit classify.Severity, s streams) error {
	err := printAs(a.output, map[string]func(io.Writer, report.Comparison) error{
		"text":     asText(report.WriteComparisonText),
		"table":    asText(report.WriteComparisonTable),
		"json":     report.WriteJSON[report.Comparison],
		"markdown": report.WriteComparisonMarkdown,
		"sarif": func(w io.Writer, c report.Comparison) error {
			return report.WriteComparisonSARIF(w, c, version.Version)
		},
		"junit": func(w io.Writer, c report.Comparison) error {
			return report.WriteComparisonJUnit(w, c, limit)
		},
	}, c, s)
	if err != nil {
		return err
	}
	return writeErrors(c.Errors, s)
}
