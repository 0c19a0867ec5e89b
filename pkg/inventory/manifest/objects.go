package manifest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

const maxErrors = 1000

// kept is what the inputs hold together.
type kept struct {
	objects       []object
	index         map[inventory.SourceKey]int
	full          bool
	files         []*file
	errors        []inventory.Error
	dropped       int
	openShift     bool
	installations []*installation
}

func (r *reader) fail(f *file, line int, object, message string) {
	f.failed = true
	if len(r.errors) == maxErrors {
		r.dropped++
		return
	}
	kind, name, _ := strings.Cut(object, "/")
	r.errors = append(r.errors, inventory.Error{
		Source: inventory.Source{File: f.name, Line: line}, Object: object, Message: message,
		Resources: resourceOf(kind), Name: name,
	})
}

// found adds an object, or keeps it until its directory is read.
func (r *reader) found(o object) {
	if input := o.file.input; o.file.unit != nil && len(input.found) < r.limits.objects {
		input.found = append(input.found, o)
		return
	}
	r.add(o)
}

// add replaces an earlier object of the same name, or appends it if there is
// room. A file is not complete where there is none.
func (r *reader) add(o object) {
	i, ok := r.index[o.key]
	switch {
	case ok:
		r.objects[i] = counted(r.objects[i], o)
	case len(r.objects) < r.limits.objects:
		r.index[o.key] = len(r.objects)
		r.objects = append(r.objects, o)
	case !r.full:
		r.full = true
		r.fail(o.file, o.line, "", fmt.Sprintf("more than %d objects: this and what follows is not read", r.limits.objects))
	default:
		o.file.failed = true
	}
}

// counted is the one of two objects of a name that counts, which the input says where both
// are still to be applied: the latter, unless it is a patch of a configuration, which
// lacks its webhooks, or another owner's CRD without the conversion, which no finding would name.
func counted(before, now object) object {
	counts, other, which := now, before, "latter"
	if len(before.hooks) > 0 && len(now.hooks) == 0 || before.converts() && !now.converts() && before.isRival(now) {
		counts, other, which = before, now, "former"
	}
	if made := now.file.installation != nil; made != (before.file.installation != nil) {
		if made {
			return before
		}
		return now
	}
	input := now.file.input
	if old, uid := before.meta().UID, now.meta().UID; input != before.file.input && old != "" && uid != "" && old != uid {
		input.duplicates = append(input.duplicates, fmt.Sprintf("%s is another one in %s than in %s, of which the %s counts: read each cluster by itself",
			join(now.key.Kind, now.key.Name), written(before), written(now), which))
		return counts
	}
	if input.layout == plain && before.file.input.layout == plain && !reflect.DeepEqual(before.value, now.value) {
		input.duplicates = append(input.duplicates, fmt.Sprintf("%s is in %s and %s, of which the %s counts",
			join(now.key.Kind, now.key.Name), written(before), written(now), which))
		service := other.service()
		switch {
		case before.isRival(now):
			counts.rival = &inventory.Rival{Source: other.source(), Owner: other.owner()}
		case service != counts.service() && service.Name != "":
			counts.rival = &inventory.Rival{Source: other.source(), Owner: other.owner(), Service: service}
		}
	}
	return counts
}

// isRival reports whether two objects of a name are of different owners, or no part of the one
// is one of the other: webhooks by their names, policies by what they say of which resource,
// bindings by what they bind.
func (o object) isRival(other object) bool {
	registers := isRegistration(o.key.Kind) || slices.Contains(policyKinds, o.key.Kind)
	if !registers || o.owner().IsOther(other.owner()) {
		return registers
	}
	own, others := o.parts(), other.parts()
	isShared := func(part string) bool { return slices.Contains(others, part) }
	return len(own) > 0 && len(others) > 0 && !slices.ContainsFunc(own, isShared)
}

