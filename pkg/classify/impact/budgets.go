package impact

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// BudgetChange is requests whose chain of webhooks can hold them up longer, or less
// long, than before, in the namespace where that is worst.
type BudgetChange struct {
	Before, After time.Duration
	Resources     []ResourceOperations
}

// BudgetChanges are those of all requests that the changed webhooks match, what
// takes most time more first.
func BudgetChanges(changes []Registration, before, after *admission.Matcher) []BudgetChange {
	affected := map[resourceOperation]bool{}
	for _, r := range changes {
		for _, m := range []*admission.Matcher{before, after} {
			for _, w := range m.Snapshot.Webhooks {
				if w.Type == r.Type && w.Configuration == r.Configuration && w.Type != inventory.Conversion {
					addMatched(affected, m, w)
				}
			}
		}
	}
	was, now := worstCases(before, affected), worstCases(after, affected)
	type totals struct{ before, after time.Duration }
	found := map[totals]*Requests{}
	for _, r := range slices.SortedFunc(maps.Keys(affected), resourceOperation.compare) {
		t := totals{was[r], now[r]}
		if t.before == t.after {
			continue
		}
		if found[t] == nil {
			found[t] = &Requests{}
		}
		found[t].add(r)
	}
	var out []BudgetChange
	for t, requests := range found {
		out = append(out, BudgetChange{t.before, t.after, requests.Resources})
	}
	slices.SortFunc(out, func(a, b BudgetChange) int {
		return cmp.Or(cmp.Compare(b.After-b.Before, a.After-a.Before), cmp.Compare(b.After, a.After))
	})
	return out
}

// addMatched adds what a webhook matches.
func addMatched(found map[resourceOperation]bool, m *admission.Matcher, w *inventory.Webhook) {
	for _, r := range m.MatchedResources(w) {
		for _, op := range r.Operations.List() {
			// A Namespace is cluster-scoped, and selected as its own namespace.
			found[resourceOperation{r.Resource, op, r.Namespaced || r.Resource.IsNamespaces()}] = true
		}
	}
}

// worstCases are how long the webhooks can hold up requests, in the namespace where
// that is worst.
func worstCases(m *admission.Matcher, requests map[resourceOperation]bool) map[resourceOperation]time.Duration {
	called := map[resourceOperation][]*inventory.Webhook{}
	for _, w := range m.Snapshot.Webhooks {
		if w.Type == inventory.Conversion {
			continue
		}
		matched := map[resourceOperation]bool{}
		addMatched(matched, m, w)
		for r := range matched {
			if requests[r] {
				called[r] = append(called[r], w)
			}
		}
	}
	out := map[resourceOperation]time.Duration{}
	kinds := namespaceKinds(m.Snapshot, called)
	for r, webhooks := range called {
		for _, kind := range kinds {
			var b admission.Budget
			for _, w := range webhooks {
				if !r.namespaced || kind.selects(w) {
					b = b.Add(w, r.operation)
				}
			}
			out[r] = max(out[r], b.Total())
		}
	}
	return out
}

// namespaceKind is what the selectors say of a namespace, by their keys; of nil,
// which stands for namespaces that are not known, all select it.
type namespaceKind map[string]bool

func (k namespaceKind) selects(w *inventory.Webhook) bool {
	return k == nil || k[w.NamespaceSelector.Key]
}

// namespaceKinds are those of the namespaces that the webhooks' selectors treat
// otherwise than each other.
func namespaceKinds(s *inventory.Snapshot, called map[resourceOperation][]*inventory.Webhook) []namespaceKind {
	selectors := map[string]inventory.Selector{}
	for _, webhooks := range called {
		for _, w := range webhooks {
			selectors[w.NamespaceSelector.Key] = w.NamespaceSelector
		}
	}
	if !s.NamespacesKnown || len(s.Namespaces) == 0 {
		return []namespaceKind{nil}
	}
	keys := slices.Sorted(maps.Keys(selectors))
	seen := map[string]bool{}
	var out []namespaceKind
	for _, namespace := range s.Namespaces {
		kind, id := namespaceKind{}, make([]byte, len(keys))
		for i, key := range keys {
			if selectors[key].Empty() || selectors[key].Parsed.Matches(labels.Set(namespace.Labels)) {
				kind[key], id[i] = true, 1
			}
		}
		if !seen[string(id)] {
			seen[string(id)] = true
			out = append(out, kind)
		}
	}
	return out
}

// String says by how much the worst case changes.
func (b BudgetChange) String() string {
	verb := "grows"
	if b.After < b.Before {
		verb = "falls"
	}
	return fmt.Sprintf("the worst case of %s %s from %s to %s", resourcesText(b.Resources), verb, text.Seconds(b.Before), text.Seconds(b.After))
}

// resourcesText lists resources with their operations, those of the same operations
// together.
func resourcesText(list []ResourceOperations) string {
	var order []string
	byOperations := map[string][]string{}
	for _, r := range list {
		key := strings.Join(text.Strings(r.Operations), "/")
		if byOperations[key] == nil {
			order = append(order, key)
		}
		byOperations[key] = append(byOperations[key], r.Resource.String())
	}
	for i, key := range order {
		order[i] = key + " of " + some(byOperations[key])
	}
	return strings.Join(order, "; ")
}
