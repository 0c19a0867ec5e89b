package classify

import (
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Profile is what is derived of a webhook before it is judged.
type Profile struct {
	*inventory.Webhook
	// Snapshot holds the facts around the webhook.
	Snapshot *inventory.Snapshot
	// Policy holds what the cluster's owner decided.
	Policy *Policy
	// Reached are all resources that the webhook is called for.
	Reached []inventory.Reached
	// Idle are the places of the rules that reach nothing.
	Idle []int
	// Reach are the reached resources of each class.
	Reach map[Class][]inventory.Resource
	// Approval is the value of the annotation webhook-approved.openshift.io.
	Approval string
	// Approved says that Approval is a URL.
	Approved bool
	// Platform says that the webhook is part of a stock cluster.
	Platform bool
	// ThirdParty says that the backend is outside the platform's namespaces.
	ThirdParty bool
	// Threshold is the latency in seconds from which the webhook is slow.
	Threshold float64
	// State is what the objects tell of the backend.
	State inventory.BackendState
	// BackendReady is nil where it cannot be known.
	BackendReady *bool

	// What follows concerns several webhooks, and is computed once for all.

	// Vital are the requests on the control plane's path that it is called for.
	Vital []Vital
	// RunLevelZero are the core resources that it is called for in namespaces
	// on run level 0, and those namespaces.
	RunLevelZero RunLevelZero
	// Deadlock is the cycle in which nothing starts any more, nil without one.
	Deadlock *Deadlock
	// Twins are the other configurations that register the webhook's name.
	Twins []string
	// Gaps are the versions of its resources that pass it by.
	Gaps []string
	// Reinvoked are the other configurations whose webhooks are called again
	// for a resource that this one is called again for.
	Reinvoked []string
	// Excesses are the budgets that the requests exceed which it is called for.
	Excesses []Excess
	// Stale are the acknowledgements in its annotation that cover nothing.
	Stale []string
}

// profiles derives what is known of each webhook, then what concerns several.
func (p Policy) profiles(w *work, s *inventory.Snapshot) []Profile {
	m := p.members(s)
	out := make([]Profile, len(s.Webhooks))
	for i := range s.Webhooks {
		if !w.step() {
			return out
		}
		out[i] = p.profile(s, &s.Webhooks[i], m)
	}
	p.findVital(s, out)
	p.findRunLevelZero(s, out)
	findDeadlocks(s, out)
	findTwins(out)
	findGaps(s, out)
	findReinvoked(out)
	return out
}

func (p *Policy) profile(s *inventory.Snapshot, w *inventory.Webhook, m members) Profile {
	reached := s.Reach(w)
	state := s.State(w.Backend)
	profile := Profile{
		Webhook:      w,
		Snapshot:     s,
		Policy:       p,
		Reached:      reached,
		Idle:         s.IdleRules(w),
		Reach:        m.reach(reached),
		Approval:     w.Object.Annotations[ApprovalAnnotation],
		Platform:     m.platformWebhooks.match(w.Configuration) || m.platformWebhooks.match(w.Name),
		ThirdParty:   !m.platformNamespaces.match(w.Backend.Namespace()),
		State:        state,
		BackendReady: ready(state),
	}
	profile.Approved = approvalURL.MatchString(profile.Approval)
	profile.Threshold = p.threshold(profile)
	return profile
}

// ready says whether the backend is ready, nil where it cannot be known. A
// fault that holds in one of two possible routing modes is not known.
func ready(s inventory.BackendState) *bool {
	if !s.Known || s.Routing != inventory.RoutingUnknown {
		return nil
	}
	ok := s.Fault == inventory.Sound
	return &ok
}

// findVital asks only of the webhooks that could hold the control plane up.
func (p Policy) findVital(s *inventory.Snapshot, profiles []Profile) {
	requests := p.vitalRequests(s)
	shortest := secondsOf(min(p.LeaseTimeoutSeconds, p.ControlPlaneTimeoutSeconds))
	for i := range profiles {
		w := &profiles[i]
		if w.Type != inventory.Conversion && (w.FailsClosed() || w.Timeout > shortest) {
			w.Vital = requests.vital(w.Webhook, w.Reached)
		}
	}
}

// findTwins finds the webhooks that share a name: the API server's own series
// cannot tell them apart.
func findTwins(profiles []Profile) {
	type series struct {
		hookType inventory.Type
		name     string
	}
	count := make(map[series]int, len(profiles))
	for i := range profiles {
		count[series{profiles[i].Type, profiles[i].Name}]++
	}
	registered := map[series][]string{}
	for i := range profiles {
		if key := (series{profiles[i].Type, profiles[i].Name}); count[key] > 1 {
			registered[key] = append(registered[key], profiles[i].Configuration)
		}
	}
	for i := range profiles {
		w := &profiles[i]
		if all := registered[series{w.Type, w.Name}]; len(all) > 1 {
			w.Twins = others(all, w.Configuration)
		}
	}
}

// others returns the configurations but one occurrence of this one, each once.
func others(all []string, self string) []string {
	out := slices.Clone(all)
	if i := slices.Index(out, self); i >= 0 {
		out = slices.Delete(out, i, i+1)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// findReinvoked finds the mutating webhooks of different configurations that
// are called a second time for the same resource. Those of one configuration
// have one author, who knows.
func findReinvoked(profiles []Profile) {
	byResource := map[inventory.Resource][]*Profile{}
	for i := range profiles {
		if reinvocable(profiles[i].Webhook) {
			for _, r := range profiles[i].Reached {
				byResource[r.Resource] = append(byResource[r.Resource], &profiles[i])
			}
		}
	}
	for _, together := range byResource {
		for _, w := range together {
			for _, other := range together {
				if other.Configuration != w.Configuration && !slices.Contains(w.Reinvoked, other.Configuration) {
					w.Reinvoked = append(w.Reinvoked, other.Configuration)
				}
			}
		}
	}
	for i := range profiles {
		slices.Sort(profiles[i].Reinvoked)
	}
}