// parts are what distinguishes the object from one of other software; none where that is unknown.
func (o object) parts() []string {
	var out []string
	switch v := o.value.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		for _, validation := range v.Spec.Validations {
			out = append(out, policyParts(v.Spec.MatchConstraints, validation.Expression)...)
		}
	case *admissionv1.MutatingAdmissionPolicy:
		for _, m := range v.Spec.Mutations {
			expression := ptr.Deref(m.ApplyConfiguration, admissionv1.ApplyConfiguration{}).Expression +
				ptr.Deref(m.JSONPatch, admissionv1.JSONPatch{}).Expression
			out = append(out, policyParts(v.Spec.MatchConstraints, expression)...)
		}
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		out = append(out, v.Spec.PolicyName)
	case *admissionv1.MutatingAdmissionPolicyBinding:
		out = append(out, v.Spec.PolicyName)
	default:
		for _, h := range o.hooks {
			out = append(out, h.name)
		}
	}
	return out
}

// policyParts are an expression of a policy for each of the resources that it is for. A limit of
// the same policy differs by its number.
func policyParts(matched *admissionv1.MatchResources, expression string) []string {
	var out []string
	withoutNumbers := strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, expression)
	for _, rule := range ptr.Deref(matched, admissionv1.MatchResources{}).ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				out = append(out, fmt.Sprintf("%s of %s.%s", withoutNumbers, resource, group))
			}
		}
	}
	return out
}

func (o object) converts() bool {
	crd, isCRD := o.value.(*apiextensionsv1.CustomResourceDefinition)
	return isCRD && convertedByWebhook(crd)
}

// service is the one that its first webhook, or its conversion, calls; none for a URL.
func (o object) service() (key inventory.Key) {
	if len(o.hooks) > 0 {
		return o.hooks[0].service
	}
	if !o.converts() {
		return key
	}
	w := o.value.(*apiextensionsv1.CustomResourceDefinition).Spec.Conversion.Webhook
	if w != nil && w.ClientConfig != nil && w.ClientConfig.Service != nil {
		key = inventory.Key{Namespace: w.ClientConfig.Service.Namespace, Name: w.ClientConfig.Service.Name}
	}
	return key
}

func (o object) owner() inventory.Owner { return inventory.OwnerOf(o.meta()) }

// meta is what of the metadata is kept; of what is no object, none.
func (o object) meta() *metav1.ObjectMeta {
	if m, isObject := o.value.(metav1.ObjectMetaAccessor); isObject {
		return m.GetObjectMeta().(*metav1.ObjectMeta)
	}
	return &metav1.ObjectMeta{}
}

// written is where the object stands, or the file of the kustomization that makes it.
func written(o object) string {
	if slices.Contains(o.file.input.roots, o.file.member) {
		return o.file.member
	}
	return fmt.Sprintf("%s:%d", o.file.name, o.line)
}

func (r *reader) result() inventory.Objects {
	out := inventory.Objects{
		Cluster: inventory.Cluster{OpenShift: r.openShift},
		Sources: make(map[inventory.SourceKey]inventory.Origin, len(r.objects)),
		Errors:  r.errors,
	}
	if r.dropped > 0 {
		out.Errors = append(out.Errors,
			inventory.Error{Message: fmt.Sprintf("and %d more errors", r.dropped), Resources: inventory.AnyResource})
	}
	parts := confirmed(r.files)
	r.convertCRDs()
	var best server
	for _, o := range r.objects {
		if r.isReplaced(o) {
			continue
		}
		o.count()
		o.addSources(out.Sources)
		switch s, isServer := o.value.(server); {
		case o.statesVersion() && s.better(best):
			best = s
		case !isServer && !parts.replacedByPods(o):
			out.Add(o.value)
		}
	}
	out.OpenShift = out.OpenShift ||
		slices.ContainsFunc(out.CRDs,
			func(crd *apiextensionsv1.CustomResourceDefinition) bool { return isOpenShift(crd.Spec.Group) })
	out.Server = best.version
	out.NamespacesKnown, out.APIServicesKnown = parts["core/namespaces"][""], parts["apiregistration.k8s.io/apiservices"][""]
	out.PoliciesKnown = !slices.ContainsFunc(policyResources,
		func(resource string) bool { return !parts[resource][""] })
	out.ResourcesKnown = parts["apiextensions.k8s.io/customresourcedefinitions"][""] ||
		slices.ContainsFunc(r.objects,
			func(o object) bool { return o.key.Kind == inventory.KindCRD && o.file.input.layout == mustGather })
	out.Nodes = nodes(r.objects, parts)
	out.ServicesKnown.Namespaces = parts[allServices]
	out.EndpointsKnown.Namespaces = parts[allSlices]
	out.Covered = parts
	return out
}

