package impact

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

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
	Change       Gone                `json:"change"`
	Effects      []Effect            `json:"effects"`
	Appearing    []*classify.Finding `json:"-"`
	Disappearing []*classify.Finding `json:"-"`
	Recovery     []Wave              `json:"recovery" jsonschema:"Recovery says in which order Services come back whose Pods have to be created anew, Stuck which of them wait for each other."`
	Stuck        []Blocked           `json:"stuck"`
	NotCompared  int                 `json:"notCompared,omitempty" jsonschema:"NotCompared counts the pairs of kinds of webhooks and of Pods that are too many to be compared for that; absent where all are."`
	Restart      []string            `json:"restart,omitempty" jsonschema:"Restart are commands that create those Pods at once, and wait for them."`
	Weakened     []Weakened          `json:"weakened" jsonschema:"Weakened are webhooks that keep fewer ready endpoints."`
	Evicted      []Evicted           `json:"evicted" jsonschema:"Evicted are the Pods of backends that a drain of the nodes evicts."`
	Evictions    []AskedOfEviction   `json:"evictions" jsonschema:"Evictions are the webhooks and policies that the evictions of a drain meet, as far as the input has the Pods on its nodes."`
	Unknown      []inventory.Ref     `json:"unknown" jsonschema:"Unknown are webhooks of which the input does not show whether they can still be called: of a node that goes, their Pods may have been on it."`
}

type Gone struct {
	Down   []string `json:"down,omitempty"`
	Nodes  []string `json:"nodes,omitempty"`
	Delete []string `json:"delete,omitempty"`
}

// Effect is what becomes of the requests that one webhook is called for.
type Effect struct {
	inventory.Ref
	Outcome           Outcome              `json:"outcome" jsonschema:"Outcome is refused, unchecked or unconverted."`
	Deleted           bool                 `json:"deleted,omitempty" jsonschema:"Deleted says that nothing registers the webhook any more."`
	Already           string               `json:"already,omitempty" jsonschema:"Already says why that is so before the change as well; absent where it is not."`
	PreStop           bool                 `json:"preStop,omitempty" jsonschema:"PreStop says that all Pods that leave have a preStop hook, and answer until it ends."`
	Requests          []ResourceOperations `json:"requests" jsonschema:"Requests are those that the webhook is called for."`
	Unserved          []string             `json:"unserved,omitempty" jsonschema:"Unserved are resources of its rules that the input does not have."`
	Namespaces        []string             `json:"namespaces,omitempty" jsonschema:"Namespaces are those that its namespaceSelector selects; absent where it selects all, or the namespaces are not known."`
	NamespaceSelector string               `json:"namespaceSelector,omitempty" jsonschema:"NamespaceSelector is what it asks for; absent where it selects all."`
	Unless            []string             `json:"unless,omitempty" jsonschema:"Unless says what else decides: objectSelector, matchConditions."`
	Stops             []string             `json:"stops,omitempty" jsonschema:"Stops are functions of the cluster that stop."`
}

// Weakened is a webhook that keeps some of its ready endpoints.
type Weakened struct {
	inventory.Ref
	Before int `json:"before"`
	After  int `json:"after"`
}

// compare finds what changed between two Reports. Where a step returns false, the order
// of recovery is not complete.
func compare(step func() bool, c Change, before, after *classify.Report) *Consequences {
	out := &Consequences{
		Change: c.subjects(), Effects: []Effect{}, Recovery: []Wave{}, Stuck: []Blocked{},
		Weakened: []Weakened{}, Evicted: []Evicted{}, Unknown: []inventory.Ref{},
	}
	type identity struct { // legacy configurations may name two alike
		inventory.Ref
		index int
	}
	current := map[identity]*classify.Profile{}
	for _, p := range after.Profiles {
		current[identity{p.Ref, p.Index}] = p
	}
	for _, was := range before.Profiles {
		out.add(c, was, current[identity{was.Ref, was.Index}])
	}
	slices.SortStableFunc(out.Effects, func(a, b Effect) int { return rank(a.Outcome) - rank(b.Outcome) })
	out.Appearing, out.Disappearing = findingChanges(before.Findings, after.Findings)
	out.Evicted = append(out.Evicted, evictions(c, before)...)
	out.Evictions = askedOfEvictions(c, before)
	out.recover(step, c, before, after)
	return out
}

func rank(o Outcome) int { return slices.Index([]Outcome{Refused, Unconverted, Unchecked}, o) }

