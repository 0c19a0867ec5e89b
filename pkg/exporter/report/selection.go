package report

import (
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Select returns the Document of the webhooks and policies of the Report that keep selects:
// their findings, what these stop, and the totals. Errors stay, as they may hide more.
func (d Document) Select(r *classify.Report, keep func(Webhook) bool) Document {
	selected := map[inventory.Ref]bool{}
	for _, w := range d.Registered() {
		selected[w.Ref] = selected[w.Ref] || keep(w)
	}
	d.Webhooks = slices.DeleteFunc(append([]Webhook{}, d.Webhooks...), func(w Webhook) bool { return !selected[w.Ref] })
	d.Policies = slices.DeleteFunc(slices.Clone(d.Policies),
		func(p AdmissionPolicy) bool { return !selected[p.registered().Ref] })
	d.Findings = slices.DeleteFunc(append([]Finding{}, d.Findings...), func(f Finding) bool { return !selected[f.Ref] })
	d.Totals = totals(len(d.Webhooks), len(d.Policies), d.Findings)
	d.Stops = r.StopsBy(func(ref inventory.Ref) bool { return selected[ref] })
	return d
}

// Select returns the Top of the webhooks of the Document, without policies, which have
// no backend to select by. Their shares stay those of all webhooks.
func (t Top) Select(d Document) Top {
	selected := d.series()
	others := func(w TopWebhook) bool { return !selected[w.Series] }
	t.Webhooks, t.NotCalled, t.Policies = slices.DeleteFunc(t.Webhooks, others), slices.DeleteFunc(t.NotCalled,
		others), []TopWebhook{}
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
