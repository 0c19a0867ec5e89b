package page

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// backend is what is behind the webhook.
func backend(p *classify.Profile) report.Blocks {
	lines := facts{{Name: p.Webhook.Backend.String(), Text: p.State.Detail}}
	endpoints := &report.Table{Headings: []string{"Endpoint", "State", "Ports", "Node", "Zone"}, Tones: map[string]report.Tone{"ready": report.Good, "not ready": report.Critical}}
	if service, known := p.Snapshot.Services[p.State.Service.Key]; known {
		lines.add("Type", string(service.Type))
		lines.add("Cluster IP", service.ClusterIP)
		lines.add("External name", service.ExternalName)
		var ports, selector []string
		for _, port := range service.Ports {
			ports = append(ports, named(port.Name, port.Port))
		}
		for _, key := range slices.Sorted(maps.Keys(service.Selector)) {
			selector = append(selector, key+"="+service.Selector[key])
		}
		lines.add("Ports", bounded(ports))
		lines.add("Selector", bounded(selector))
		lines.add("Readiness", classify.ReadyElsewhere(p))
		for _, e := range service.Endpoints {
			endpoints.Rows = append(endpoints.Rows, endpointCells(e))
		}
	}
	return append(report.Blocks{{Heading: "Backend", Lines: lines, Table: endpoints}}, certificates(p))
}

func named(name string, port int32) string {
	return strings.TrimPrefix(fmt.Sprintf("%s:%d", name, port), ":")
}

func endpointCells(e inventory.Endpoint) []string {
	state := "not ready"
	if e.Ready {
		state = "ready"
	}
	var ports []string
	for _, name := range slices.Sorted(maps.Keys(e.Ports)) {
		ports = append(ports, named(name, e.Ports[name]))
	}
	return []string{e.Address, state, bounded(ports), e.Node, e.Zone}
}

// certificates are those of the CA bundle, and the one that was served where that was
// looked at.
func certificates(p *classify.Profile) report.Block {
	t := &report.Table{Headings: []string{"Certificate", "Valid until", "State"}, Tones: map[string]report.Tone{}}
	b := report.Block{Heading: "Certificates", Table: t}
	add := func(subject string, from, until time.Time, faults ...string) {
		state, tone := validity(from, until, p.Snapshot.Taken)
		for _, fault := range faults {
			if fault != "" {
				state, tone = state+"; "+fault, report.Critical
			}
		}
		t.Rows, t.Tones[state] = append(t.Rows, []string{subject, timeText(until), state}), tone
	}
	if probe, done := p.Snapshot.Probes[p.Ref]; done {
		b.Lines = report.Sentences(dialed(probe))
		if c := probe.Certificate; c != nil {
			add("serving certificate", c.NotBefore, c.NotAfter, c.Untrusted, c.Misnamed)
		}
	}
	a := p.Webhook.Backend.Authority
	if note := authority(a); note != "" {
		b.Lines = append(b.Lines, report.Line{Text: note, Tone: report.Dim})
	}
	if a != nil {
		for _, c := range a.Certificates {
			add("CA "+c.Subject, c.NotBefore, c.NotAfter)
		}
	}
	return b
}

// authority says what is odd about a CA bundle; "" for nothing.
func authority(a *inventory.Authority) string {
	switch {
	case a == nil:
		return "No CA bundle: the API server trusts the CAs of its own host."
	case a.Blanked:
		return "The CA bundle is not in the input."
	case a.TooLarge:
		return "The CA bundle is too large to be read."
	case a.Placeholder:
		return "The CA bundle is a placeholder that nothing replaced."
	case len(a.Certificates) == 0:
		return "The CA bundle holds no certificate that can be read."
	}
	return ""
}

// expiresSoon marks certificates that expire within it.
const expiresSoon = 30 * 24 * time.Hour

func validity(from, until, now time.Time) (string, report.Tone) {
	switch left := until.Sub(now); {
	case now.Before(from):
		return "not valid yet", report.Critical
	case left < 0:
		return "expired " + ageText(-left) + " ago", report.Critical
	case left < expiresSoon:
		return "expires in " + ageText(left), report.Warning
	default:
		return "expires in " + ageText(left), report.Good
	}
}

// dialed is what dialing the backend showed.
func dialed(probe inventory.Probe) string {
	switch probe.Answer {
	case inventory.AnswerNone:
		return "The dial from here was inconclusive: " + probe.Error
	case inventory.AnswerTLS:
		return fmt.Sprintf("The TLS handshake from here took %s.", probe.Took.Round(time.Millisecond))
	default:
		return fmt.Sprintf("The dial from here ended with %s: %s", probe.Answer, probe.Error)
	}
}
