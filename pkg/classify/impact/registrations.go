package impact

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

type Edit string

const (
	Added   Edit = "added"
	Deleted Edit = "deleted"
	Changed Edit = "changed"
)

// Registration is a configuration, or a CRD with a conversion webhook, that
// registers other webhooks than before, or registers them otherwise.
type Registration struct {
	Type          inventory.Type  `json:"type"`
	Configuration string          `json:"configuration"`
	Edit          Edit            `json:"edit" jsonschema:"Edit is added, deleted or changed."`
	UID           string          `json:"-"`
	Written       inventory.Write `json:"written,omitzero" jsonschema:"Written is the newest write that the object records; absent where there is no record."`
	Webhooks      []WebhookChange `json:"webhooks" jsonschema:"Webhooks are those that changed, those deleted last."`
	Order         []string        `json:"order,omitempty" jsonschema:"Order names the mutating webhooks in the order in which they are called now; absent where that did not change."`
}

type WebhookChange struct {
	inventory.Ref
	Edit        Edit                 `json:"edit" jsonschema:"Edit is added, deleted or changed."`
	Sentences   []string             `json:"sentences" jsonschema:"Sentences say it in words: each follows \"webhook NAME: \"."`
	Gained      []ResourceOperations `json:"gained" jsonschema:"Gained are resources and operations that the webhook matches now and did not before; Lost is the reverse."`
	Lost        []ResourceOperations `json:"lost"`
	Fields      []FieldChange        `json:"fields"`
	NotCompared []string             `json:"notCompared,omitempty" jsonschema:"NotCompared are fields that changed and choose requests by what the requests hold: which requests come and go by that is not compared."`
}

type ResourceOperations struct {
	Resource   inventory.Resource    `json:"resource"`
	Operations []admission.Operation `json:"operations"`
}

// Difference is how the registrations of two Reports differ, and what that costs.
type Difference struct {
	Registrations []Registration `json:"registrations" jsonschema:"Registrations are the configurations, and CRDs with a conversion webhook, that register other webhooks, or register them otherwise."`
	Policies      []string       `json:"policies,omitempty" jsonschema:"Policies are admission policies that differ, and the fields: what that does to requests is not compared."`
	Unread        []string       `json:"unread,omitempty" jsonschema:"Unread are registrations and policies that one side has, and of which the other side was not read: it may have them, too. Budgets are not compared then."`
	Budgets       []BudgetChange `json:"budgets" jsonschema:"Budgets are requests for critical resources whose webhooks can hold them up longer, or less long, in the namespace where that is worst."`
}

func Compare(before, after *classify.Report) Difference {
	registrations, unread := registrations(before.Matcher, after.Matcher)
	policies, others := differentPolicies(before.Snapshot, after.Snapshot)
	d := Difference{
		Registrations: append([]Registration{}, registrations...), Policies: lists.Map(policies, policyChange.String),
		Budgets: []BudgetChange{},
	}
	for _, r := range slices.Concat(unread, others) {
		d.Unread = append(d.Unread, r.Type.RegisteredBy().Kind+" "+r.Configuration)
	}
	if len(unread) == 0 {
		d.Budgets = append(d.Budgets, budgetChanges(before, after)...)
	}
	return d
}

// policyChange is a policy that differs, and the fields.
type policyChange struct {
	Registration
	fields []string
}

func (c policyChange) String() string {
	fields := c.fields
	if c.Edit != Changed {
		fields = []string{string(c.Edit)}
	}
	return fmt.Sprintf("%s %s (%s)", c.Type.RegisteredBy().Kind, c.Configuration, strings.Join(fields, ", "))
}

// differentPolicies are the admission policies that differ; unread are those that one side
// has, and the other may have.
func differentPolicies(before, after *inventory.Snapshot) (out []policyChange, unread []inventory.Ref) {
	all, unread := sides(before, after, before.Policies, after.Policies,
		func(p *inventory.AdmissionPolicy) *inventory.Registration { return &p.Registration })
	for _, s := range all {
		var fields []string
		if s.Edit == Changed {
			fields = differentFields(s.was[0], s.now[0])
		}
		if s.Edit != Changed || len(fields) > 0 {
			out = append(out, policyChange{s.Registration, fields})
		}
	}
	return out, unread
}

// side is a registration of two Snapshots that may differ.
type side[T any] struct {
	Registration
	was, now []T
}

