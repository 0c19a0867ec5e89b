package classify

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// maxNamespaces is how many namespaces a sentence names; of more it has the number.
const maxNamespaces = 3

// Scope says which of the requests for the resources the webhook is called for: it completes
// "CREATE of pods", and is "" where that is all of them.
func Scope(p *Profile, resources []admission.MatchedResource) string {
	return conditional(selectedBy(p.Snapshot, &p.MatchResources, resources), &p.Registration)
}

// policyScope is Scope of an admission policy: as far as its bindings for the resource narrow
// it as well.
func (r *Report) policyScope(p *inventory.AdmissionPolicy, m admission.MatchedResource) string {
	var out []string
	for _, b := range p.Bindings {
		one := *p
		one.Bindings = []*inventory.PolicyBinding{b}
		if both := p.SelectedBy(b); slices.ContainsFunc(r.Matcher.PolicyResources(&one),
			func(o admission.MatchedResource) bool { return o.Resource == m.Resource }) {
			out = append(out, selectedBy(r.Snapshot, &both, []admission.MatchedResource{m}))
		}
	}
	if slices.Contains(out, "") {
		out = nil
	}
	return conditional(strings.Join(lists.Distinct(out), " or"), &p.Registration)
}

// conditional adds the matchConditions to what narrows requests.
func conditional(out string, r *inventory.Registration) string {
	var conditions string
	switch n := len(r.MatchConditions); n {
	case 0:
		return out
	case 1:
		conditions = fmt.Sprintf("matchCondition %s is true", r.MatchConditions[0].Name)
	default:
		conditions = fmt.Sprintf("all of %d matchConditions are true", n)
	}
	if strings.Contains(out, " where ") {
		return out + " and " + conditions
	}
	return out + " where " + conditions
}

// selectedBy is Scope as far as the selectors decide. Objects without a namespace are selected
// whatever the namespaceSelector says, but for Namespaces.
func selectedBy(s *inventory.Snapshot, m *inventory.MatchResources, resources []admission.MatchedResource) string {
	out, clusterScoped := "", 0
	for _, r := range resources {
		if !r.Namespaced && r.Resource != (inventory.Resource{Name: "namespaces"}) {
			clusterScoped++
		}
	}
	if clusterScoped < len(resources) || len(resources) == 0 {
		out = inNamespaces(s, m.NamespaceSelector)
	}
	if out != "" && clusterScoped > 0 {
		out += ", or without a namespace,"
	}
	if !m.ObjectSelector.Empty() {
		out += " where labels match " + m.ObjectSelector.String()
	}
	return out
}

// inNamespaces names the namespaces that the selector selects, counts more than a few, and is
// "" where that is all of them.
func inNamespaces(s *inventory.Snapshot, selector inventory.Selector) string {
	if selector.Empty() || selector.Parsed == nil {
		return ""
	}
	names, all := NamespacesOf(s, selector), len(s.Namespaces)
	named, isList := namesIn(selector)
	requirements, _ := selector.Parsed.Requirements()
	switch {
	case !s.NamespacesKnown && (!isList || len(named) > maxNamespaces || len(requirements) > 1): // the others want labels
		return " in namespaces that match " + selector.String()
	case !s.NamespacesKnown:
		names = lists.Distinct(named)
	case len(names) == all:
		return ""
	case len(names) == 0: // a new one may be
		return " in namespaces that match " + selector.String() + " (none now)"
	case len(names) > maxNamespaces:
		return fmt.Sprintf(" in %d of %d namespaces", len(names), all)
	}
	if len(names) == 1 {
		return " in namespace " + names[0]
	}
	return " in namespaces " + sentence(names, 0)
}

func NamespacesOf(s *inventory.Snapshot, selector inventory.Selector) []string {
	candidates, isList := namesIn(selector)
	if !isList {
		candidates = slices.Collect(maps.Keys(s.Namespaces))
	}
	out := []string{}
	for _, name := range candidates {
		if namespace, exists := s.Namespaces[name]; exists && selector.Parsed.Matches(labels.Set(namespace.Labels)) {
			out = append(out, name)
		}
	}
	return lists.Distinct(out)
}

// namesIn are the namespaces that the selector could select, where it names them: no others
// have to be asked.
func namesIn(selector inventory.Selector) (names []string, isList bool) {
	requirements, _ := selector.Parsed.Requirements()
	for _, r := range requirements {
		if o := r.Operator(); r.Key() == corev1.LabelMetadataName && (o == selection.In || o == selection.Equals) {
			return r.ValuesUnsorted(), true
		}
	}
	return nil, false
}
