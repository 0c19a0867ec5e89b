package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

const maxCompared = 50

// LikelyService is the Service that a reference to a missing one most likely means: one of
// the namespace with almost its name, else the one of its name in another namespace. It is
// false where there is none, or where several are as likely.
func (s *Snapshot) LikelyService(missing ServiceRef) (Key, bool) {
	p := s.place()
	placed := p.services[missing.Namespace]
	if slices.Contains(p.unplaced, missing.Name) || len(placed)+len(p.unplaced) > maxCompared {
		return Key{}, false // the installer adds its own namespace where a file states none
	}
	names := slices.Concat(placed, p.unplaced)
	isNear := func(name string) bool {
		other := Key{missing.Namespace, name}
		part := isPartOf(missing.Name, name) && !p.called[other] && s.Services[other].mayHave(missing.Port)
		return part || isMisspelt(missing.Name, name) || wordKey(missing.Name) == wordKey(name)
	}
	if name := nearest(missing.Name,
		slices.DeleteFunc(names, func(name string) bool { return !isNear(name) })); name != "" {
		return Key{missing.Namespace, name}, true
	}
	namespaces := p.byName[missing.Name]
	if len(namespaces) > 1 {
		namespaces = slices.DeleteFunc(slices.Clone(namespaces),
			func(name string) bool { return !isMisspelt(missing.Namespace, name) })
	}
	switch {
	case len(namespaces) == 1:
		return Key{namespaces[0], missing.Name}, true
	case len(namespaces) == 0 && len(p.services) <= maxCompared: // both may be misspelt
		near := LikelyName(missing.Namespace, slices.Collect(maps.Keys(p.services)))
		name := LikelyName(missing.Name, slices.Clone(p.services[near]))
		return Key{near, name}, near != "" && name != ""
	}
	return Key{}, false
}

// LikelyResource is the served resource that a reference to one that is not most likely means:
// by its kind, its singular or a letter, or by its name in another group. It is false where
// none or several are as likely.
func (s *Snapshot) LikelyResource(missing Resource) (Resource, bool) {
	var near, elsewhere []Resource
	for i := range s.Served {
		v := &s.Served[i]
		switch {
		case v.Presumed():
		case v.Group == missing.Group && v.Name == missing.Name && isMisspelt(missing.Subresource, v.Subresource) &&
			v.Subresource != "",
			v.Group == missing.Group && v.Subresource == missing.Subresource &&
				(strings.EqualFold(v.Kind, missing.Name) || isMisspelt(missing.Name, v.Name)):
			near = append(near, v.Resource)
		case v.Name == missing.Name && v.Subresource == missing.Subresource:
			elsewhere = append(elsewhere, v.Resource)
		}
	}
	for _, likely := range [][]Resource{near, elsewhere} {
		slices.SortFunc(likely, Resource.Compare)
		if likely = slices.Compact(likely); len(likely) == 1 {
			return likely[0], true
		}
	}
	return Resource{}, false
}

// LikelyName is the name that a misspelt one means, "" where none or several may be meant.
func LikelyName(missing string, names []string) string {
	return nearest(missing, slices.DeleteFunc(names, func(name string) bool { return !isMisspelt(missing, name) }))
}

// nearest is the name with the fewest other letters, "" where none or several have.
func nearest(name string, candidates []string) string {
	edits := func(a, b string) int { return text.Edits(name, a) - text.Edits(name, b) }
	slices.SortFunc(candidates, edits)
	candidates = slices.Compact(candidates)
	if len(candidates) == 0 || len(candidates) > 1 && edits(candidates[0], candidates[1]) == 0 {
		return ""
	}
	return candidates[0]
}

// isMisspelt reports whether few letters differ. What differs by a number or a single letter
// between hyphens is the name of another one: hook-a, hook-b, hook-2.
func isMisspelt(name, other string) bool {
	most := 1 + len(name)/8
	if name == other || max(len(name), len(other))-min(len(name), len(other)) > most || text.Edits(name, other) > most {
		return false
	}
	a, b := strings.Split(name, "-"), strings.Split(other, "-")
	for i := range min(len(a), len(b)) {
		if len(a) == len(b) && a[i] != b[i] &&
			(len(a[i]) == 1 && len(b[i]) == 1 || strings.Trim(a[i], digits) == strings.Trim(b[i], digits)) {
			return false
		}
	}
	return len(a) == len(b) || strings.ReplaceAll(name, "-", "") == strings.ReplaceAll(other, "-", "")
}

const digits = "0123456789"

// wordKey is the same for names of the same words: webhook-policy-svc and policy-webhook-service.
func wordKey(name string) string {
	out := strings.Split(name, "-")
	for i, word := range out {
		if word == "svc" {
			out[i] = "service"
		}
	}
	slices.Sort(out)
	return strings.Join(out, "-")
}

// isPartOf reports whether one name has all the words of the other, in their order: policy and
// policy-webhook. Services for metrics are no webhooks.
func isPartOf(name, other string) bool {
	a, b := strings.Split(name, "-"), strings.Split(other, "-")
	if len(a) > len(b) {
		a, b = b, a
	}
	for _, word := range b {
		switch {
		case len(a) > 0 && word == a[0]:
			a = a[1:]
		case word == "metrics" || word == "monitoring" || strings.Trim(word, digits) == "":
			return false
		}
	}
	return len(a) == 0
}

