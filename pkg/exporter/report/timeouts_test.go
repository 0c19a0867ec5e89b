package report

import (
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestTimeoutsOfSeries: what is measured of a webhook reaches the notes and the JSON.
func TestTimeoutsOfSeries(t *testing.T) {
	series := inventory.Series{Type: inventory.Validating, Name: "a"}
	measured := inventory.Behavior{Calls: 10, Slow: 0.1, Enough: inventory.Quantile{Seconds: 25, Known: true, Beyond: true}}
	o := newObserved(&inventory.Observation{Webhooks: map[inventory.Series]inventory.Behavior{series: measured}}, series)
	if o.EnoughSeconds == nil || *o.EnoughSeconds != 25 || !o.EnoughBeyond || o.SlowShare != 0.1 {
		t.Errorf("%+v of %+v", o, measured)
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
