package classify

import (
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Profile is what is derived of a webhook before it is judged.
type Profile struct {
	*inventory.Webhook
	// Snapshot holds the facts around the webhook.
	Snapshot *inventory.Snapshot
	// Matcher answers what the API server does with requests.
	Matcher *admission.Matcher
	// Policy holds what the cluster's owner decided.
	Policy *Policy
	// Matched are all resources that the webhook is called for.
	Matched []admission.MatchedResource
	// UnusedRules are the indexes of the rules that match nothing.
	UnusedRules []int
	// ByClass are the matched resources of each class.
	ByClass map[Class][]inventory.Resource
	// Approval is the value of the annotation webhook-approved.openshift.io.
	Approval string
	// Approved says that Approval is a URL.
	Approved bool
	// Platform says that the webhook is part of a stock cluster, or one that the
	// Policy counts as such.
	Platform bool
	// ThirdParty says that the backend is outside the platform's namespaces.
	ThirdParty bool
	// Threshold is the latency in seconds from which the webhook is slow.
	Threshold float64
	// State says whether the API server can reach the backend.
	State inventory.BackendState
	// BackendReady is nil where it cannot be known.
	BackendReady *bool

	// What follows concerns several webhooks, and is computed once for all.

	// ControlPlane are the requests on the control plane's path that it is called for.
	ControlPlane []ControlPlaneMatch
	// RunLevelZero are the core resources that it is called for in namespaces
	// on run level 0, and those namespaces.
	RunLevelZero RunLevelZero
	// Deadlock is the cycle in which nothing starts any more, nil without one.
	Deadlock *Deadlock
	// SameName are the other configurations that register the webhook's name.
	SameName Others
	// UnmatchedVersions are the versions of its resources for which it is not
	// called.
	UnmatchedVersions []string
	// Reinvoked are the other configurations whose webhooks are called again
	// for a resource that this one is called again for.
	Reinvoked Others
	// Excesses are the budgets that the requests exceed which it is called for.
	Excesses []Excess
	// UnusedAcknowledgements are the checks that its annotation acknowledges without
	// a finding.
	UnusedAcknowledgements []string

	// matchKey is the same for webhooks that are called for the same requests.
	matchKey string
}

// matchFacts are what webhooks with one matchKey have in common.
type matchFacts struct {
	matched []admission.MatchedResource
	unused  []int
	byClass map[Class][]inventory.Resource
}

// matchFactsOf computes the facts once for each matchKey.
func matchFactsOf(a *admission.Matcher, m members, w *inventory.Webhook, key string) matchFacts {
	if w.Type == inventory.Conversion { // it has no rules: what it matches is its CRD
		matched := a.MatchedResources(w)
		return matchFacts{matched: matched, byClass: m.sort(matched)}
	}
	facts, known := m.known[key]
	if !known {
		matched := a.MatchedResources(w)
		facts = matchFacts{matched, a.UnusedRules(w), m.classify(matched)}
		m.known[key] = facts
	}
	return facts
}

// profiles derives what is known of each webhook, then what concerns several.
func (p Policy) profiles(w *work, a *admission.Matcher) []Profile {
	s := a.Snapshot
	m := p.members(s)
	out := make([]Profile, len(s.Webhooks))
	for i := range s.Webhooks {
		if !w.step() {
			return out
		}
		out[i] = p.profile(a, &s.Webhooks[i], m)
	}
	for _, find := range []func(){
		func() { p.findControlPlaneMatches(w, a, out) },
		func() { p.findRunLevelZero(w, a, out) },
		func() { findDeadlocks(w, a, out) },
		func() { findSameNames(w, out) },
		func() { findUnmatchedVersions(w, a, out) },
		func() { findReinvoked(w, out) },
	} {
		if w.ended {
			break
		}
		find()
	}
	return out
}

func (p *Policy) profile(a *admission.Matcher, w *inventory.Webhook, m members) Profile {
	s, key := a.Snapshot, admission.MatchKey(w)
	facts := matchFactsOf(a, m, w, key)
	state := s.State(w.Backend)
	profile := Profile{
		Webhook:      w,
		Snapshot:     s,
		Matcher:      a,
		Policy:       p,
		Matched:      facts.matched,
		UnusedRules:  facts.unused,
		ByClass:      facts.byClass,
		Approval:     w.Object.Annotations[ApprovalAnnotation],
		Platform:     m.platformWebhooks.match(w.Configuration) || m.platformWebhooks.match(w.Name) || stock(s, w),
		ThirdParty:   !m.platformNamespaces.match(w.Backend.Namespace()),
		State:        state,
		BackendReady: ready(state),
		matchKey:     key,
	}
	profile.Approved = approvalURL.MatchString(profile.Approval)
	profile.Threshold = p.threshold(&profile)
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

// findControlPlaneMatches asks only of the webhooks that could hold the control plane up, and
// of those that are called for the same only once. It costs the requests on the
// control plane's path that each matches.
func (p Policy) findControlPlaneMatches(w *work, m *admission.Matcher, profiles []Profile) {
	requests := p.controlPlaneRequests(w, m)
	shortest := secondsOf(min(p.LeaseTimeoutSeconds, p.ControlPlaneTimeoutSeconds))
	known := map[string][]ControlPlaneMatch{}
	for i := range profiles {
		h := &profiles[i]
		if h.Type == inventory.Conversion || !h.FailsClosed() && h.Timeout <= shortest {
			continue
		}
		key := h.matchKey
		matches, seen := known[key]
		if !seen {
			matches = requests.known(w, h.Webhook, h.Matched)
			known[key] = matches
		}
		h.ControlPlane = matches
	}
}