// mayHave reports whether the Service has the port, or its ports are not known.
func (s Service) mayHave(port int32) bool {
	return len(s.Ports) == 0 || slices.ContainsFunc(s.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
}

const maxUnchecked = 5

// withUnchecked adds to what files lack the objects that registrations ask for and the files
// do not have, though they have others of the kind.
func (s *Snapshot) withUnchecked(inputs []Input) []Input {
	if len(inputs) == 0 {
		return inputs
	}
	lacks := slices.Concat(s.uncheckedBackends(), s.uncheckedResources(), s.uncheckedPolicies())
	out := slices.Clone(inputs)
	for i := range out {
		if out[i].Objects > 0 {
			out[i].Lacks = append(slices.Clip(out[i].Lacks), lacks...)
		}
	}
	return out
}

// lackList is what is lacking of a kind: some by name, the others counted.
type lackList struct {
	noun, prefix, follows string
	subjects              []string
}

func (l *lackList) add(subject string) { l.subjects = append(l.subjects, subject) }

func (l *lackList) sentences() []string {
	subjects := lists.Once(l.subjects)
	out := lists.Map(subjects[:min(len(subjects), maxUnchecked)], func(subject string) string {
		return "no " + l.prefix + subject + ": " + l.follows + " is unknown"
	})
	if more := len(subjects) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("no %s: the same of them", Counted(more, "more "+l.noun)))
	}
	return out
}

// uncheckedBackends are what calls end at: of a Service that nearly is there a finding says so.
func (s *Snapshot) uncheckedBackends() []string {
	services := lackList{noun: "Service", prefix: "Service ", follows: "whether it answers"}
	endpoints := lackList{noun: "EndpointSlice", prefix: "EndpointSlice of Service ", follows: "whether it answers"}
	namespaces := lackList{noun: "Namespace", prefix: "Namespace ", follows: "what labels it has"}
	apiServices := lackList{noun: "APIService", prefix: "APIService ", follows: "whether it answers"}
	haveSlices := false
	for _, service := range s.Services {
		haveSlices = haveSlices || service.Endpoints != nil
	}
	for _, w := range s.Webhooks {
		state := s.State(w.Backend)
		called := state.Service.Key
		service, has := s.Services[called]
		switch {
		case w.Backend.Kind == BackendURL || called.Name == "":
			continue
		case state.APIService != "" && !s.APIServicesKnown && !state.Known:
			apiServices.add(state.APIService)
			continue
		case !has && !s.IsMissing(called) && len(s.Services) > 0:
			if _, likely := s.LikelyService(state.Service); !likely {
				services.add(called.String())
			}
		case has && service.Endpoints == nil && !state.Known && haveSlices &&
			service.Type != corev1.ServiceTypeExternalName:
			endpoints.add(called.String())
		}
		if _, has := s.Namespaces[called.Namespace]; !has && !s.NamespacesKnown && len(s.Namespaces) > 0 {
			namespaces.add(called.Namespace)
		}
	}
	return slices.Concat(services.sentences(), endpoints.sentences(), namespaces.sentences(), apiServices.sentences())
}

// uncheckedResources are those of rules and of params that no CRD shows.
func (s *Snapshot) uncheckedResources() []string {
	if s.ResourcesKnown {
		return nil
	}
	resources := lackList{noun: "CustomResourceDefinition", prefix: "CustomResourceDefinition ", follows: "in which versions and scope it is served"}
	params := lackList{noun: "param kind", prefix: "CustomResourceDefinition of ", follows: "whether there are such params"}
	if len(s.CRDs) > 0 { // else no CRD is there at all, which is reported
		for _, served := range s.presumed() {
			likely := s.likelyCRD(served.Group, served.Name, func(crd *CRD) string { return crd.Resource.Name })
			resources.add(served.Name + "." + served.Group + likely)
		}
	}
	for _, p := range s.Policies {
		if kind := p.ParamKind; kind != nil && !s.hasKind(kind) {
			group, _, _ := strings.Cut(kind.APIVersion, "/")
			likely := s.likelyCRD(group, kind.Kind, func(crd *CRD) string { return crd.CustomKind })
			params.add(kind.APIVersion + " " + kind.Kind + likely)
		}
	}
	return slices.Concat(resources.sentences(), params.sentences())
}

// likelyCRD is the CRD that a group and name mean where one of the two is misspelt, in words.
func (s *Snapshot) likelyCRD(group, name string, named func(*CRD) string) string {
	var names, groups []string
	for _, crd := range s.CRDs {
		if crd.Resource.Group == group {
			names = append(names, named(crd))
		}
		if named(crd) == name {
			groups = append(groups, crd.Resource.Group)
		}
	}
	likelyName, likelyGroup := cmp.Or(LikelyName(name, names), name), cmp.Or(LikelyName(group, groups), group)
	if likelyName == name && likelyGroup == group {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s of %s?)", likelyName, likelyGroup)
}

func (s *Snapshot) hasKind(kind *admissionv1.ParamKind) bool {
	group, _, _ := strings.Cut(kind.APIVersion, "/")
	if WithoutCRDs(group) {
		return true
	}
	for _, crd := range s.CRDs {
		if crd.Resource.Group == group && crd.CustomKind == kind.Kind {
			return true
		}
	}
	return false
}

// uncheckedPolicies are those that no binding names.
func (s *Snapshot) uncheckedPolicies() []string {
	out := lackList{noun: "binding", prefix: "binding of policy ", follows: "whether it has an effect"}
	bound := func(p *AdmissionPolicy) bool { return len(p.Bindings) > 0 }
	if s.PoliciesKnown || !slices.ContainsFunc(s.Policies, bound) && len(s.Unbound) == 0 {
		return nil
	}
	for _, p := range s.Policies {
		if !bound(p) {
			out.add(p.Name)
		}
	}
	return out.sentences()
}
