package main

import (
	"fmt"
	"io"
	"os"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
)

// before reads the report that a change is measured against.
func (a *audit) before() (exporter.Document, error) {
	f, err := os.Open(a.baseline)
	if err != nil {
		return exporter.Document{}, usageError{fmt.Errorf("--baseline: %w", err)}
	}
	defer f.Close()
	d, err := exporter.ReadDocument(f)
	if err != nil {
		return exporter.Document{}, usageError{fmt.Errorf("--baseline %s: %w", a.baseline, err)}
	}
	return d, nil
}

// compare prints what the change adds and mends; what it adds is judged.
func (a *audit) compare(before, after exporter.Document, limit classify.Severity, s streams) error {
	c := exporter.NewComparison(before, after)
	if err := comparisonWriters()[a.output](s.out, c); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if err := exporter.WriteErrors(s.err, after, textOptions(s.err)); err != nil {
		return fmt.Errorf("writing the errors: %w", err)
	}
	after.Findings = c.Added
	return verdict(after, limit)
}

// comparisonWriters are the forms of a comparison: those of the report.
func comparisonWriters() map[string]func(io.Writer, exporter.Comparison) error {
	return map[string]func(io.Writer, exporter.Comparison) error{
		"text": func(w io.Writer, c exporter.Comparison) error {
			return exporter.WriteComparisonText(w, c, textOptions(w))
		},
		"json":     exporter.WriteComparisonJSON,
		"markdown": exporter.WriteComparisonMarkdown,
		"sarif":    exporter.WriteComparisonSARIF,
	}
}
