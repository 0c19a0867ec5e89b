package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// observedReport has a webhook that was called, one that was not, and one that
// nothing registers and that calls itself something hostile.
func observedReport(o *inventory.Observation) *classify.Report {
	profile := func(name string) *classify.Profile {
		w := &inventory.Webhook{Registration: inventory.Registration{Ref: inventory.Ref{Type: inventory.Validating, Configuration: "policy", Name: name}}}
		return &classify.Profile{Webhook: w, Threshold: 0.5}
	}
	s := &inventory.Snapshot{Taken: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Observed: o}
	r := &classify.Report{Snapshot: s, Profiles: []*classify.Profile{profile("busy"), profile("idle")}}
	for _, p := range r.Profiles {
		s.Webhooks = append(s.Webhooks, p.Webhook)
	}
	return r
}

func observation() *inventory.Observation {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &inventory.Observation{
		Source: "apiserver", OfServers: 3, Seconds: 10,
		Servers: []inventory.ObservedServer{{Address: "10.0.0.1:6443", From: from, To: from.Add(10 * time.Second)}},
		Webhooks: map[inventory.Series]inventory.Behavior{
			{Type: inventory.Validating, Name: "busy"}: {
				Calls: 120, CallsPerSecond: 12, Seconds: 9, Refused: 30, Failures: map[string]float64{"calling_webhook_error": 12},
				P50: inventory.Quantile{Seconds: 0.05, Known: true}, P99: inventory.Quantile{Seconds: 25, Known: true, Beyond: true},
				Slow: 0.25, Enough: inventory.Quantile{Seconds: 25, Known: true, Beyond: true},
			},
			{Type: inventory.Mutating, Name: "ghost\x1b[31m|x"}: {Calls: 1, CallsPerSecond: 0.1, Seconds: 1},
		},
	}
}

