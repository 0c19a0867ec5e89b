package impact

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/start"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Requests are those to some resources on which the answers of a webhook before
// and after are the same.
type Requests struct {
	// Before and After say whether it is called.
	Before, After admission.Match
	// Resources are sorted, each with the operations.
	Resources []ResourceOperations
	// Namespaces are those of the requests, sorted; nil of cluster-scoped resources.
	// A Namespace counts as its own.
	Namespaces []string
	// Every says that they are all namespaces that were asked about.
	Every bool
}

// ResourceOperations are operations on a resource.
type ResourceOperations struct {
	Resource   inventory.Resource
	Operations []admission.Operation
}

// OtherNamespaces stands for the namespaces that the input does not have, where it
// does not have all.
const OtherNamespaces = ""

// maxAsked bounds the requests that one webhook is asked about before and after,
// where its matchConditions may depend on the namespace: a fraction of a second.
const maxAsked = 50_000

// place is namespaces whose requests have the same answers, and one of them.
type place struct {
	names  []string
	sample string
}

// requests returns the requests that the webhook is called for now and was not, and
// the reverse: each resource and operation that either matches, in each place, is
// asked about before and after.
func (c comparison) requests(p webhookPair) (gained, lost []Requests, sampled bool) {
	resources := c.resources(p)
	if len(resources) == 0 {
		return nil, nil, false
	}
	names, all := c.namespaces(p)
	places, sampled := c.places(p, names, len(resources))
	found := map[answerPair]map[resourceOperation][]string{}
	for _, r := range resources {
		for _, place := range placesOf(r, places) {
			if !c.step() {
				return nil, nil, false
			}
			a := answerPair{c.answer(c.before, p.was, r, place.sample), c.answer(c.after, p.now, r, place.sample)}
			if a.before == a.after {
				continue
			}
			if found[a] == nil {
				found[a] = map[resourceOperation][]string{}
			}
			found[a][r] = append(found[a][r], place.names...)
		}
	}
	for _, a := range []answerPair{{admission.No, admission.Yes}, {admission.No, admission.Maybe}, {admission.Maybe, admission.Yes}} {
		gained = append(gained, grouped(a, found[a], all)...)
		a = answerPair{a.after, a.before}
		lost = append(lost, grouped(a, found[a], all)...)
	}
	return gained, lost, sampled
}

// answerPair is whether a webhook is called, before and after.
type answerPair struct{ before, after admission.Match }

// resourceOperation is one operation on a resource.
type resourceOperation struct {
	resource   inventory.Resource
	operation  admission.Operation
	namespaced bool
}

func (r resourceOperation) compare(o resourceOperation) int {
	order := []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect}
	return cmp.Or(r.resource.Compare(o.resource), cmp.Compare(slices.Index(order, r.operation), slices.Index(order, o.operation)))
}

// answer is whether the webhook is called for the requests of a namespace.
func (c comparison) answer(m *admission.Matcher, w *inventory.Webhook, r resourceOperation, namespace string) admission.Match {
	if w == nil || !slices.Contains(m.Operations(r.resource), r.operation) {
		return admission.No
	}
	return m.Intercepts(w, r.resource, r.operation, namespace).Match
}

// resources are those that the webhook matches before or after, sorted.
func (c comparison) resources(p webhookPair) []resourceOperation {
	found := map[resourceOperation]bool{}
	if p.was != nil {
		addMatched(found, c.before, p.was)
	}
	if p.now != nil {
		addMatched(found, c.after, p.now)
	}
	return slices.SortedFunc(maps.Keys(found), resourceOperation.compare)
}

// placesOf are the places of the requests to a resource: one without a namespace
// where it is cluster-scoped.
func placesOf(r resourceOperation, places []place) []place {
	if r.namespaced {
		return places
	}
	return []place{{names: []string{OtherNamespaces}}}
}

// places are the namespaces, grouped by what the selectors say of them; each for
// itself where a matchCondition may ask for its name, unless there are too many.
func (c comparison) places(p webhookPair, names []string, resources int) (out []place, sampled bool) {
	each := asksForNames(p.was) || asksForNames(p.now)
	sampled = each && len(names)*resources > maxAsked
	at := map[string]int{}
	for _, name := range names {
		if !c.step() {
			return nil, false
		}
		key := selections(c.before, p.was, name) + selections(c.after, p.now, name)
		i, known := at[key]
		if !known || each && !sampled {
			i, at[key] = len(out), len(out)
			out = append(out, place{sample: name})
		}
		out[i].names = append(out[i].names, name)
	}
	return out, sampled
}

// label is a label of a namespace.
type label struct{ key, value string }

// namespaceIndex has the namespaces of two Snapshots, sorted, and by their labels in
// either.
type namespaceIndex struct {
	names   []string
	byLabel map[label][]string
}

// newComparison compares two Snapshots. Most changes are of something that no request
// depends on: the namespaces are not indexed for those.
func newComparison(before, after *admission.Matcher, step start.Step) comparison {
	return comparison{before: before, after: after, step: step, index: sync.OnceValue(func() namespaceIndex {
		return newNamespaceIndex(before.Snapshot, after.Snapshot)
	})}
}