func (c *Consequences) add(change Change, was, now *classify.Profile) {
	switch {
	case now != nil && was.Type == inventory.Conversion &&
		was.Matcher.ConversionNeed(was.CRD) <= admission.NeverConverted: // nothing calls it
	case now == nil:
		effect := effectOf(was, Unchecked)
		effect.Deleted = true
		c.Effects = append(c.Effects, effect)
	case now.State.Fault != inventory.Sound && was.State.Fault == inventory.Sound:
		effect := effectOf(was, outcomeOf(was))
		effect.PreStop = change.leavesByPreStop(was)
		c.Effects = append(c.Effects, effect)
	case was.State.Fault != inventory.Sound && slices.Contains(change.Services, was.State.Service.Key):
		effect := effectOf(was, outcomeOf(was))
		effect.Already = fmt.Sprintf("Service %s %s", was.State.Service.Key, was.State.Detail)
		c.Effects = append(c.Effects, effect)
	case now.State.Ready < was.State.Ready && onlyForeign(change, was):
		c.Unknown = append(c.Unknown, was.Ref)
	case now.State.Ready < was.State.Ready:
		c.Weakened = append(c.Weakened, Weakened{was.Ref, was.State.Ready, now.State.Ready})
	case !now.State.Known && len(change.Nodes) > 0:
		c.Unknown = append(c.Unknown, was.Ref)
	}
}

// onlyForeign reports whether all Pods that declare the webhook's port leave with the
// nodes, so that the endpoints that stay are those of Pods that may not listen on it.
func onlyForeign(change Change, p *classify.Profile) bool {
	own, foreign := classify.WithoutPort(p, classify.BehindWebhook(p))
	return len(own) > 0 && len(foreign) > 0 && !slices.ContainsFunc(own, func(w *inventory.Workload) bool {
		return len(w.Nodes) == 0 ||
			slices.ContainsFunc(w.Nodes, func(node string) bool { return !slices.Contains(change.Nodes, node) })
	})
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
	e := Effect{Ref: p.Ref, Outcome: outcome, Requests: requestsOf(p)}
	if outcome != Unchecked {
		e.Stops = p.Functions()
	}
	if p.Type == inventory.Conversion {
		return e
	}
	if len(e.Requests) == 0 {
		e.Unserved = ruleResources(p.Rules)
	}
	if !p.NamespaceSelector.Empty() {
		e.NamespaceSelector = p.NamespaceSelector.String()
		if p.Snapshot.NamespacesKnown {
			e.Namespaces = classify.NamespacesOf(p.Snapshot, p.NamespaceSelector)
		}
	}
	if !p.ObjectSelector.Empty() {
		e.Unless = append(e.Unless, "the objectSelector "+p.ObjectSelector.String()+" does not select the object")
	}
	if len(p.MatchConditions) > 0 {
		e.Unless = append(e.Unless, "a matchCondition is false")
	}
	return e
}

// requestsOf are those that the webhook is called for; a conversion is for objects,
// whatever is done with them.
func requestsOf(p *classify.Profile) []ResourceOperations {
	out := []ResourceOperations{}
	if p.Type == inventory.Conversion {
		return append(out, ResourceOperations{p.CRD.Resource, []admission.Operation{}})
	}
	for _, r := range p.Matched {
		out = append(out, ResourceOperations{r.Resource, r.Operations.List()})
	}
	return out
}

func ruleResources(rules []admissionv1.RuleWithOperations) []string {
	var out []string
	for i := range rules {
		for _, r := range classify.RuleResources(&rules[i]) {
			out = append(out, r.String())
		}
	}
	return lists.Distinct(out)
}