// sides are the registrations of two Snapshots in the order of the later one, those that are gone
// last; unread are those that one has, and the other may have.
func sides[T comparable](before, after *inventory.Snapshot, was, now []T,
	registration func(T) *inventory.Registration,
) (out []side[T], unread []inventory.Ref) {
	byRef := map[inventory.Ref]*side[T]{}
	var keys []inventory.Ref
	sideOf := func(value T) *side[T] {
		key := registration(value).WithoutName()
		if byRef[key] == nil {
			keys, byRef[key] = append(keys, key), &side[T]{Registration: Registration{
				Type: key.Type, Configuration: key.Configuration, Edit: Changed, UID: registration(value).Object.UID,
				Webhooks: []WebhookChange{},
			}}
		}
		return byRef[key]
	}
	for _, value := range now {
		s := sideOf(value)
		s.now, s.Written = append(s.now, value), registration(value).Object.LastWrite
	}
	for _, value := range was {
		s := sideOf(value)
		s.was = append(s.was, value)
	}
	for _, key := range keys {
		s := byRef[key]
		switch {
		case slices.Equal(s.was, s.now): // several Snapshots share what did not change
			continue
		case len(s.was) == 0 && before.Unread(key) || len(s.now) == 0 && after.Unread(key):
			unread = append(unread, key)
			continue
		case len(s.was) == 0:
			s.Edit = Added
		case len(s.now) == 0:
			s.Edit = Deleted
		}
		out = append(out, *s)
	}
	return out, unread
}

// differentFields are those of a policy and its bindings.
func differentFields(was, now *inventory.AdmissionPolicy) []string {
	matched := func(m *inventory.MatchResources) []any {
		return []any{m.RuleSet, m.Excluded, m.MatchPolicy, m.NamespaceSelector.Key, m.ObjectSelector.Key}
	}
	bindings := func(p *inventory.AdmissionPolicy) (out []any) {
		for _, b := range p.Bindings {
			out = append(out, b.Object.Name, b.Actions, b.ParamRef, matched(&b.MatchResources))
		}
		return out
	}
	var out []string
	for _, f := range []struct {
		name     string
		was, now any
	}{
		{fmt.Sprintf("failurePolicy %s → %s", was.FailurePolicy, now.FailurePolicy), was.FailurePolicy, now.FailurePolicy},
		{"reinvocationPolicy", was.Reinvocation, now.Reinvocation},
		{"matchConstraints", matched(&was.MatchResources), matched(&now.MatchResources)},
		{"matchConditions", was.MatchConditions, now.MatchConditions},
		{"paramKind", was.ParamKind, now.ParamKind},
		{"variables", was.Variables, now.Variables},
		{"validations", was.Validations, now.Validations},
		{"mutations", was.Mutations, now.Mutations},
		{"auditAnnotations", was.AuditAnnotations, now.AuditAnnotations},
		{"bindings", bindings(was), bindings(now)},
	} {
		if !equality.Semantic.DeepEqual(f.was, f.now) {
			out = append(out, f.name)
		}
	}
	return out
}

// registrations are what differs between the registrations of two Snapshots: configurations in the
// order of their webhooks, those deleted last; unread are those that one has, and the other may have.
func registrations(before, after *admission.Matcher) (out []Registration, unread []inventory.Ref) {
	all, unread := sides(before.Snapshot, after.Snapshot, before.Snapshot.Webhooks, after.Snapshot.Webhooks,
		func(w *inventory.Webhook) *inventory.Registration { return &w.Registration })
	for _, s := range all {
		r, pairs := s.Registration, pair(s.was, s.now)
		for _, p := range pairs {
			p.crdBefore, p.crdAfter = before.Snapshot.CRDs[r.Configuration], after.Snapshot.CRDs[r.Configuration]
			if w, differs := p.change(before, after); differs {
				r.Webhooks = append(r.Webhooks, w)
			}
		}
		r.Order = reordered(r.Type, pairs)
		if len(r.Webhooks)+len(r.Order) > 0 {
			out = append(out, r)
		}
	}
	return out, unread
}

// webhookPair is a webhook before and after; one of them may be nil.
type webhookPair struct {
	was, now *inventory.Webhook
	// crdBefore and crdAfter are the CRD of a conversion, also where it has no webhook.
	crdBefore, crdAfter *inventory.CRD
}

// pair pairs the webhooks by their names, and those of one name by their order.
func pair(was, now []*inventory.Webhook) []webhookPair {
	byName := map[string][]*inventory.Webhook{}
	for _, w := range was {
		byName[w.Name] = append(byName[w.Name], w)
	}
	var out []webhookPair
	for _, w := range now {
		p := webhookPair{now: w}
		if rest := byName[w.Name]; len(rest) > 0 {
			p.was, byName[w.Name] = rest[0], rest[1:]
		}
		out = append(out, p)
	}
	for _, w := range was {
		if slices.Contains(byName[w.Name], w) {
			out = append(out, webhookPair{was: w})
		}
	}
	return out
}