func newNamespaceIndex(snapshots ...*inventory.Snapshot) namespaceIndex {
	out := namespaceIndex{byLabel: map[label][]string{}}
	for _, s := range snapshots {
		for name, namespace := range s.Namespaces {
			out.names = append(out.names, name)
			own := label{corev1.LabelMetadataName, name} // also where the other does not have it
			out.byLabel[own] = append(out.byLabel[own], name)
			for key, value := range namespace.Labels {
				out.byLabel[label{key, value}] = append(out.byLabel[label{key, value}], name)
			}
		}
	}
	out.names = text.Distinct(out.names)
	return out
}

// namespaces are those that either Snapshot has and a selector may select, sorted, and
// how many there are at all. Where one does not have all, they are all, also those that
// the selectors name, and others.
func (c comparison) namespaces(p webhookPair) (names []string, all int) {
	if c.before.Snapshot.NamespacesKnown && c.after.Snapshot.NamespacesKnown {
		return text.Distinct(append(c.selectable(p.was), c.selectable(p.now)...)), len(c.index().names)
	}
	names = append(slices.Clone(c.index().names), OtherNamespaces)
	if p.was != nil && !c.before.Snapshot.NamespacesKnown {
		names = append(names, namedIn(p.was.NamespaceSelector)...)
	}
	if p.now != nil && !c.after.Snapshot.NamespacesKnown {
		names = append(names, namedIn(p.now.NamespaceSelector)...)
	}
	names = text.Distinct(names)
	return names, len(names)
}

// selectable are the namespaces of either Snapshot that the webhook's selector may
// select: those with one of the values that it wants of a label, else all.
func (c comparison) selectable(w *inventory.Webhook) []string {
	if w == nil {
		return nil
	}
	requirements, _ := w.NamespaceSelector.Parsed.Requirements()
	i := slices.IndexFunc(requirements, func(r labels.Requirement) bool {
		return r.Operator() == selection.In || r.Operator() == selection.Equals
	})
	if i < 0 {
		return slices.Clone(c.index().names)
	}
	var out []string
	for _, value := range requirements[i].ValuesUnsorted() {
		out = append(out, c.index().byLabel[label{requirements[i].Key(), value}]...)
	}
	return out
}

// namedIn are the namespaces that the selector selects, or excludes, by name.
func namedIn(s inventory.Selector) []string {
	var out []string
	requirements, _ := s.Parsed.Requirements()
	for _, r := range requirements {
		if r.Key() == corev1.LabelMetadataName {
			out = append(out, r.ValuesUnsorted()...)
		}
	}
	return out
}

// selections are the same for namespaces that the webhook's selectors treat alike;
// the objectSelector is asked about Namespaces.
func selections(m *admission.Matcher, w *inventory.Webhook, namespace string) string {
	if w == nil {
		return ""
	}
	known, exists := m.Snapshot.NamespaceLabels(namespace)
	var out strings.Builder
	for _, s := range []inventory.Selector{w.NamespaceSelector, w.ObjectSelector} {
		switch {
		case s.Empty():
			out.WriteByte('*')
		case !exists && (!m.Snapshot.NamespacesKnown || namespace == OtherNamespaces):
			fmt.Fprintf(&out, "%q", namespace) // some of its labels are not known
		default:
			fmt.Fprint(&out, s.Parsed.Matches(labels.Set(known)))
		}
	}
	return out.String()
}

// asksForNames reports whether a matchCondition may depend on the namespace of a
// request, or on the name of a Namespace.
func asksForNames(w *inventory.Webhook) bool {
	return w != nil && slices.ContainsFunc(w.MatchConditions, func(c admissionv1.MatchCondition) bool { return strings.Contains(c.Expression, "name") })
}

// grouped joins the requests that are in the same namespaces, and those of
// resources that have the same operations there.
func grouped(a answerPair, found map[resourceOperation][]string, all int) []Requests {
	byNamespaces := map[string]*Requests{}
	var order []string
	for _, r := range slices.SortedFunc(maps.Keys(found), resourceOperation.compare) {
		names := found[r]
		slices.Sort(names)
		key := "cluster"
		if r.namespaced {
			key = "in " + strings.Join(names, ",")
		}
		group := byNamespaces[key]
		if group == nil {
			group = &Requests{Before: a.before, After: a.after}
			if r.namespaced {
				group.Namespaces, group.Every = names, len(names) == all
			}
			byNamespaces[key], order = group, append(order, key)
		}
		group.add(r)
	}
	var out []Requests
	for _, key := range order {
		out = append(out, *byNamespaces[key])
	}
	return out
}

func (r *Requests) add(o resourceOperation) {
	last := len(r.Resources) - 1
	if last < 0 || r.Resources[last].Resource != o.resource {
		r.Resources = append(r.Resources, ResourceOperations{Resource: o.resource})
		last++
	}
	r.Resources[last].Operations = append(r.Resources[last].Operations, o.operation)
}
