package report

import (
	"bytes"
	"slices"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

var testChecks = []*classify.Check{reporttest.NoEndpoints, reporttest.CriticalResource, reporttest.BudgetExceeded}

func TestSARIFIsValid(t *testing.T) {
	for name, d := range map[string]Document{
		"findings": NewDocument(reporttest.Report()),
		"errors":   NewDocument(reporttest.Blind(reporttest.Report())),
		"nothing":  NewDocument(reporttest.Healthy()),
	} {
		text := reporttest.Rendered(t, func(b *bytes.Buffer) error { return WriteSARIF(b, d, "v1.2.3") })
		parsed, err := sarif.FromBytes(text, sarif.WithStrictValidation())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := parsed.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := newSARIF(d, testChecks, "").Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSARIF: rules, results with their levels and places, suppressions and what cannot be read.
func TestSARIF(t *testing.T) {
	d := NewDocument(reporttest.Blind(reporttest.Report()))
	golden.Compare(t, "report.sarif", reporttest.Rendered(t, func(b *bytes.Buffer) error { return newSARIF(d, testChecks, "v1.2.3").PrettyWrite(b) }))
	if rules := newSARIF(d, classify.Checks, "").Runs[0].Tool.Driver.Rules; len(rules) != len(classify.Checks) {
		t.Errorf("got %d rules, want one for each check", len(rules))
	}
}

func TestSARIFUnknownCheck(t *testing.T) {
	d := NewDocument(reporttest.Report())
	run := newSARIF(d, nil, "").Runs[0]
	if got := run.Results[0]; got.RuleIndex != -1 || *got.RuleID != reporttest.NoEndpoints.Name {
		t.Errorf("got rule %s at %d, want the name alone", *got.RuleID, got.RuleIndex)
	}
}

func TestArtifact(t *testing.T) {
	for file, want := range map[string]string{
		"deploy/policy.yaml":    "%SRCROOT%|deploy/policy.yaml",
		"./deploy/a b#c%d.yaml": "%SRCROOT%|deploy/a%20b%23c%25d.yaml",
		"a:b.yaml":              "%SRCROOT%|./a:b.yaml",
		"/srv/policy.yaml":      "|file:///srv/policy.yaml",
	} {
		location := artifact(file)
		base := ""
		if location.URIBaseID != nil {
			base = *location.URIBaseID
		}
		if got := base + "|" + *location.URI; got != want {
			t.Errorf("artifact(%q) is %s, want %s", file, got, want)
		}
	}
}

func fingerprints(d Document) []string {
	var out []string
	for _, r := range newSARIF(d, testChecks, "").Runs[0].Results {
		out = append(out, r.PartialFingerprints[fingerprintName])
	}
	return out
}

func TestFingerprints(t *testing.T) {
	before := fingerprints(NewDocument(reporttest.Report()))
	moved := reporttest.Report()
	for i := range moved.Findings {
		moved.Findings[i].Source.Line += 100
		moved.Findings[i].Message += ", still"
	}
	expect.Equal(t, before, fingerprints(NewDocument(moved)))
	distinct := slices.Compact(slices.Sorted(slices.Values(before)))
	if len(distinct) != len(before) {
		t.Errorf("findings share fingerprints: %q", before)
	}
	twice := NewDocument(reporttest.Report())
	twice.Findings = append(twice.Findings, twice.Findings[0])
	if got := fingerprints(twice); got[0] == got[len(got)-1] {
		t.Errorf("the same object in two files has one fingerprint: %q", got)
	}
}
