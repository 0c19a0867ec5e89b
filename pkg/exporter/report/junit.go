package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
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
	Name       string           `xml:"name,attr"`
	Tests      int              `xml:"tests,attr"`
	Failures   int              `xml:"failures,attr"`
	Errors     int              `xml:"errors,attr"`
	Skipped    int              `xml:"skipped,attr"`
	Properties *junitProperties `xml:"properties"`
	Cases      []junitCase      `xml:"testcase"`
}

type junitCase struct {
	Class      string           `xml:"classname,attr"`
	Name       string           `xml:"name,attr"`
	File       string           `xml:"file,attr,omitempty"`
	Line       int              `xml:"line,attr,omitempty"`
	Properties *junitProperties `xml:"properties"`
	Failure    *junitOutcome    `xml:"failure"`
	Error      *junitOutcome    `xml:"error"`
	Skipped    *junitOutcome    `xml:"skipped"`
	Output     string           `xml:"system-out,omitempty"`
}

type junitProperties struct {
	List []junitProperty `xml:"property"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
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
	if d.Observed != nil {
		suite.Properties = &junitProperties{[]junitProperty{{"observed", text.Clean(d.Observed.sourceLine())}}}
	}
	found, observed := map[inventory.Ref]bool{}, d.observed()
	for _, f := range d.Findings {
		found[f.Ref] = true
		c := findingCase(f, limit)
		c.Properties = observed[f.Ref].properties()
		suite.add(c)
	}
	for _, webhook := range d.Webhooks {
		if !found[webhook.Ref] {
			suite.add(junitCase{Class: class(webhook.Ref), Name: webhook.Name, Properties: webhook.Observed.properties()})
		}
	}
	for _, e := range d.Errors {
		suite.add(junitCase{Class: "errors", Name: text.Clean(e.Source), Error: &junitOutcome{Message: text.Clean(e.String())}})
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	err := writeEscaped(w, xmlEscape, func(w io.Writer) error {
		encoder := xml.NewEncoder(w)
		encoder.Indent("", "  ")
		return encoder.Encode(junitSuites{Suite: suite})
	})
	if err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	return nil
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

// properties are the measured values under the names that they have in JSON; nil
// without a source.
func (o *Observed) properties() *junitProperties {
	if o == nil {
		return nil
	}
	out := &junitProperties{}
	for _, p := range []struct {
		name  string
		value *float64
	}{{"callsPerSecond", &o.CallsPerSecond}, {"p50Seconds", o.P50Seconds}, {"p99Seconds", o.P99Seconds}, {"failing", &o.Failing}, {"refused", &o.Refused}, {"share", &o.Share}} {
		if p.value != nil {
			out.List = append(out.List, junitProperty{"observed." + p.name, strconv.FormatFloat(*p.value, 'g', 6, 64)})
		}
	}
	return out
}

func class(r inventory.Ref) string { return r.Type.Title() + "/" + r.Configuration }

func findingCase(f Finding, limit classify.Severity) junitCase {
	c := junitCase{Class: class(f.Ref), Name: f.Name + ": " + f.Check, File: f.Source.File, Line: f.Source.Line}
	message := text.Clean(f.Type.Noun() + " " + f.Name + " " + f.Message)
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