// TestObservedValues: where a source was read, reports show its values.
func TestObservedValues(t *testing.T) {
	d := NewDocument(observedReport(observation()))
	var text, top strings.Builder
	for _, err := range []error{
		Write(&text, "text", d, TextOptions{}),
		Write(&top, "text", NewTop(observedReport(observation()), "share"), TextOptions{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, got, want string }{
		{"text", text.String(), "10.0.0.1:6443 in 10s: 1 of 3 API servers; the others may call webhooks too."},
		{"top", top.String(), "12.00  50ms  >25s    10.0%    25.0%  90.0%"},
		{"top", top.String(), "(not registered)"},
		{"top", top.String(), "Registered, but not called in that time: idle."},
	} {
		if !strings.Contains(c.got, c.want) {
			t.Errorf("%s: want %q in:\n%s", c.name, c.want, c.got)
		}
		if strings.Contains(c.got, "\x1b") {
			t.Errorf("%s passes on a name that the terminal obeys", c.name)
		}
	}
	if lines := strings.Split(top.String(), "\n"); !strings.HasPrefix(lines[1], "busy") {
		t.Errorf("the webhook that takes most is not the first:\n%s", top.String())
	}
}

// TestObservedPolicies: policies have a table of their own, in which what their counters
// do not show is unknown.
func TestObservedPolicies(t *testing.T) {
	o := observation()
	o.Policies = map[inventory.Series]inventory.Behavior{
		{Type: inventory.ValidatingPolicy, Name: "closed"}: {Calls: 20, CallsPerSecond: 2, Refused: 10, P99: inventory.Quantile{Seconds: 1, Known: true, Beyond: true}},
		{Type: inventory.ValidatingPolicy, Name: "open"}:   {Calls: 10, CallsPerSecond: 1, FailedOpen: 5},
		{Type: inventory.MutatingPolicy, Name: "sets"}:     {Calls: 40, CallsPerSecond: 4, Failures: map[string]float64{"invalid_error": 10}},
	}
	r := observedReport(o)
	r.Snapshot.Policies = []*inventory.AdmissionPolicy{{
		Registration: inventory.Registration{Ref: inventory.Ref{Type: inventory.ValidatingPolicy, Configuration: "closed", Name: "closed"}},
		Bindings:     []*inventory.PolicyBinding{{Object: inventory.Object{Name: "everywhere"}}},
	}}
	top := NewTop(r, "share")
	var text strings.Builder
	must.Succeed(t, Write(&text, "text", top, TextOptions{}))
	for _, want := range [][]string{
		{"POLICY", "TYPE", "COUNTED/S", "DENIED/S", "FAILED/S", "P50", "P99", "BINDING"},
		{"sets", "mutating", "policy", "4.00", "-", "1.00", "-", "-", "(not", "registered)"},
		{"closed", "validating", "policy", "2.00", "1.00", "-", "-", ">1s", "everywhere"},
		{"open", "validating", "policy", "1.00", "0.00", "0.50", "-", "-", "(not", "registered)"},
	} {
		if !slices.ContainsFunc(strings.Split(text.String(), "\n"), func(line string) bool { return slices.Equal(strings.Fields(line), want) }) {
			t.Errorf("want %q in:\n%s", want, text.String())
		}
	}
	if !strings.Contains(text.String(), "counts failed checks alone") {
		t.Errorf("no word of what is not counted:\n%s", text.String())
	}
	if got := ObservedCells(o, inventory.Ref{Type: inventory.ValidatingPolicy, Name: "closed"}); got != (Cells{"2.00", "-", ">1s", "-", "50.0%", "-"}) {
		t.Errorf("cells: %+v", got)
	}
	if selected := top.Select(NewDocument(r)); len(selected.Policies) != 0 {
		t.Errorf("of a namespace: %v", selected.Policies)
	}
}

// TestObservedFindings: SARIF has what was measured of a webhook beside its findings, and
// each format names the source once.
func TestObservedFindings(t *testing.T) {
	r := observedReport(observation())
	check := &classify.Check{Name: "some-check", Severity: classify.Warning}
	for _, p := range r.Profiles {
		r.Findings = append(r.Findings, &classify.Finding{Check: check, Webhook: p.Ref, Problem: classify.Problem{Severity: classify.Warning, Message: "is wrong"}})
	}
	d := NewDocument(r)
	for name, want := range map[string][]string{
		"table": {"busy     is wrong\n"},
		"SARIF": {`"callsPerSecond": 12,`, `"p99Beyond": true,`, `"refusedCalls": 30,`, `"slowShare": 0.25,`, `"enoughSeconds": 25,`, `"enoughBeyond": true,`},
	} {
		got := string(reporttest.Rendered(t, func(b *bytes.Buffer) error { return writers[name](b, d) }))
		for _, w := range append(want, "10.0.0.1:6443 in 10s: 1 of 3 API servers") {
			if strings.Count(got, w) != 1 {
				t.Errorf("%s: want %q once in:\n%s", name, w, got)
			}
		}
	}
}

// TestNothingObserved: without a source nothing changes.
func TestNothingObserved(t *testing.T) {
	d := NewDocument(observedReport(nil))
	for name, write := range writers {
		got := string(reporttest.Rendered(t, func(b *bytes.Buffer) error { return write(b, d) }))
		if strings.Contains(strings.ToLower(got), "observed") {
			t.Errorf("%s speaks of what was observed: %s", name, got)
		}
	}
}

func TestTimeoutNotes(t *testing.T) {
	line := func(name string, slow, enough float64, beyond bool) TopWebhook {
		return TopWebhook{Series: inventory.Series{Name: name}, Observed: Observed{SlowShare: slow, EnoughSeconds: &enough, EnoughBeyond: beyond}}
	}
	failing := line("down", 0.5, 10, false)
	failing.Observed.Failing = 0.1
	idle := TopWebhook{Series: inventory.Series{Name: "idle"}}
	for name, c := range map[string]struct {
		lines []TopWebhook
		want  []string
	}{
		"none is measured": {[]TopWebhook{idle}, nil},
		"calls fail":       {[]TopWebhook{failing}, nil},
		"some calls fail":  {[]TopWebhook{failing, line("a", 0, 0.5, false)}, []string{"A timeout of 1 s would have been enough for 99.9% of the calls of each other webhook."}},
		"all are fast":     {[]TopWebhook{line("a", 0, 0.5, false), line("b", 0, 2.5, false), idle}, []string{"A timeout of 3 s would have been enough for 99.9% of the calls of each webhook."}},
		"some are slow": {[]TopWebhook{line("a", 0, 0.5, false), line("b", 0.02, 25, false), line("c", 0.1, 25, true)}, []string{
			"c: 10.0% of its calls took longer than 10 s; a timeout of more than 25 s would have been enough for 99.9% of them.",
			"b: 2.0% of its calls took longer than 10 s; a timeout of 25 s would have been enough for 99.9% of them.",
			"A timeout of 1 s would have been enough for 99.9% of the calls of each other webhook.",
		}},
	} {
		t.Run(name, func(t *testing.T) { expect.Equal(t, c.want, timeoutNotes(c.lines)) })
	}
}
