package report

import (
	"bytes"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

func TestJSON(t *testing.T) {
	unsorted := reporttest.Blind(reporttest.Report())
	slices.Reverse(unsorted.Profiles)
	for name, r := range map[string]*classify.Report{
		"report.json": unsorted,
		"empty.json":  {Snapshot: &inventory.Snapshot{Taken: reporttest.Taken}},
	} {
		t.Run(name, func(t *testing.T) {
			got := reporttest.Rendered(t, func(b *bytes.Buffer) error { return WriteJSON(b, NewDocument(r)) })
			golden.Compare(t, name, got)
			if bytes.Contains(got, []byte("null")) {
				t.Errorf("got null, want empty lists:\n%s", got)
			}
		})
	}
}

func TestReadDocument(t *testing.T) {
	want := NewDocument(reporttest.Blind(reporttest.Report()))
	got := must.Get(ReadDocument(bytes.NewReader(reporttest.Rendered(t, func(b *bytes.Buffer) error { return WriteJSON(b, want) }))))(t)
	for _, w := range got.Webhooks {
		maps.DeleteFunc(w.Reach, func(_ classify.Class, r []inventory.Resource) bool { return len(r) == 0 })
	}
	expect.Equal(t, want, got, cmpopts.EquateEmpty())
}

func TestReadDocumentRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ input, want string }{
		"something else": {"kind: List", "audit -o json"},
		"truncated":      {`{"version":"v2","findings":[{"check":`, "audit -o json"},
		"empty":          {"", "audit -o json"},
		"later version":  {`{"version":"v3"}`, `version is "v3"`},
		"no version":     {`{}`, `version is ""`},
		"severity":       {`{"version":"v1","findings":[{"severity":"fatal"}]}`, "must be one of info, warning, critical"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadDocument(strings.NewReader(tc.input))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestErrorsKeepTheirPlace(t *testing.T) {
	file := inventory.Source{File: "x.yaml", Line: 3}
	for want, failure := range map[string]inventory.Error{
		"x.yaml:3: Service/a: unknown field": {Source: file, Object: "Service/a", Message: "unknown field"},
		"x.yaml:3: truncated":                {Source: file, Object: "x.yaml", Message: "truncated"},
		"x.tar.gz: truncated":                {Source: inventory.Source{File: "x.tar.gz"}, Message: "truncated"},
		"services: forbidden":                {Object: "services", Message: "forbidden"},
		"out of memory":                      {Message: "out of memory"},
	} {
		if got := newError(failure); got.String() != want || got.Line != failure.Source.Line {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestSelect(t *testing.T) {
	r := reporttest.Blind(reporttest.Report())
	d := NewDocument(r)
	expect.Equal(t, d, d.Select(r, func(Webhook) bool { return true })) // selecting all changes nothing
	narrow := d.Select(r, func(w Webhook) bool { return w.Configuration == "policy" })
	if narrow.Totals != (Totals{Webhooks: 2, Findings: FindingTotals{Critical: 1, Warning: 1, Info: 1}}) || len(narrow.Webhooks) != 2 || len(narrow.Findings) != 4 {
		t.Errorf("totals %+v of %d webhooks and %d findings", narrow.Totals, len(narrow.Webhooks), len(narrow.Findings))
	}
	expect.Equal(t, len(d.Errors), len(narrow.Errors))
	if none := d.Select(r, func(Webhook) bool { return false }); none.Webhooks == nil || none.Findings == nil || none.Totals != (Totals{}) {
		t.Errorf("got %+v", none)
	}
}

// TestSelectOfTop: what is not of the Document leaves, whether it was called or not.
func TestSelectOfTop(t *testing.T) {
	r := observedReport(observation())
	top := NewTop(r, "share").Select(NewDocument(r).Select(r, func(w Webhook) bool { return w.Name == "idle" }))
	if len(top.Webhooks) != 0 || len(top.NotCalled) != 1 || top.NotCalled[0].Name != "idle" {
		t.Errorf("called %v, not called %v", top.Webhooks, top.NotCalled)
	}
}

// TestPrintPolicy: the last block of YAML is the default.
func TestPrintPolicy(t *testing.T) {
	text := string(reporttest.Rendered(t, func(b *bytes.Buffer) error { return WritePolicy(b) }))
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1)
	last, err := classify.ParsePolicy([]byte(blocks[len(blocks)-1][1]))
	if diff := cmp.Diff(classify.DefaultPolicy(), last, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("-default +documented: %v\n%s", err, diff)
	}
}

// TestInputsInAllForms: each form of a report names what it was made from,
// and as of when it is evaluated.
func TestInputsInAllForms(t *testing.T) {
	d := NewDocument(reporttest.Gathered(reporttest.Healthy()))
	c := NewComparison(d, d)
	for name, write := range map[string]func(io.Writer) error{
		"text":                 func(w io.Writer) error { return Write(w, "text", d, TextOptions{Verbose: true}) },
		"markdown":             func(w io.Writer) error { return Write(w, "markdown", d, TextOptions{}) },
		"JSON":                 func(w io.Writer) error { return WriteJSON(w, d) },
		"SARIF":                func(w io.Writer) error { return WriteSARIF(w, d, "v1.2.3") },
		"comparison, text":     func(w io.Writer) error { return Write(w, "text", c, TextOptions{Verbose: true}) },
		"comparison, markdown": func(w io.Writer) error { return Write(w, "markdown", c, TextOptions{}) },
		"comparison, JSON":     func(w io.Writer) error { return WriteJSON(w, c) },
		"comparison, SARIF":    func(w io.Writer) error { return WriteSARIF(w, c.Document(), "") },
	} {
		t.Run(name, func(t *testing.T) {
			text := string(reporttest.Rendered(t, func(b *bytes.Buffer) error { return write(b) }))
			expect.Contains(t, text, "must-gather (archive)", "2026-11-21T03:00:00Z", "ackends are unknown")
			if strings.Contains(text, "\x1b") {
				t.Errorf("it has a terminal's control characters:\n%s", text)
			}
		})
	}
}

// TestLacking: what one of several inputs holds is not lacking.
func TestLacking(t *testing.T) {
	hooks := inventory.Input{Objects: 1, Lacks: []string{"no Services: backends are unknown", "no EndpointSlices: endpoints are unknown"}}
	services := inventory.Input{Objects: 1, Lacks: []string{"no webhook configurations: x", "no EndpointSlices: endpoints are unknown"}}
	empty := inventory.Input{Lacks: []string{"no webhook configurations, CRDs or related objects found"}}
	for want, inputs := range map[string][]inventory.Input{
		"EndpointSlices, Services": {hooks}, "EndpointSlices": {hooks, empty, services},
		"webhook configurations, CRDs or related objects": {empty}, "": nil,
	} {
		if got := strings.Join(commonLacks(inputs), ", "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

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
