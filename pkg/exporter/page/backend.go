package page

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// backend is what is behind the webhook, and the certificates of its CA bundle and the one
// that was served where that was looked at.
func backend(p *classify.Profile) report.Blocks {
	out := report.Block{Heading: "Backend", Lines: []report.Line{{Name: p.Webhook.Backend.String(), Text: p.State.Detail}}}
	out.Add("Readiness", report.Line{Text: classify.ReadyElsewhere(p)})
	t := &report.Table{Headings: []string{"Certificate", "Valid until", "State"}, Tones: map[string]report.Tone{}}
	add := func(subject string, from, until time.Time, faults ...string) {
		state, tone := validity(from, until, p.Snapshot.Taken)
		for _, fault := range faults {
			if fault != "" {
				state, tone = state+"; "+fault, report.Critical
			}
		}
		t.Rows, t.Tones[state] = append(t.Rows, []string{subject, timeText(until), state}), tone
	}
	if c := p.Snapshot.Probes[p.Ref].Certificate; c != nil {
		add("serving certificate", c.NotBefore, c.NotAfter, c.Untrusted, c.Misnamed)
	}
	if a := p.Webhook.Backend.Authority; a != nil {
		for _, c := range a.Certificates {
			add("CA "+c.Subject, c.NotBefore, c.NotAfter)
		}
	}
	return report.Blocks{out, {Heading: "Certificates", Table: t}}.NonEmpty()
}

// expiresSoon marks certificates that expire within it.
const expiresSoon = 30 * 24 * time.Hour

func validity(from, until, now time.Time) (string, report.Tone) {
	switch left := until.Sub(now); {
	case now.Before(from):
		return "not valid yet", report.Critical
	case left < 0:
		return "expired " + duration.HumanDuration(-left) + " ago", report.Critical
	case left < expiresSoon:
		return "expires in " + duration.HumanDuration(left), report.Warning
	default:
		return "expires in " + duration.HumanDuration(left), report.Good
	}
}
