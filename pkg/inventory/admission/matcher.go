// Package admission computes what an API server does at admission: which
// webhooks it calls for a request, in which order and how long that may take,
// and which resources a webhook is called for. It is pure: it knows one
// inventory.Snapshot and nothing else.
//
// A Matcher makes a Request (request.go), which says of a webhook whether it is
// called (match.go) by its rules, selectors and matchConditions (rules.go,
// labels.go, match_conditions.go). The index has the reverse: the resources that a
// webhook is called for.
package admission

import "github.com/webhook-auditor/webhook-auditor/pkg/inventory"

// Matcher answers for the webhooks and the API server of one Snapshot. It is
// safe for concurrent use.
type Matcher struct {
	Snapshot *inventory.Snapshot
	Platform inventory.Platform // found once: it may cost the webhooks
	index    *index
	requests *memo[requestKey, Request]
	// others are what GetsOther found.
	others *memo[*inventory.CRD, *inventory.Registration]
	// params says of bindings whether there are such params, where that was read for one
	// request.
	params map[*inventory.PolicyBinding]Match
}

// New returns the Matcher of a Snapshot. It costs the resources that the API
// server serves.
func New(s *inventory.Snapshot) *Matcher {
	return newMatcher(s, newIndex(s, newPrograms()))
}

func newMatcher(s *inventory.Snapshot, x *index) *Matcher {
	return &Matcher{Snapshot: s, Platform: s.Platform(), index: x, requests: newMemo[requestKey, Request](), others: newMemo[*inventory.CRD, *inventory.Registration]()}
}

// WithProbes returns the Matcher of the same Snapshot with other probes, on which no
// match depends.
func (m *Matcher) WithProbes(probes map[inventory.Ref]inventory.Probe) *Matcher {
	s, out := *m.Snapshot, *m
	s.Probes, out.Snapshot = probes, &s
	return &out
}

// WithParams returns the Matcher of the same Snapshot for one request, of whose bindings it
// is known whether there are such params.
func (m *Matcher) WithParams(exist map[*inventory.PolicyBinding]Match) *Matcher {
	out := *m
	out.params = exist
	return &out
}

// Next returns the Matcher of the Snapshot that follows that of m. It takes over the
// expressions that are compiled and, where the API server serves the same, the resources
// that webhooks match; nothing from nil. Both may be used on.
func (m *Matcher) Next(s *inventory.Snapshot) *Matcher {
	if m == nil {
		return New(s)
	}
	m.index.next()
	out := newMatcher(s, m.index)
	if out.Platform != m.Platform || !s.SameResources(m.Snapshot) {
		out.index = newIndex(s, m.index.programs)
	}
	return out
}
