package report

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
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

func TestSARIFRules(t *testing.T) {
	text := reporttest.Rendered(t, func(b *bytes.Buffer) error { return WriteSARIF(b, NewDocument(reporttest.Healthy()), "v1.2.3") })
	parsed := must.Get(sarif.FromBytes(text))(t)
	if got := parsed.Runs[0].Tool.Driver.Version; got == nil || *got != "v1.2.3" {
		t.Errorf("the version of the program is %v", got)
	}
	rules := parsed.Runs[0].Tool.Driver.Rules
	if len(rules) != len(classify.Checks) {
		t.Fatalf("got %d rules, want one per check", len(rules))
	}
	for i, c := range classify.Checks {
		rule := rules[i]
		if *rule.ID != c.Name || *rule.ShortDescription.Text != c.Summary || *rule.HelpURI != RunbookURL(c.Name) ||
			*rule.Help.Markdown != cmp.Or(c.Runbook(), c.Summary) || rule.DefaultConfiguration.Level != sarifLevels[c.Severity] {
			t.Errorf("rule %d is %s, want all of check %s", i, *rule.ID, c.Name)
		}
	}
}

func TestSARIFResults(t *testing.T) {
	d := NewDocument(reporttest.Blind(reporttest.Report()))
	run := newSARIF(d, testChecks, "").Runs[0]
	for i, f := range d.Findings {
		result := run.Results[i]
		if *result.RuleID != f.Check || testChecks[result.RuleIndex].Name != f.Check {
			t.Errorf("result %d is of rule %s at %d, want %s", i, *result.RuleID, result.RuleIndex, f.Check)
		}
		if want := sarifLevels[f.Severity]; result.Level != want {
			t.Errorf("result %d has level %s, want %s", i, result.Level, want)
		}
		if got := *result.Message.Text; !strings.Contains(got, f.Name) || !strings.Contains(got, f.Message) || !strings.Contains(got, f.Fix) {
			t.Errorf("result %d says %q", i, got)
		}
		if got := len(result.Suppressions) > 0; got != f.Acknowledged {
			t.Errorf("result %d is suppressed: %v, want %v", i, got, f.Acknowledged)
		}
	}
	physical := run.Results[0].Locations[0].PhysicalLocation
	if *physical.ArtifactLocation.URI != "deploy/policy.yaml" || *physical.Region.StartLine != 7 {
		t.Errorf("got %+v, want deploy/policy.yaml:7", physical)
	}
	if got := run.Results[1].Locations[0]; got.PhysicalLocation != nil || *got.LogicalLocations[0].FullyQualifiedName != "conversion/widgets.example.com/widgets.example.com" {
		t.Errorf("got %+v, want the webhook of a cluster without a file", got)
	}
	if invocation := run.Invocations[0]; *invocation.ExecutionSuccessful || len(invocation.ToolExecutionNotifications) != 2 {
		t.Errorf("got %+v, want the errors", invocation)
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
