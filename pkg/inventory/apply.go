package inventory

import (
	"cmp"
	"maps"
	"path"
	"reflect"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Apply returns the objects of a cluster as they are after kubectl apply of manifests: what
// the manifests lack stays, also a CA bundle that an injector wrote. Of a Service that is new,
// or selects otherwise, it is unknown what will be behind it.
func (o Objects) Apply(manifests Objects) Objects {
	old := o
	for _, field := range fieldsByType() {
		list, added := reflect.ValueOf(&o).Elem().Field(field), reflect.ValueOf(manifests).Field(field)
		if added.Len() > 0 {
			list.Set(old.applied(list, added))
		}
	}
	o.EndpointsKnown = old.unchangedEndpoints(o.Services)
	o.Manifests = old.manifestsAfter(manifests.Manifests)
	o.Sources = maps.Clone(old.Sources)
	if o.Sources == nil {
		o.Sources = map[SourceKey]Origin{}
	}
	maps.Copy(o.Sources, manifests.Sources)
	o.Inputs = slices.Clone(old.Inputs)
	for _, input := range manifests.Inputs {
		input.Lacks = slices.DeleteFunc(slices.Clone(input.Lacks), func(lack string) bool { // the cluster, or a file of it, has it
			has := func(i Input) bool { return i.Objects > 0 && !slices.Contains(i.Lacks, lack) }
			return len(old.Inputs) == 0 || slices.ContainsFunc(old.Inputs, has)
		})
		o.Inputs = append(o.Inputs, input)
	}
	o.Errors = slices.Concat(o.Errors, manifests.Errors)
	return o
}

// CompletedBy returns the objects with what they lack as it was before, where they do not show
// that it is gone.
func (o Objects) CompletedBy(before Objects) Objects {
	makers := map[podMaker]bool{}
	for _, w := range o.workloads() {
		makers[podMaker{w.Namespace, w.Maker()}] = true
	}
	for _, field := range fieldsByType() {
		newer, older := reflect.ValueOf(o).Field(field), reflect.ValueOf(&before).Elem().Field(field)
		stored := map[Key]bool{} // by whether an API server stored them, who wrote all that is in them
		for i := range newer.Len() {
			stored[keyOf(newer.Index(i))] = isStored(newer.Index(i).Interface().(metav1.Object))
		}
		remaining := reflect.MakeSlice(older.Type(), 0, older.Len())
		for i := range older.Len() {
			object := older.Index(i)
			isWhole, has := stored[keyOf(object)]
			if crd, is := object.Interface().(*apiextensionsv1.CustomResourceDefinition); is && !has {
				resource := *crd // which is served; its conversion is gone
				resource.Spec.Conversion = nil
				object = reflect.ValueOf(&resource)
			}
			if has && !isWhole || !has && !o.showsWithout(object.Interface(), makers) {
				remaining = reflect.Append(remaining, object)
			}
		}
		older.Set(remaining)
	}
	before.Manifests, before.Errors = nil, nil
	out := before.Apply(o)
	out.Inputs = o.Inputs
	if o.Server.Known() {
		out.Server, out.OpenShift, out.ReviewsExcluded = o.Server, o.OpenShift, o.ReviewsExcluded
	}
	return out
}

// podMaker is what makes Pods in a namespace.
type podMaker struct {
	namespace string
	Controller
}

// showsWithout reports whether an object is gone that the objects lack: what registers anything
// is, as is what would be in a list, and a Pod whose maker is to be applied, one of the makers.
func (o Objects) showsWithout(object any, makers map[podMaker]bool) bool {
	switch v := object.(type) {
	case *admissionv1.ValidatingWebhookConfiguration, *admissionv1.MutatingWebhookConfiguration,
		*admissionv1.ValidatingAdmissionPolicy, *admissionv1.MutatingAdmissionPolicy:
		return true
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		return o.PoliciesKnown || slices.ContainsFunc(o.ValidatingPolicyBindings,
			func(b *admissionv1.ValidatingAdmissionPolicyBinding) bool {
				return b.Spec.PolicyName == v.Spec.PolicyName
			})
	case *admissionv1.MutatingAdmissionPolicyBinding:
		return o.PoliciesKnown || slices.ContainsFunc(o.MutatingPolicyBindings,
			func(b *admissionv1.MutatingAdmissionPolicyBinding) bool {
				return b.Spec.PolicyName == v.Spec.PolicyName
			})
	case *apiextensionsv1.CustomResourceDefinition:
		return o.ResourcesKnown
	case *metav1.PartialObjectMetadata:
		return o.NamespacesKnown
	case *corev1.Pod:
		if makers[podMaker{v.Namespace, controllerOf(v)}] {
			return true
		}
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: reflect.TypeOf(object).Elem().Name()})
	namespace := object.(metav1.Object).GetNamespace()
	for resource, namespaces := range o.Covered {
		if path.Base(resource) == plural.Resource && (namespaces[""] || namespaces[namespace]) {
			return true
		}
	}
	return false
}

