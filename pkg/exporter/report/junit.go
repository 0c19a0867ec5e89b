package report

import (
	"encoding/xml"
	"fmt"
	"io"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// junitSuites is a report in the XML of JUnit, as CI systems read it. Source:
// https://github.com/testmoapp/junitxml
type junitSuites struct {
	XMLName xml.Name   `xml:"testsuites"`
	Suite   junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	File    string        `xml:"file,attr,omitempty"`
	Line    int           `xml:"line,attr,omitempty"`
	Failure *junitOutcome `xml:"failure"`
	Error   *junitOutcome `xml:"error"`
	Skipped *junitOutcome `xml:"skipped"`
	Output  string        `xml:"system-out,omitempty"`
}

type junitOutcome struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes a test case for each finding, and one that passes for each
// webhook without findings. Findings at or above the limit fail, those below it
// pass with output; limit 0 fails none.
func WriteJUnit(w io.Writer, d Document, limit classify.Severity) error {
	suite := junitSuite{Name: "webhook-auditor"}
	found := map[inventory.Ref]bool{}
	for _, f := range d.Findings {
		found[f.ref()] = true
		suite.add(findingCase(f, limit))
	}
	for _, webhook := range d.Webhooks {
		if !found[webhook.ref()] {
			suite.add(junitCase{Class: class(webhook.ref()), Name: webhook.Name})
		}
	}
	for _, e := range d.Errors {
		suite.add(junitCase{Class: "errors", Name: clean(e.Source), Error: &junitOutcome{Message: clean(e.String())}})
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(junitSuites{Suite: suite}); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	return nil
}

// WriteComparisonJUnit writes what is added.
func WriteComparisonJUnit(w io.Writer, c Comparison, limit classify.Severity) error {
	return WriteJUnit(w, Document{Findings: c.Added, Errors: c.Errors}, limit)
}

func (s *junitSuite) add(c junitCase) {
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
	s.Cases = append(s.Cases, c)
}

func class(r inventory.Ref) string { return string(r.Type) + "/" + r.Configuration }

func findingCase(f Finding, limit classify.Severity) junitCase {
	c := junitCase{Class: class(f.ref()), Name: f.Name + ": " + f.Check, File: f.Source.File, Line: f.Source.Line}
	message := clean("webhook " + f.Name + " " + f.Message)
	switch {
	case f.Acknowledged:
		c.Skipped = &junitOutcome{Message: "acknowledged: " + message}
	case limit != 0 && f.Severity >= limit:
		c.Failure = &junitOutcome{Message: message, Type: f.Severity.String(), Text: f.Fix + "\n" + f.Runbook}
	default:
		c.Output = fmt.Sprintf("%s: %s\n%s\n%s", f.Severity, message, f.Fix, f.Runbook)
	}
	return c
}
