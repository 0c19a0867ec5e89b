package impact

import (
	"maps"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/start"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Wave are the Services whose Pods can be created at the same time.
type Wave struct {
	Services []string `json:"services"`
}

// Blocked are Services that do not come back before a webhook is disabled.
type Blocked struct {
	Services []string        `json:"services"`
	By       []inventory.Ref `json:"by" jsonschema:"By are the webhooks that refuse what they need to start, or to be called."`
	PreStop  bool            `json:"preStop,omitempty" jsonschema:"PreStop says that the old Pods of those webhooks answer until their preStop hooks end: what is created until then is not refused."`
	Steps    []string        `json:"steps,omitempty" jsonschema:"Steps are those of a deadlock of such a webhook, where one is found."`
	Commands []string        `json:"commands" jsonschema:"Commands disable those webhooks."`
}

// refuser is a webhook that refuses what others wait for, with what many Services may ask of it.
type refuser struct {
	*classify.Profile
	disable   string
	byPreStop bool
}

// recover says in which order the Services come back that lose their last endpoint. It
// is computed from what was there before the Change: of a Service that the input lacks
// it is unknown what runs behind it.
func (out *Consequences) recover(step func() bool, c Change, before, after *classify.Report) {
	down := map[inventory.Key]*classify.Profile{}
	var refusing []refuser
	var webhooks []start.Webhook
	for _, p := range after.Profiles {
		if key := p.State.Service.Key; losesBackend(c, before.Snapshot, p) {
			down[key] = p
			if p.CanBlock() {
				refusing = append(refusing, refuser{p, p.Commands().Disable, c.leavesByPreStop(p)})
				webhooks = append(webhooks, p.StartWebhook())
			}
		}
	}
	services := slices.SortedFunc(maps.Keys(down), inventory.Key.Compare)
	order := start.Order(step, before.Matcher, webhooks, services)
	out.NotCompared = order.NotCompared
	for _, wave := range order.Waves {
		out.Recovery = append(out.Recovery, Wave{keyNames(wave)})
	}
	for _, b := range order.Stuck {
		blocked := Blocked{Services: keyNames(b.Services), PreStop: true, By: []inventory.Ref{}, Commands: []string{}}
		for _, i := range b.By {
			r := refusing[i]
			if r.Deadlock != nil && blocked.Steps == nil {
				blocked.Steps = r.Deadlock.Steps
			}
			blocked.By, blocked.Commands = append(blocked.By, r.Ref), append(blocked.Commands, r.disable)
			blocked.PreStop = blocked.PreStop && r.byPreStop
		}
		out.Stuck = append(out.Stuck, blocked)
	}
	for _, key := range services {
		out.Restart = append(out.Restart, down[key].Commands().Restart...)
	}
}

// keyNames are the keys in words, sorted.
func keyNames(keys []inventory.Key) []string {
	return lists.Map(slices.SortedFunc(slices.Values(keys), inventory.Key.Compare),
		func(key inventory.Key) string { return key.String() })
}

// losesBackend reports whether the webhook's Service has no endpoint after the Change, and
func losesBackend(c Change, before *inventory.Snapshot, p *classify.Profile) bool {
	return p.State.Fault == inventory.NoReadyEndpoints &&
		(slices.Contains(c.Services, p.State.Service.Key) || before.State(p.Webhook.Backend).Fault == inventory.Sound)
}

// leavesByPreStop reports whether the Pods of the backend leave with nodes alone, and
// all have a preStop hook, during which a cluster IP still leads to them.
func (c Change) leavesByPreStop(p *classify.Profile) bool {
	workloads := lists.Filter(classify.BehindWebhook(p), func(w *inventory.Workload) bool { return len(w.Nodes) > 0 })
	return len(workloads) > 0 && p.Snapshot.Routing != inventory.RoutingEndpoints &&
		!slices.Contains(c.Services, p.State.Service.Key) &&
		!slices.ContainsFunc(workloads, func(w *inventory.Workload) bool { return !w.PreStop })
}