func (c *Consequences) Verdict() string {
	var parts []string
	for _, part := range []struct {
		text    string
		selects func(Effect) bool
	}{
		{"requests to %s are refused already", func(e Effect) bool { return e.Already != "" && e.Outcome == Refused }},
		{"requests to %s are refused", func(e Effect) bool { return e.Already == "" && !e.PreStop && e.Outcome == Refused }},
		{"requests to %s are refused once preStop hooks end, unless new Pods are ready by then", func(e Effect) bool { return e.PreStop && e.Outcome == Refused }},
		{"conversions by %s fail already", func(e Effect) bool { return e.Already != "" && e.Outcome == Unconverted }},
		{"conversions by %s fail", func(e Effect) bool { return e.Already == "" && e.Outcome == Unconverted }},
		{"requests pass without %s already", func(e Effect) bool { return e.Already != "" && e.Outcome == Unchecked }},
		{"requests pass without %s", func(e Effect) bool { return e.Already == "" && e.Outcome == Unchecked }},
	} {
		n := 0
		for _, e := range c.Effects {
			if part.selects(e) {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf(part.text, inventory.Counted(n, "webhook")))
		}
	}
	switch {
	case len(parts) > 0:
		return "With " + c.Change.String() + ": " + strings.Join(parts, ", ") + "."
	case len(c.Unknown) > 0:
		return "With " + c.Change.String() + ": no webhook is known to lose its last ready endpoint; of " + inventory.Counted(len(c.Unknown), "webhook") + " it is not known."
	}
	loses := "no webhook that is called loses its last ready endpoint"
	if len(c.Change.Nodes) > 0 && len(c.Weakened)+len(c.Evicted)+len(c.Change.Down)+len(c.Change.Delete) == 0 {
		loses = "no Pod of a webhook is known to run there"
	}
	return "With " + c.Change.String() + ": " + loses + "; requests are answered as before."
}

func (g Gone) String() string {
	parts := lists.Map(g.Down, func(name string) string { return "Service " + name + " down" })
	parts = append(parts, lists.Map(g.Nodes, func(name string) string { return "node " + name + " drained" })...)
	parts = append(parts, lists.Map(g.Delete, func(name string) string { return "configuration " + name + " deleted" })...)
	return strings.Join(parts, ", ")
}

func (e Effect) String() string {
	requests := resourcesText(e.Requests)
	switch {
	case len(e.Requests) > 0:
	case len(e.Unserved) > 0:
		requests = some(e.Unserved) + ", which the API server or the input does not have"
	default:
		requests = "no request, as it has no rules"
	}
	out := fmt.Sprintf("%s webhook %s: %s", e.Type.Title(), e.Name, requests)
	if e.NamespaceSelector != "" {
		out += "; namespaced ones in namespaces that match " + e.NamespaceSelector
	}
	if len(e.Namespaces) > 0 {
		out += " (" + some(e.Namespaces) + ")"
	}
	if len(e.Unless) > 0 {
		out += "; unless " + strings.Join(e.Unless, " or ")
	}
	if e.Already != "" {
		out += "; that is so already: " + e.Already
	}
	return out
}

func (w Weakened) String() string {
	return fmt.Sprintf("%s webhook %s: %d of %d", w.Type.Title(), w.Name, w.After, w.Before)
}

// String counts the Pods that leave, and says what is risky about it.
func (e Evicted) String() string {
	counted := fmt.Sprintf("%s: %d of %s", e.Workload, e.Pods, inventory.Counted(e.OfPods, "Pod"))
	return strings.Join(append([]string{counted}, e.Risks...), "; ")
}

func (b Blocked) String() string {
	out := fmt.Sprintf("Pods that are needed by %s are refused by %s", some(b.Services), some(lists.Map(b.By, Named)))
	if len(b.Steps) > 0 {
		out += ": " + strings.Join(b.Steps, "; ")
	}
	return out
}

// Named is a webhook with what registers it, or a policy.
func Named(r inventory.Ref) string {
	if r.Type.IsPolicy() {
		return r.Type.RegisteredBy().Kind + " " + r.Name
	}
	out := fmt.Sprintf("%s webhook %s", r.Type.Title(), r.Name)
	if r.Type != inventory.Conversion { // the CRD that registers it has its name
		out += " of configuration " + r.Configuration
	}
	return out
}

func (c *Consequences) Order() []string {
	var out []string
	for i, wave := range c.Recovery {
		when := "once those before are ready, which refuse what they need until then"
		if i == 0 {
			when = "no webhook that is down refuses what they need"
		}
		out = append(out, fmt.Sprintf("%d. %s: %s", i+1, strings.Join(wave.Services, ", "), when))
	}
	if c.NotCompared > 0 {
		out = append(out, fmt.Sprintf("That order may be too short: %d pairs of webhooks and Pods are too many to be compared", c.NotCompared))
	}
	return out
}

// Stops are the functions of the cluster that all effects stop, each once.
func (c *Consequences) Stops() []string {
	var out []string
	for _, e := range c.Effects {
		out = append(out, e.Stops...)
	}
	return lists.Once(out)
}
