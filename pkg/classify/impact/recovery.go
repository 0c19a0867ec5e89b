package impact

import (
	"maps"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/start"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Wave are the Services whose Pods can be created at the same time.
type Wave struct{ Services []inventory.Key }

// Blocked is a Service that does not come back before a webhook is disabled.
type Blocked struct {
	Service inventory.Key
	// By are the webhooks that refuse what it needs to start, or to be called, and
	// More says that there are more.
	By   []*classify.Profile
	More bool
}

// recovery says in which order the Services come back that lose their last
// endpoint. It is computed from what was there before the Change: of a Service that
// the input lacks it is not known what runs behind it.
func recovery(step start.Step, c Change, before, after *classify.Report) (waves []Wave, stuck []Blocked, err error) {
	down := map[inventory.Key]bool{}
	var refusing []*classify.Profile
	var webhooks []start.Webhook
	for i := range after.Profiles {
		p := &after.Profiles[i]
		if !step() {
			return nil, nil, nil
		}
		if key := p.State.Service.Key; lost(c, before.Snapshot, p) {
			down[key] = true
			if p.CanBlock() {
				refusing, webhooks = append(refusing, p), append(webhooks, p.StartWebhook())
			}
		}
	}
	order, blocked, err := start.Order(step, before.Matcher, webhooks, slices.SortedFunc(maps.Keys(down), inventory.Key.Compare))
	for _, services := range order {
		waves = append(waves, Wave{services})
	}
	for _, b := range blocked {
		out := Blocked{Service: b.Service, More: b.More}
		for _, i := range b.By {
			out.By = append(out.By, refusing[i])
		}
		stuck = append(stuck, out)
	}
	return waves, stuck, err
}

// lost reports whether the webhook's Service has no endpoint after the Change, and
// had one before.
func lost(c Change, before *inventory.Snapshot, p *classify.Profile) bool {
	return p.State.Fault == inventory.NoReadyEndpoints &&
		(slices.Contains(c.Services, p.State.Service.Key) || before.State(p.Webhook.Backend).Fault == inventory.Sound)
}
