package impact

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

func labelSet(set map[string]string) labels.Set { return set }

// Wave are the Services whose Pods can be created at the same time.
type Wave struct {
	Services []inventory.Key
	// After are the webhooks that refuse those Pods until the waves before are
	// back; none in the first.
	After []inventory.Ref
}

// Blocked is a Service whose Pods cannot be created before a webhook is
// disabled.
type Blocked struct {
	Service inventory.Key
	// By are the webhooks that refuse its Pods.
	By []*classify.Profile
}

// recovery says in which order the Services come back that lose their last
// endpoint: the Pods of one can be created once no webhook refuses them whose
// own backend is down.
func recovery(c Change, before *inventory.Snapshot, after *classify.Report) ([]Wave, []Blocked) {
	down := lost(c, before, after)
	var waves []Wave
	var last []inventory.Ref
	for len(down) > 0 {
		wave := Wave{After: last}
		last = nil
		for _, key := range slices.SortedFunc(maps.Keys(down), inventory.Key.Compare) {
			if len(refusing(after, down, key)) == 0 {
				wave.Services = append(wave.Services, key)
			}
		}
		if len(wave.Services) == 0 {
			return waves, blocked(after, down)
		}
		waves = append(waves, wave)
		for _, key := range wave.Services {
			for _, p := range down[key] {
				last = append(last, p.Ref)
			}
			delete(down, key)
		}
	}
	return waves, nil
}

func blocked(after *classify.Report, down map[inventory.Key][]*classify.Profile) []Blocked {
	var out []Blocked
	for _, key := range slices.SortedFunc(maps.Keys(down), inventory.Key.Compare) {
		out = append(out, Blocked{key, refusing(after, down, key)})
	}
	return out
}

// lost are the Services without an endpoint after the Change that had one
// before, with the webhooks that call them.
func lost(c Change, before *inventory.Snapshot, after *classify.Report) map[inventory.Key][]*classify.Profile {
	out := map[inventory.Key][]*classify.Profile{}
	for i := range after.Profiles {
		p := &after.Profiles[i]
		key := p.State.Service.Key
		named := slices.Contains(c.Services, key)
		if p.State.Fault == inventory.NoReadyEndpoints && (named || before.State(p.Webhook.Backend).Fault == inventory.Sound) {
			out[key] = append(out[key], p)
		}
	}
	return out
}

// refusing are the webhooks whose backends are down and that may refuse the Pods
// of a Service.
func refusing(after *classify.Report, down map[inventory.Key][]*classify.Profile, key inventory.Key) []*classify.Profile {
	var out []*classify.Profile
	for _, calling := range slices.SortedFunc(maps.Keys(down), inventory.Key.Compare) {
		for _, p := range down[calling] {
			if refusesPods(p, after.Snapshot, key) {
				out = append(out, p)
			}
		}
	}
	return out
}

// refusesPods reports whether the webhook may refuse Pods behind a Service.
// Where the input lacks the Pods, they carry at least the labels that the
// Service selects.
func refusesPods(p *classify.Profile, s *inventory.Snapshot, key inventory.Key) bool {
	if p.Type == inventory.Conversion || !p.FailsClosed() {
		return false
	}
	service := s.Services[key]
	workloads := s.Behind(service)
	if len(workloads) == 0 {
		return refusesPod(p, key.Namespace, service.Selector)
	}
	return slices.ContainsFunc(workloads, func(w inventory.Workload) bool {
		return !w.Static && refusesPod(p, w.Namespace, w.PodLabels)
	})
}

func refusesPod(p *classify.Profile, namespace string, set map[string]string) bool {
	return slices.ContainsFunc(admission.PodWrites, func(write admission.PodWrite) bool {
		subject := admission.Subject{Namespace: namespace, Labels: map[string]string{}}
		if write.Labeled {
			subject.Labels = set
		}
		v := p.Matcher.InterceptsSubject(p.Webhook, write.Resource, write.Operation, subject)
		return v.Match != admission.No && !v.OptIn
	})
}