// applied is a list in which the objects of a name are updated, and to which the others are
// appended, but for those whose Pods the cluster has already.
func (o Objects) applied(list, added reflect.Value) reflect.Value {
	out := reflect.MakeSlice(list.Type(), list.Len(), list.Len()+added.Len())
	reflect.Copy(out, list)
	places := map[Key]int{}
	for i := range out.Len() {
		places[keyOf(out.Index(i))] = i
	}
	for i := range added.Len() {
		now, key := added.Index(i), keyOf(added.Index(i))
		if place, exists := places[key]; exists {
			out.Index(place).Set(reflect.ValueOf(o.updated(out.Index(place).Interface(), now.Interface())))
		} else if !o.hasPodsOf(now.Type().Elem().Name(), key) {
			places[key] = out.Len()
			out = reflect.Append(out, now)
		}
	}
	return out
}

func keyOf(object reflect.Value) Key {
	m := object.Interface().(metav1.Object)
	switch o := m.(type) {
	case *PluginPolicy: // of several kinds, as the next
		return Key{o.Namespace, o.APIVersion + o.Kind + "/" + o.Name}
	case *LinkerdPolicy:
		return Key{o.Namespace, o.Kind + "/" + o.Name}
	}
	return Key{m.GetNamespace(), m.GetName()}
}

// hasPodsOf reports whether a controller of the kind made Pods, which stand for it.
func (o Objects) hasPodsOf(kind string, key Key) bool {
	return slices.ContainsFunc(o.Pods, func(p *corev1.Pod) bool {
		return p.Namespace == key.Namespace && controllerOf(p) == Controller{kind, key.Name}
	})
}

// updated is the object as it is once the manifest is applied: what the API server and
// controllers wrote stays.
func (o Objects) updated(before, manifest any) any {
	if _, isPod := before.(*corev1.Pod); isPod {
		return before
	}
	was, object := before.(metav1.Object), manifest.(runtime.Object).DeepCopyObject()
	now := object.(metav1.Object)
	namespace, isNamespace := object.(*metav1.PartialObjectMetadata)
	if isNamespace {
		namespace.DeletionTimestamp = was.GetDeletionTimestamp()
	}
	if isNamespace || isStored(was) {
		now.SetLabels(merged(was.GetLabels(), now.GetLabels()))
		now.SetAnnotations(merged(was.GetAnnotations(), now.GetAnnotations()))
		now.SetCreationTimestamp(was.GetCreationTimestamp())
		now.SetManagedFields(was.GetManagedFields())
		now.SetGeneration(was.GetGeneration())
		if len(now.GetOwnerReferences()) == 0 {
			now.SetOwnerReferences(was.GetOwnerReferences())
		}
	}
	switch current := before.(type) {
	case *apiextensionsv1.CustomResourceDefinition:
		object.(*apiextensionsv1.CustomResourceDefinition).Status = current.Status
	case *corev1.Service:
		service := object.(*corev1.Service)
		service.Spec.ClusterIP = cmp.Or(service.Spec.ClusterIP, current.Spec.ClusterIP)
	}
	keepBundles(before, object)
	return object
}