var policyResources = []string{
	"admissionregistration.k8s.io/validatingadmissionpolicies", "admissionregistration.k8s.io/validatingadmissionpolicybindings",
	"admissionregistration.k8s.io/mutatingadmissionpolicies", "admissionregistration.k8s.io/mutatingadmissionpolicybindings",
}

func (o object) count() {
	input := o.file.input
	input.objects++
	if s, isService := o.value.(*corev1.Service); isService && inventory.LacksPorts(s.Spec) {
		input.partial = append(input.partial, o.key.Namespace+"/"+o.key.Name)
	}
	if _, isServer := o.value.(server); !isServer || o.statesVersion() {
		input.kinds[o.key.Kind] = true
	}
}

// statesVersion reports whether the object states the version of the cluster: among the
// sources of what is still to be applied it is some other one's.
func (o object) statesVersion() bool {
	s, _ := o.value.(server)
	return s.isKnown() && (!o.file.lenient || !o.file.input.toApply() ||
		!slices.ContainsFunc(o.file.input.manifests, func(m noted) bool { return isRegistration(m.Kind) }))
}

func (o object) source() inventory.Source {
	return inventory.Source{File: o.file.name, Line: o.line}
}

func (o object) addSources(sources map[inventory.SourceKey]inventory.Origin) {
	m, _ := o.value.(metav1.Object)
	isStored := m != nil && !m.GetCreationTimestamp().Time.IsZero() // by an API server, of which a file is a copy
	origin := inventory.Origin{
		Source: o.source(), ToApply: o.file.input.toApply() && !isStored, Unknown: o.unknown, Rival: o.rival,
		SameSchemas: o.sameSchemas,
	}
	for i, h := range o.hooks {
		key := o.key
		key.Webhook, key.Index = h.name, i
		sources[key] = inventory.Origin{Source: inventory.Source{File: o.file.name, Line: h.line}}
	}
	sources[o.key] = origin // the last: the key of a first webhook without a name is the same
}

// coverage are the namespaces of which all objects of a resource were collected; "" is the
// whole cluster.
type coverage map[string]map[string]bool

// confirmed returns what the files are complete of in the layout of their input, which
// a later file may have shown.
func confirmed(files []*file) coverage {
	out := coverage{}
	for _, f := range files {
		role, _ := f.input.layout.role(f.member)
		if f.failed || !f.listed || role.complete == "" {
			continue
		}
		if out[role.complete] == nil {
			out[role.complete] = map[string]bool{}
		}
		out[role.complete][role.namespace] = true
	}
	return out
}

// replacedByPods reports whether the Pods of the workload are known. DaemonSets
// are kept: they show on which nodes a Pod is still missing. The cluster's DNS is kept, as it is of
// a cluster: each Pod needs it, also while none of its own is let through.
func (c coverage) replacedByPods(o object) bool {
	if d, is := o.value.(*appsv1.Deployment); is && inventory.IsDNS(d.Namespace, d.Spec.Template.Labels) {
		return false
	}
	return c[allPods][o.key.Namespace] && slices.Contains([]string{"Deployment", "StatefulSet", "Job"}, o.key.Kind)
}

// nodes are the Nodes of an input that has all of them: a must-gather does.
func nodes(objects []object, coverage coverage) (most []string) {
	names := map[*input][]string{}
	for _, o := range objects {
		if input := o.file.input; o.key.Kind == "Node" && (input.layout == mustGather || coverage[allNodes] != nil) {
			if names[input] = append(names[input], o.key.Name); len(names[input]) > len(most) {
				most = names[input]
			}
		}
	}
	return most
}
