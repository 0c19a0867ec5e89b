package page

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// backend is what is behind the webhook.
func (v *view) backend(p *classify.Profile) backendPart {
	b := backendPart{
		Title: p.Webhook.Backend.String(), State: stateOf(p), Detail: p.State.Detail,
	}
	b.certificates(p)
	b.probe(p)
	service, known := p.Snapshot.Services[p.State.Service.Key]
	if !known {
		return b
	}
	add := func(term, value string) {
		if value != "" {
			b.Service = append(b.Service, fact{Term: term, Value: value})
		}
	}
	add("Type", string(service.Type))
	add("Cluster IP", service.ClusterIP)
	add("External name", service.ExternalName)
	var ports []string
	for _, port := range service.Ports {
		ports = append(ports, strings.TrimPrefix(fmt.Sprintf("%s:%d", port.Name, port.Port), ":"))
	}
	add("Ports", bounded(ports))
	var selector []string
	for _, key := range slices.Sorted(maps.Keys(service.Selector)) {
		selector = append(selector, key+"="+service.Selector[key])
	}
	add("Selector", bounded(selector))
	b.endpoints(service, v.limits().endpoints)
	return b
}

func (b *backendPart) endpoints(service inventory.Service, most int) {
	for _, e := range service.Endpoints[:min(len(service.Endpoints), most)] {
		row := endpointRow{Address: e.Address, Node: e.Node, Zone: e.Zone, Ready: "not ready", Style: "bad"}
		if e.Ready {
			row.Ready, row.Style = "ready", "ok"
		}
		var ports []string
		for _, name := range slices.Sorted(maps.Keys(e.Ports)) {
			ports = append(ports, strings.TrimPrefix(fmt.Sprintf("%s:%d", name, e.Ports[name]), ":"))
		}
		row.Ports = bounded(ports)
		b.Endpoints = append(b.Endpoints, row)
	}
	b.MoreEndpoints = len(service.Endpoints) - len(b.Endpoints)
}

// maxCertificates bounds the certificates of a CA bundle that are listed.
const maxCertificates = 20

func (b *backendPart) certificates(p *classify.Profile) {
	a := p.Webhook.Backend.Authority
	switch {
	case a == nil:
		b.AuthorityNote = "No CA bundle: the API server trusts the CAs of its own host."
		return
	case a.Blanked:
		b.AuthorityNote = "The CA bundle was removed from the input."
	case a.TooLarge:
		b.AuthorityNote = "The CA bundle is too large to be read."
	case a.Placeholder:
		b.AuthorityNote = "The CA bundle is a placeholder that nothing replaced."
	case len(a.Certificates) == 0:
		b.AuthorityNote = "The CA bundle holds no certificate that can be read."
	}
	for _, c := range a.Certificates[:min(len(a.Certificates), maxCertificates)] {
		row := certificate(c.NotBefore, c.NotAfter, p.Snapshot.Taken)
		row.Subject = c.Subject
		b.Authorities = append(b.Authorities, row)
	}
	if more := len(a.Certificates) - len(b.Authorities); more > 0 {
		b.AuthorityNote = fmt.Sprintf("The bundle holds %d more.", more)
	}
}

// expiresSoon marks certificates that expire within it.
const expiresSoon = 30 * 24 * time.Hour

func certificate(from, until, now time.Time) certificateRow {
	row := certificateRow{Until: timeText(until), Style: "ok"}
	switch left := until.Sub(now); {
	case now.Before(from):
		row.Left, row.Style = "not valid yet", "bad"
	case left < 0:
		row.Left, row.Style = "expired "+ageText(-left)+" ago", "bad"
	case left < expiresSoon:
		row.Left, row.Style = "expires in "+ageText(left), "unknown"
	default:
		row.Left = "expires in " + ageText(left)
	}
	return row
}

// probe is what dialing the backend showed, where that was done.
func (b *backendPart) probe(p *classify.Profile) {
	probe, done := p.Snapshot.Probes[p.Ref]
	if !done {
		return
	}
	switch probe.Answer {
	case inventory.AnswerNone:
		b.ProbeNote = "The dial from here was inconclusive: " + probe.Error
	case inventory.AnswerTLS:
		b.ProbeNote = fmt.Sprintf("The TLS handshake from here took %s.", probe.Took.Round(time.Millisecond))
	case inventory.AnswerNoTLS, inventory.AnswerUnreachable:
		b.ProbeNote = fmt.Sprintf("The dial from here ended with %s: %s", probe.Answer, probe.Error)
	}
	if c := probe.Certificate; c != nil {
		row := certificate(c.NotBefore, c.NotAfter, p.Snapshot.Taken)
		row.Subject = "serving certificate"
		for _, fault := range []string{c.Untrusted, c.Misnamed} {
			if fault != "" {
				row.Left, row.Style = row.Left+"; "+fault, "bad"
			}
		}
		b.Serving = &row
	}
}
