package classify

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestAcknowledgements: what is acknowledged, by the Policy and by annotations (of which a critical
// finding never is), and what acknowledges nothing.
func TestAcknowledgements(t *testing.T) {
	day := func(s string) Date { return Date{must.Get(time.Parse(time.DateOnly, s))(t)} }
	closed, open := "closed.policy.example.com", "open.policy.example.com"
	for name, c := range map[string]struct {
		check string
		acks  []Acknowledgement
		names []string
		stale string
	}{
		"nothing": {check: "service-missing"},
		"all of a check": {check: "service-missing", acks: []Acknowledgement{{Check: "service-missing"}}, names: []string{
			"clients.example.com", closed, "controllers.example.com", "gone.aggregated.example.com",
			"nowhere.aggregated.example.com", open, "single.example.com",
		}},
		"by configuration":              {check: "service-missing", acks: []Acknowledgement{{Configuration: "policy"}}, names: []string{closed, open}},
		"by glob":                       {check: "service-missing", acks: []Acknowledgement{{Name: "*.policy.example.com"}}, names: []string{closed, open}},
		"by all three":                  {check: "service-missing", acks: []Acknowledgement{{Check: "service-*", Configuration: "pol*", Name: "open.*"}}, names: []string{open}},
		"on its last day":               {check: "service-missing", acks: []Acknowledgement{{Name: "open.*", Until: day("2026-01-01")}}, names: []string{open}},
		"ended":                         {check: "service-missing", acks: []Acknowledgement{{Name: "open.*", Until: day("2025-12-31")}}, stale: "which ended on 2025-12-31"},
		"ended, and covered by another": {check: "service-missing", acks: []Acknowledgement{{Name: "open.*", Until: day("2025-12-31")}, {Name: "open.*"}}, names: []string{open}, stale: "which ended on 2025-12-31"},
		"matching nothing":              {check: "service-missing", acks: []Acknowledgement{{Check: "dead-rule"}}, stale: "which matches no finding"},
		"by annotation":                 {check: "stale-acknowledgement", names: []string{"used-policy.example.com", "used.example.com"}, stale: "that covers no finding"},
	} {
		t.Run(name, func(t *testing.T) {
			p := DefaultPolicy()
			p.Acknowledgements = c.acks
			var got []string
			stale := ""
			for _, f := range evaluate(t, p, fixture(t, "testdata/"+c.check+".yaml")).Findings {
				if f.Acknowledged {
					got = append(got, f.Webhook.Name)
				}
				if f.Check == staleAcknowledgement {
					stale = f.Message
				}
			}
			slices.Sort(got)
			expect.Equal(t, c.names, got)
			if !strings.Contains(stale, c.stale) || (stale == "") != (c.stale == "") {
				t.Errorf("stale acknowledgement: %q, want %q", stale, c.stale)
			}
		})
	}
}