// reordered are the names of the mutating webhooks in the order in which they are
// called, where that changed: configurations are called in the order of their names,
// so that only those of one configuration change places.
func reordered(t inventory.Type, all []webhookPair) []string {
	pairs := slices.DeleteFunc(slices.Clone(all), func(p webhookPair) bool { return p.was == nil || p.now == nil })
	inOrder := slices.IsSortedFunc(pairs, func(a, b webhookPair) int { return a.was.Index - b.was.Index })
	if t != inventory.Mutating || inOrder {
		return nil
	}
	return lists.Map(pairs, func(p webhookPair) string { return p.now.Name })
}

// change is what changed of the webhook but its place.
func (p webhookPair) change(before, after *admission.Matcher) (out WebhookChange, differs bool) {
	out = WebhookChange{Edit: Changed, Gained: []ResourceOperations{}, Lost: []ResourceOperations{}}
	if p.was == p.now {
		return out, false
	}
	switch {
	case p.was == nil:
		out.Ref, out.Edit = p.now.Ref, Added
	case p.now == nil:
		out.Ref, out.Edit = p.was.Ref, Deleted
	default:
		out.Ref, out.NotCompared = p.now.Ref, p.notCompared()
	}
	if p.matchesOthers() {
		out.Gained, out.Lost = onlyIn(after, p.now, before, p.was), onlyIn(before, p.was, after, p.now)
	}
	out.Fields = p.fields()
	out.Sentences = out.sentences(p)
	return out, out.Edit != Changed || len(out.Fields) > 0
}

// matchesOthers reports whether the webhook may match other resources than before.
func (p webhookPair) matchesOthers() bool {
	return cmp.Or(p.now, p.was).Type != inventory.Conversion &&
		(p.was == nil || p.now == nil || admission.MatchKey(p.was) != admission.MatchKey(p.now))
}

// onlyIn are the resources and operations that w matches and o does not; either may
// be nil.
func onlyIn(m *admission.Matcher, w *inventory.Webhook, others *admission.Matcher,
	o *inventory.Webhook,
) []ResourceOperations {
	out := []ResourceOperations{}
	if w == nil {
		return out
	}
	matched := map[inventory.Resource]admission.Operations{}
	if o != nil {
		for _, r := range others.MatchedResources(o) {
			matched[r.Resource] = r.Operations
		}
	}
	for _, r := range m.MatchedResources(w) {
		if more := r.Operations &^ matched[r.Resource]; more != 0 {
			out = append(out, ResourceOperations{r.Resource, more.List()})
		}
	}
	return out
}

// BudgetChange is requests for critical resources whose webhooks can hold them up
// longer, or less long, than before, in the namespace where that is worst.
type BudgetChange struct {
	Requests      []ResourceOperations `json:"requests"`
	BeforeSeconds float64              `json:"beforeSeconds"`
	AfterSeconds  float64              `json:"afterSeconds"`
}

// budgetChanges compares the costs of two Reports: what takes most time more first.
func budgetChanges(before, after *classify.Report) []BudgetChange {
	type request struct {
		inventory.Resource
		admission.Operation
	}
	was := map[request]time.Duration{}
	for _, c := range before.Costs {
		was[request{c.Resource, c.Operation}] = c.Total()
	}
	var out []BudgetChange
	for _, c := range after.Costs {
		b := BudgetChange{
			BeforeSeconds: was[request{c.Resource, c.Operation}].Seconds(), AfterSeconds: c.Total().Seconds(),
		}
		if b.BeforeSeconds == b.AfterSeconds {
			continue
		}
		i := slices.IndexFunc(out, func(o BudgetChange) bool {
			return o.BeforeSeconds == b.BeforeSeconds && o.AfterSeconds == b.AfterSeconds
		})
		if i < 0 {
			i, out = len(out), append(out, b)
		}
		out[i].add(c.Resource, c.Operation)
	}
	slices.SortStableFunc(out, func(a, b BudgetChange) int {
		return cmp.Or(cmp.Compare(b.AfterSeconds-b.BeforeSeconds, a.AfterSeconds-a.BeforeSeconds),
			cmp.Compare(b.AfterSeconds, a.AfterSeconds))
	})
	return out
}

// add adds a request; those for a resource come one after the other.
func (b *BudgetChange) add(r inventory.Resource, o admission.Operation) {
	if last := len(b.Requests) - 1; last >= 0 && b.Requests[last].Resource == r {
		b.Requests[last].Operations = append(b.Requests[last].Operations, o)
		return
	}
	b.Requests = append(b.Requests, ResourceOperations{r, []admission.Operation{o}})
}

func (b BudgetChange) String() string {
	verb := "grows"
	if b.AfterSeconds < b.BeforeSeconds {
		verb = "falls"
	}
	return fmt.Sprintf("the worst case of %s %s from %s to %s", resourcesText(b.Requests), verb, seconds(b.BeforeSeconds), seconds(b.AfterSeconds))
}

func seconds(s float64) string { return text.Seconds(time.Duration(s * float64(time.Second))) }
