package main

import (
	"fmt"
	"os"

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
	if err := a.printComparison(c, s); err != nil {
		return err
	}
	after.Findings = c.Added
	return exitStatus(after, limit)
}

// printComparison prints a comparison, and its errors on stderr.
func (a *audit) printComparison(c report.Comparison, s streams) error {
	var err error
	if a.output == "sarif" {
		err = a.write(c.Document(), s)
	} else {
		err = show(a.output, c, s)
	}
	if err != nil {
		return err
	}
	return writeErrors(c.Errors, s)
}
