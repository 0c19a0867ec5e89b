package impact

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/start"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Outcome is what becomes of requests.
type Outcome string

// The outcomes. Unconverted are those that need an object in another version
// than it is stored in.
const (
	Refused     Outcome = "refused"
	Unchecked   Outcome = "unchecked"
	Unconverted Outcome = "unconverted"
)

// Consequences are what a Change leads to.
type Consequences struct {
	Change Change
	// Effects are about the webhooks that cannot be called any more, or that are
	// gone, those that refuse requests first.
	Effects []Effect
	// Appearing and Disappearing are findings.
	Appearing, Disappearing []*classify.Finding
	// Recovery says in which order the Services come back whose Pods have to be
	// created anew; Stuck are those that wait for each other.
	Recovery []Wave
	Stuck    []Blocked
	// Evicted are the Pods of backends on nodes that go.
	Evicted []Evicted
	// Weakened are webhooks that keep fewer ready endpoints.
	Weakened []Weakened
	// Unknown are webhooks of which the input does not show whether they can
	// still be called: of a node that goes, their Pods may have been on it.
	Unknown []inventory.Ref
}

// Effect is what becomes of the requests that one webhook is called for.
type Effect struct {
	Outcome Outcome
	Profile *classify.Profile
	// Deleted says that nothing registers the webhook any more.
	Deleted bool
	// Resources are those that the requests are for.
	Resources []admission.MatchedResource
	// Namespaces are those that the namespaceSelector selects, where the input
	// knows all; nil where it selects all, or is not known to select any.
	Namespaces []string
	// Unless says what else decides: objectSelector, matchConditions.
	Unless []string
	// Stops are functions of the cluster that stop.
	Stops []Stop
}

// Weakened is a webhook that keeps some of its ready endpoints.
type Weakened struct {
	Webhook       inventory.Ref
	Before, After int
}

// compare finds what changed between two Reports. Where the context of the steps
// ends, it lacks its end.
func compare(step start.Step, c Change, before, after *classify.Report) (*Consequences, error) {
	out := &Consequences{Change: c}
	current := map[identity]*classify.Profile{}
	for i := range after.Profiles {
		current[identityOf(&after.Profiles[i])] = &after.Profiles[i]
	}
	for i := range before.Profiles {
		if was := &before.Profiles[i]; step() {
			out.add(was, current[identityOf(was)])
		}
	}
	slices.SortStableFunc(out.Effects, func(a, b Effect) int { return rank(a.Outcome) - rank(b.Outcome) })
	out.Appearing, out.Disappearing = missingFrom(before, after), missingFrom(after, before)
	out.Evicted = evictions(step, c, before)
	var err error
	out.Recovery, out.Stuck, err = recovery(step, c, before, after)
	return out, err
}

// identity is unique to a webhook: legacy configurations may name two alike.
type identity struct {
	inventory.Ref
	index int
}

func identityOf(p *classify.Profile) identity { return identity{p.Ref, p.Index} }

func rank(o Outcome) int { return slices.Index([]Outcome{Refused, Unconverted, Unchecked}, o) }

func (c *Consequences) add(was, now *classify.Profile) {
	switch {
	case now == nil:
		effect := effectOf(was, Unchecked)
		effect.Deleted = true
		c.Effects = append(c.Effects, effect)
	case now.State.Fault != inventory.Sound && was.State.Fault == inventory.Sound:
		c.Effects = append(c.Effects, effectOf(was, outcomeOf(was)))
	case now.State.Ready < was.State.Ready:
		c.Weakened = append(c.Weakened, Weakened{was.Ref, was.State.Ready, now.State.Ready})
	case !now.State.Known && len(c.Change.Nodes) > 0:
		c.Unknown = append(c.Unknown, was.Ref)
	}
}

// outcomeOf is what becomes of requests while the webhook cannot be called.
func outcomeOf(p *classify.Profile) Outcome {
	switch {
	case p.Type == inventory.Conversion:
		return Unconverted
	case p.FailsClosed():
		return Refused
	}
	return Unchecked
}

func effectOf(p *classify.Profile, outcome Outcome) Effect {
	e := Effect{Outcome: outcome, Profile: p, Resources: p.Matched}
	if p.Type == inventory.Conversion {
		return e
	}
	if p.Snapshot.NamespacesKnown && !p.NamespaceSelector.Empty() {
		e.Namespaces = SelectedNamespaces(p)
	}
	if !p.ObjectSelector.Empty() {
		e.Unless = append(e.Unless, "the objectSelector "+p.ObjectSelector.String()+" does not select the object")
	}
	if len(p.MatchConditions) > 0 {
		e.Unless = append(e.Unless, "a matchCondition is false")
	}
	if outcome == Refused {
		e.Stops = Stops(p)
	}
	return e
}

// SelectedNamespaces are the namespaces that the webhook's selector selects,
// sorted; never nil.
func SelectedNamespaces(p *classify.Profile) []string {
	return namespacesOf(p.Snapshot, p.NamespaceSelector)
}

// namespacesOf are the namespaces that the selector selects, sorted.
func namespacesOf(s *inventory.Snapshot, selector inventory.Selector) []string {
	out := []string{}
	for _, name := range namedNamespaces(s, selector) {
		if namespace, exists := s.Namespaces[name]; exists && selector.Parsed.Matches(labels.Set(namespace.Labels)) {
			out = append(out, name)
		}
	}
	return text.Distinct(out)
}

// namedNamespaces are those that the selector could select: where it names them, no
// others have to be asked.
func namedNamespaces(s *inventory.Snapshot, selector inventory.Selector) []string {
	requirements, _ := selector.Parsed.Requirements()
	for _, r := range requirements {
		if o := r.Operator(); r.Key() == corev1.LabelMetadataName && (o == selection.In || o == selection.Equals) {
			return r.ValuesUnsorted()
		}
	}
	return slices.Collect(maps.Keys(s.Namespaces))
}

// missingFrom returns the findings of b that a lacks.
func missingFrom(a, b *classify.Report) []*classify.Finding {
	type key struct {
		check    *classify.Check
		webhook  inventory.Ref
		resource inventory.Resource
		severity classify.Severity
	}
	known := map[key]bool{}
	for _, f := range a.Findings {
		known[key{f.Check, f.Webhook, f.Resource, f.Severity}] = true
	}
	var out []*classify.Finding
	for _, f := range b.Findings {
		if !known[key{f.Check, f.Webhook, f.Resource, f.Severity}] {
			out = append(out, f)
		}
	}
	return out
}