func isStored(object metav1.Object) bool {
	return object.GetUID() != "" || object.GetResourceVersion() != "" || !object.GetCreationTimestamp().Time.IsZero()
}

func merged(was, now map[string]string) map[string]string {
	if len(was) == 0 {
		return now
	}
	out := maps.Clone(was)
	maps.Copy(out, now)
	return out
}

// keepBundles keeps the CA bundles that an injector has put in place of those that say
// nothing.
func keepBundles(was, now any) {
	before := bundles(was)
	for name, bundle := range bundles(now) {
		if injected := before[name]; injected != nil && (len(*bundle) == 0 || placeholder(*bundle)) {
			*bundle = *injected
		}
	}
}

// bundles are the CA bundles of a registration, by the names of its webhooks.
func bundles(registration any) map[string]*[]byte {
	out := map[string]*[]byte{}
	switch o := registration.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			out[o.Webhooks[i].Name] = &o.Webhooks[i].ClientConfig.CABundle
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			out[o.Webhooks[i].Name] = &o.Webhooks[i].ClientConfig.CABundle
		}
	case *apiextensionsv1.CustomResourceDefinition:
		if c := o.Spec.Conversion; c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil {
			out[o.Name] = &c.Webhook.ClientConfig.CABundle
		}
	}
	return out
}

// unchangedEndpoints says of which Services the endpoints are known once the Services are
// those: of one that is new, or has another selector or port, they are not.
func (o Objects) unchangedEndpoints(services []*corev1.Service) Coverage {
	was, same := map[Key]*corev1.Service{}, Coverage{Services: map[Key]bool{}}
	for _, s := range o.Services {
		key := Key{s.Namespace, s.Name}
		was[key], same.Services[key] = s, o.EndpointsKnown.Has(key)
	}
	changed := false
	for _, s := range services {
		key := Key{s.Namespace, s.Name}
		if old := was[key]; old == nil || old != s && !selectAlike(old, s) {
			changed, same.Services[key] = true, false
		}
	}
	if !changed {
		return o.EndpointsKnown
	}
	return same
}

func selectAlike(a, b *corev1.Service) bool {
	return maps.Equal(a.Spec.Selector, b.Spec.Selector) &&
		slices.EqualFunc(a.Spec.Ports, b.Spec.Ports, func(p, o corev1.ServicePort) bool {
			return p.Name == o.Name && p.Port == o.Port && p.TargetPort == o.TargetPort && p.Protocol == o.Protocol
		})
}

// manifestsAfter are the objects that are still to be applied: those of the manifests that
// no API server has, and those of files of before that the manifests lack.
func (o Objects) manifestsAfter(manifests []Manifest) []Manifest {
	stored, named := map[SourceKey]bool{}, map[SourceKey]bool{}
	for kind, field := range fieldsByType() {
		list := reflect.ValueOf(o).Field(field)
		for i := range list.Len() {
			key := keyOf(list.Index(i))
			source := SourceKey{Kind: kind.Elem().Name(), Namespace: key.Namespace, Name: key.Name}
			stored[source] = !o.Sources[source].ToApply
		}
	}
	var out []Manifest
	for _, m := range manifests {
		key := SourceKey{Kind: m.Kind, Namespace: m.Namespace, Name: m.Name}
		if named[key] = true; !stored[key] {
			out = append(out, m)
		}
	}
	return append(out, slices.DeleteFunc(slices.Clone(o.Manifests), func(m Manifest) bool {
		return named[SourceKey{Kind: m.Kind, Namespace: m.Namespace, Name: m.Name}]
	})...)
}
