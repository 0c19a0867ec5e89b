package report

import (
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Select returns the Document of the webhooks and policies that keep selects: their
// findings, and the totals of these. Errors stay, as they may hide more.
func (d Document) Select(keep func(Webhook) bool) Document {
	selected := map[inventory.Ref]bool{}
	webhooks := make([]Webhook, 0, len(d.Webhooks))
	for _, w := range d.Webhooks {
		if keep(w) {
			webhooks = append(webhooks, w)
			selected[w.Ref] = true
		}
	}
	var policies []AdmissionPolicy
	for _, p := range d.Policies {
		if keep(p.registered()) {
			policies = append(policies, p)
			selected[p.registered().Ref] = true
		}
	}
	findings := slices.DeleteFunc(append([]Finding{}, d.Findings...), func(f Finding) bool { return !selected[f.Ref] })
	open, _ := separateAcknowledged(findings)
	d.Webhooks, d.Policies, d.Findings = webhooks, policies, findings
	d.Totals = Totals{Webhooks: len(webhooks), Policies: len(policies), Findings: countFindings(open)}
	return d
}

// Shown returns whether a webhook or policy is one of the Document.
func (d Document) Shown() func(inventory.Ref) bool {
	shown := make(map[inventory.Ref]bool, len(d.Webhooks))
	for _, w := range d.Registered() {
		shown[w.Ref] = true
	}
	return func(ref inventory.Ref) bool { return shown[ref] }
}

// Select returns the Top of the webhooks of the Document, without policies, which have
// no backend to select by. Their shares stay those of all webhooks.
func (t Top) Select(d Document) Top {
	selected := d.series()
	ofSelected := func(lines []TopWebhook) []TopWebhook {
		out := []TopWebhook{}
		for _, w := range lines {
			if selected[w.Series] {
				out = append(out, w)
			}
		}
		return out
	}
	t.Webhooks, t.NotCalled, t.Policies = ofSelected(t.Webhooks), ofSelected(t.NotCalled), []TopWebhook{}
	return t
}

// series are those of the webhooks.
func (d Document) series() map[inventory.Series]bool {
	out := map[inventory.Series]bool{}
	for _, w := range d.Webhooks {
		out[w.Series()] = true
	}
	return out
}

// Select returns the requests at the webhooks of the Document.
func (t AuditTop) Select(d Document) AuditTop {
	selected, log := d.series(), *t.AuditLog
	log.Requests = slices.DeleteFunc(slices.Clone(log.Requests), func(l AuditLine) bool { return !selected[l.Series] })
	log.Messages = slices.DeleteFunc(slices.Clone(log.Messages), func(m AuditMessage) bool { return !selected[m.Series] })
	t.AuditLog = &log
	return t
}
