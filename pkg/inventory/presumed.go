package inventory

import (
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// Presumed reports whether nothing but a rule shows that the resource is served: its kind
// is unknown, nor its scope for certain.
func (s Served) Presumed() bool { return s.Kind == "" }

// presumed are the resources that rules name and the input does not show, in the groups
// that it need not show: a chart is rendered without its CRDs. A rule of several groups names
// each resource in each of them: one that is shown in another group is not presumed in a
// group of which others are shown.
func (s *Snapshot) presumed() []Served {
	if s.ResourcesKnown {
		return nil
	}
	present := map[Resource]bool{}
	for _, served := range s.Served {
		present[served.Parent()] = true
	}
	for _, crd := range s.CRDs {
		present[crd.Resource] = true
	}
	groups := map[string]bool{}
	for r := range present {
		groups[r.Group] = true
	}
	var out []Served
	for _, rule := range s.rules() {
		for _, group := range rule.APIGroups {
			if group == "*" || WithoutCRDs(group) {
				continue
			}
			out = append(out, slices.DeleteFunc(namedBy(rule, group, present), func(r Served) bool {
				return groups[group] && slices.ContainsFunc(rule.APIGroups, func(other string) bool {
					return present[Resource{Group: other, Name: r.Name}]
				})
			})...)
		}
	}
	slices.SortStableFunc(out, CompareServed)
	return slices.CompactFunc(out, func(a, b Served) bool { return CompareServed(a, b) == 0 })
}

// Presume is the Snapshot with a resource that the input does not show, of a group of which
// a rule covers all resources; nil where none does, or the input shows what is served.
func (s *Snapshot) Presume(r Resource) *Snapshot {
	covers := func(rule *admissionv1.RuleWithOperations) bool {
		return (slices.Contains(rule.APIGroups, r.Group) || slices.Contains(rule.APIGroups, "*")) &&
			(slices.Contains(rule.Resources, "*") || slices.Contains(rule.Resources, "*/*"))
	}
	if s.ResourcesKnown || WithoutCRDs(r.Group) || !slices.ContainsFunc(s.rules(), covers) {
		return nil
	}
	out := *s
	out.Served = append(slices.Clone(s.Served),
		Served{Resource: r.Parent(), Version: "v1", Namespaced: true, Verbs: storedVerbs})
	if r.Subresource != "" {
		out.Served = append(out.Served, Served{Resource: r, Version: "v1", Namespaced: true, Verbs: subresourceVerbs})
	}
	return &out
}

// WithoutCRDs reports whether no CRD is of the group: it is one of Kubernetes' own, or, as
// "core" and "apps/v1", no domain with a dot. Source: k8s.io/apiextensions-apiserver
// pkg/apis/apiextensions/validation.
func WithoutCRDs(group string) bool {
	domain := group == "*" || strings.Contains(group, ".") && !strings.Contains(group, "/")
	return !domain || IsBuiltinGroup(group)
}

// IsBuiltinGroup reports whether the group is one of Kubernetes' own, of which files need not
// show what is served.
func IsBuiltinGroup(group string) bool {
	return slices.ContainsFunc(Builtins(Newest, false), func(r Served) bool { return r.Group == group })
}

// NotServed says of a resource of the group that is not among those served what follows
// for it.
func (s *Snapshot) NotServed(group string) string {
	if s.ResourcesKnown || WithoutCRDs(group) {
		return "the API server does not serve it"
	}
	return "no CRD of it is in the input, and no rule names it"
}

func (s *Snapshot) rules() []*admissionv1.RuleWithOperations {
	var out []*admissionv1.RuleWithOperations
	for _, w := range s.Webhooks {
		for i := range w.Rules {
			out = append(out, &w.Rules[i])
		}
	}
	for _, p := range s.Policies {
		for i := range p.Rules {
			out = append(out, &p.Rules[i])
		}
	}
	return out
}

// namedBy are the resources of the group that the rule names, each with its parent, in the
// versions that it names.
func namedBy(rule *admissionv1.RuleWithOperations, group string, servedResources map[Resource]bool) []Served {
	var out []Served
	for _, name := range rule.Resources {
		plain, sub, _ := strings.Cut(name, "/")
		r := Resource{Group: group, Name: plain}
		if plain == "" || plain == "*" || servedResources[r] {
			continue
		}
		subresources := []string{sub}
		if sub == "*" {
			subresources = []string{"status", "scale"} // those that custom resources may have
		}
		for _, version := range rule.APIVersions {
			if version == "*" {
				version = "v1"
			}
			one := Served{
				Resource: r, Version: version,
				Namespaced: ptr.Deref(rule.Scope, admissionv1.AllScopes) != admissionv1.ClusterScope,
				Verbs:      storedVerbs,
			}
			out = append(out, one)
			for _, sub := range subresources {
				if one.Subresource, one.Verbs = sub, subresourceVerbs; sub != "" {
					out = append(out, one)
				}
			}
		}
	}
	return out
}
