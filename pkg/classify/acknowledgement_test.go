package classify

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// findingNames lists the findings as "check name", those that are acknowledged in
// brackets.
func findingNames(r *Report) []string {
	var out []string
	for _, f := range r.Findings {
		line := f.Check.Name + " " + f.Webhook.Name
		if f.Acknowledged {
			line = "[" + line + "]"
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

func TestAcknowledgements(t *testing.T) {
	day := func(s string) Date {
		d := must.Get(time.Parse(time.DateOnly, s))(t)
		return Date{d}
	}
	closed, open := "service-missing closed.policy.example.com", "service-missing open.policy.example.com"
	clients, controllers := "service-missing clients.example.com", "service-missing controllers.example.com"
	single := "service-missing single.example.com"
	behindIt, nowhere := "service-missing gone.aggregated.example.com", "service-missing nowhere.aggregated.example.com"
	for _, c := range []struct {
		name  string
		acks  []Acknowledgement
		names []string
		stale string
	}{
		{name: "nothing"},
		{name: "all of a check", acks: []Acknowledgement{{Check: "service-missing"}}, names: []string{closed, open, clients, controllers, single, behindIt, nowhere}},
		{name: "by configuration", acks: []Acknowledgement{{Configuration: "policy"}}, names: []string{closed, open}},
		{name: "by glob", acks: []Acknowledgement{{Name: "*.policy.example.com"}}, names: []string{closed, open}},
		{name: "by all three", acks: []Acknowledgement{{Check: "service-*", Configuration: "pol*", Name: "open.*"}}, names: []string{open}},
		{name: "on its last day", acks: []Acknowledgement{{Name: "open.*", Until: day("2026-01-01")}}, names: []string{open}},
		{name: "ended", acks: []Acknowledgement{{Name: "open.*", Until: day("2025-12-31")}}, stale: "which ended on 2025-12-31"},
		{name: "ended, and covered by another", acks: []Acknowledgement{{Name: "open.*", Until: day("2025-12-31")}, {Name: "open.*"}}, names: []string{open}, stale: "which ended on 2025-12-31"},
		{name: "matching nothing", acks: []Acknowledgement{{Check: "dead-rule"}}, stale: "which matches no finding"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := DefaultPolicy()
			p.Acknowledgements = c.acks
			report := evaluate(t, p, fixture(t, "testdata/service-missing.yaml"))
			if totals := report.Totals(); totals.Acknowledged != len(c.names) {
				t.Errorf("acknowledged: %d, want %d", totals.Acknowledged, len(c.names))
			}
			for _, finding := range []string{closed, open, clients, controllers, single, behindIt, nowhere} {
				want := finding
				if slices.Contains(c.names, finding) {
					want = "[" + finding + "]"
				}
				if !slices.Contains(findingNames(report), want) {
					t.Errorf("no %s in %v", want, findingNames(report))
				}
			}
			checkStale(t, report, c.stale)
		})
	}
}

func checkStale(t *testing.T, r *Report, want string) {
	t.Helper()
	i := slices.IndexFunc(r.Findings, func(f *Finding) bool { return f.Check == staleAcknowledgement })
	switch {
	case i < 0 && want != "":
		t.Errorf("no stale acknowledgement, want one %s", want)
	case i >= 0 && want == "":
		t.Errorf("stale acknowledgement: %s", r.Findings[i].Message)
	case i >= 0 && !strings.Contains(r.Findings[i].Message, want):
		t.Errorf("stale acknowledgement: %s, want %s", r.Findings[i].Message, want)
	}
}

// TestAnnotationAcknowledges: info and warning findings of the configuration
// are known, critical ones never.
func TestAnnotationAcknowledges(t *testing.T) {
	got := findingNames(evaluate(t, DefaultPolicy(), fixture(t, "testdata/stale-acknowledgement.yaml")))
	for _, want := range []string{"[long-timeout used.example.com]", "long-timeout reasonless.example.com", "service-missing critical.example.com"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in %v", want, got)
		}
	}
}
