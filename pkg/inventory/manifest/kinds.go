package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	kjson "sigs.k8s.io/json"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

func isList(t schema.GroupVersionKind) bool { return strings.HasSuffix(t.Kind, "List") }

// itemType returns the type of a list's items, as the API server states none in them,
// and that of any other object.
func itemType(t schema.GroupVersionKind) schema.GroupVersionKind {
	if t.Kind = strings.TrimSuffix(t.Kind, "List"); t.Kind == "" {
		return schema.GroupVersionKind{}
	}
	return t
}

// isOpenShift reports whether only OpenShift serves the group.
func isOpenShift(group string) bool { return strings.HasSuffix(group, ".openshift.io") }

// isSkipped reports whether objects of the type, or items of the list, are not
// read.
func isSkipped(t schema.GroupVersionKind) bool {
	t = itemType(t)
	_, ok := decoders[t.GroupKind().String()]
	return !ok && t.Kind != "" && t.Version != ""
}

// decoder is how to read a kind.
type decoder struct {
	versions   []string
	namespaced bool
	// object returns an empty object to decode into.
	object func() metav1.Object
}

// decoders are the kinds that are read, each with its group; all others are skipped.
var decoders = map[string]decoder{
	"ValidatingWebhookConfiguration.admissionregistration.k8s.io":   {[]string{"v1"}, false, empty[admissionv1.ValidatingWebhookConfiguration]},
	"MutatingWebhookConfiguration.admissionregistration.k8s.io":     {[]string{"v1"}, false, empty[admissionv1.MutatingWebhookConfiguration]},
	"ValidatingAdmissionPolicy.admissionregistration.k8s.io":        {policyVersions, false, empty[admissionv1.ValidatingAdmissionPolicy]},
	"ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io": {policyVersions, false, empty[admissionv1.ValidatingAdmissionPolicyBinding]},
	"MutatingAdmissionPolicy.admissionregistration.k8s.io":          {policyVersions, false, empty[admissionv1.MutatingAdmissionPolicy]},
	"MutatingAdmissionPolicyBinding.admissionregistration.k8s.io":   {policyVersions, false, empty[admissionv1.MutatingAdmissionPolicyBinding]},
	"CustomResourceDefinition.apiextensions.k8s.io":                 {[]string{"v1"}, false, empty[apiextensionsv1.CustomResourceDefinition]},
	"APIService.apiregistration.k8s.io":                             {[]string{"v1"}, false, empty[apiregistrationv1.APIService]},
	"Namespace":                                                     {[]string{"v1"}, false, empty[metav1.PartialObjectMetadata]},
	"Service":                                                       {[]string{"v1"}, true, empty[corev1.Service]},
	"EndpointSlice.discovery.k8s.io":                                {[]string{"v1"}, true, empty[discoveryv1.EndpointSlice]},
	"Node":                                                          {[]string{"v1"}, false, empty[corev1.Node]},
	"Pod":                                                           {[]string{"v1"}, true, empty[corev1.Pod]},
	"Deployment.apps":                                               {[]string{"v1"}, true, empty[appsv1.Deployment]},
	"StatefulSet.apps":                                              {[]string{"v1"}, true, empty[appsv1.StatefulSet]},
	"DaemonSet.apps":                                                {[]string{"v1"}, true, empty[appsv1.DaemonSet]},
	"Job.batch":                                                     {[]string{"v1"}, true, empty[batchv1.Job]},
	"PodDisruptionBudget.policy":                                    {[]string{"v1"}, true, empty[policyv1.PodDisruptionBudget]},
	"NetworkPolicy.networking.k8s.io":                               {[]string{"v1"}, true, empty[networkingv1.NetworkPolicy]},
	"CiliumNetworkPolicy.cilium.io":                                 {[]string{"v2"}, true, empty[inventory.PluginPolicy]},
	"CiliumClusterwideNetworkPolicy.cilium.io":                      {[]string{"v2"}, false, empty[inventory.PluginPolicy]},
	"NetworkPolicy.projectcalico.org":                               {[]string{"v3"}, true, empty[inventory.PluginPolicy]},
	"NetworkPolicy.crd.projectcalico.org":                           {[]string{"v1"}, true, empty[inventory.PluginPolicy]},
	"GlobalNetworkPolicy.projectcalico.org":                         {[]string{"v3"}, false, empty[inventory.PluginPolicy]},
	"GlobalNetworkPolicy.crd.projectcalico.org":                     {[]string{"v1"}, false, empty[inventory.PluginPolicy]},
	"PeerAuthentication.security.istio.io":                          {[]string{"v1", "v1beta1"}, true, empty[inventory.PeerAuthentication]},
	"ClusterServiceVersion.operators.coreos.com":                    {[]string{"v1alpha1"}, true, empty[serviceVersion]},
	"ClusterVersion.config.openshift.io":                            {[]string{"v1"}, false, empty[clusterStatus]},
	"ClusterOperator.config.openshift.io":                           {[]string{"v1"}, false, empty[clusterStatus]},
}

// resourceOf is the resource of a kind, or of a list of it; any where the kind is not read.
func resourceOf(kind string) string {
	kind = itemType(schema.GroupVersionKind{Kind: kind}).Kind
	for name := range decoders {
		if k, group, _ := strings.Cut(name, "."); k == kind {
			resource, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: group, Kind: kind})
			return resource.GroupResource().String()
		}
	}
	return inventory.AnyResource
}

// policyVersions are those of policies and bindings, whose fields are the same.
var policyVersions = []string{"v1", "v1beta1", "v1alpha1"}

func empty[T any, P interface {
	*T
	metav1.Object
}]() metav1.Object {
	return P(new(T))
}

// convert returns the object as it is kept: with the defaults of its version.
func convert(object metav1.Object, version string) any {
	switch o := object.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		o.Webhooks = slices.Clone(o.Webhooks) // the decoder allocates up to twice as many
		for i := range o.Webhooks {
			defaultRules(o.Webhooks[i].Rules)
		}
	case *admissionv1.MutatingWebhookConfiguration:
		o.Webhooks = slices.Clone(o.Webhooks)
		for i := range o.Webhooks {
			defaultRules(o.Webhooks[i].Rules)
		}
	case *admissionv1.ValidatingAdmissionPolicy:
		defaultNamedRules(o.Spec.MatchConstraints)
	case *admissionv1.MutatingAdmissionPolicy:
		defaultNamedRules(o.Spec.MatchConstraints)
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		defaultNamedRules(o.Spec.MatchResources)
		defaultParamRef(version, o.Spec.ParamRef)
	case *admissionv1.MutatingAdmissionPolicyBinding:
		defaultNamedRules(o.Spec.MatchResources)
		defaultParamRef(version, o.Spec.ParamRef)
	case *apiextensionsv1.CustomResourceDefinition:
		withoutSchemas(o)
		defaultCRD(o)
	case *corev1.Service:
		defaultService(&o.Spec)
	case *corev1.Pod:
		o.Spec, o.Status = inventory.ReducedPod(o.Spec), corev1.PodStatus{Phase: o.Status.Phase, Conditions: o.Status.Conditions}
	case *appsv1.Deployment:
		o.Spec.Template.Spec, o.Status = inventory.ReducedPod(o.Spec.Template.Spec), appsv1.DeploymentStatus{}
	case *appsv1.StatefulSet:
		o.Spec.Template.Spec, o.Spec.VolumeClaimTemplates, o.Status = inventory.ReducedPod(o.Spec.Template.Spec), nil, appsv1.StatefulSetStatus{}
	case *appsv1.DaemonSet:
		o.Spec.Template.Spec, o.Status = inventory.ReducedPod(o.Spec.Template.Spec), appsv1.DaemonSetStatus{}
	case *batchv1.Job:
		o.Spec.Template.Spec, o.Status = inventory.ReducedPod(o.Spec.Template.Spec), batchv1.JobStatus{}
	case *policyv1.PodDisruptionBudget:
		o.Status = policyv1.PodDisruptionBudgetStatus{}
	case *corev1.Node:
		return newServer(fromKubelet, o.Status.NodeInfo.KubeletVersion)
	case *clusterStatus:
		return o.server()
	}
	return object
}

func isRegistration(kind string) bool {
	return kind == inventory.KindValidating || kind == inventory.KindMutating || kind == inventory.KindCRD
}

// object is one API object that was read.
type object struct {
	key  inventory.SourceKey
	file *file
	// line is that of the object's first line in its file.
	line int
	// hooks are the webhooks of a configuration.
	hooks []hook
	// unknown are the fields that the kind does not have, of an object to be applied.
	unknown []string
	// rival is another object of the name; nil without one.
	rival *inventory.Rival
	value any
}

// skip counts objects of a type that is not read; a list counts as one at least.
func (r *reader) skip(f *file, gvk schema.GroupVersionKind, count int) {
	f.input.skipped += max(count, 1)
	r.openShift = r.openShift || isOpenShift(gvk.Group)
}

// object reads one API object.
func (r *reader) object(v value, gvk schema.GroupVersionKind) {
	d, found := decoders[gvk.GroupKind().String()]
	in, named := v.file.input, func() string { return join(gvk.Kind, nameIn(v.json)) }
	switch {
	case gvk.Version == "" && isRegistration(gvk.Kind):
		r.fail(v.file, v.line, named(), "apiVersion is missing")
		return
	case !found:
		r.skip(v.file, gvk, 1)
		r.metadata(v, gvk)
		return
	case gvk.Version == "v1beta1" && !slices.Contains(d.versions, gvk.Version):
		r.skip(v.file, gvk, 1)
		if o := d.object(); decode(v.json, o) == nil && v.file.isPatch(o) {
			return
		}
		in.ended = append(in.ended, remark{v.file, fmt.Sprintf("%s:%d: %s is in %s, which no API server since v1.25 takes: not read", v.file.name, v.line, named(), gvk.GroupVersion())})
		return
	case !slices.Contains(d.versions, gvk.Version):
		r.fail(v.file, v.line, named(), fmt.Sprintf("%s is not a version that this binary reads: must be %s", gvk.GroupVersion(), strings.Join(d.versions, " or ")))
		return
	}
	r.openShift = r.openShift || isOpenShift(gvk.Group)
	decoded := d.object()
	bad, p := v.decodeObject(decoded)
	name := join(gvk.Kind, decoded.GetName())
	if p == nil && v.file.isPatch(decoded) || p != nil && v.file.lenient && strings.HasPrefix(p.message, "status.") {
		in.patches = append(in.patches, remark{v.file, fmt.Sprintf("not read, as a part of another object: %s in %s:%d", name, v.file.name, v.line)})
		r.skip(v.file, gvk, 1)
		return
	}
	for _, broken := range bad.broken {
		r.fail(v.file, broken.line, name, broken.message)
	}
	if decoded.GetUID() == "" && isRegistration(gvk.Kind) && gvk.Kind != inventory.KindCRD { // a finding says what becomes of a CRD
		bad.placeholders = append(bad.placeholders, emptyBundles(v.json)...)
	}
	for _, bundle := range bad.placeholders {
		in.placeholders = append(in.placeholders, remark{v.file, bundle})
	}
	unknown := unknownFields(v, gvk)
	if crd, ok := decoded.(*apiextensionsv1.CustomResourceDefinition); ok && p == nil {
		p = refusedConversion(crd, v.place, unknown)
	}
	name = cmp.Or(nameGenerated(decoded, v.line, gvk.Kind), name)
	if p == nil && decoded.GetName() == "" {
		p = problemf(v.line, "metadata.name is missing")
	}
	if p != nil {
		r.fail(v.file, p.line, name, p.message)
		return
	}
	r.take(v, gvk, decoded, unknown)
}

// take keeps an object that was decoded, without what is not read of it: who owns which field,
// and much of what it is made of. unknown are the fields that its kind does not have.
func (r *reader) take(v value, gvk schema.GroupVersionKind, decoded metav1.Object, unknown []string) {
	fields := decoded.GetManagedFields()
	for i := range fields {
		fields[i].FieldsV1 = nil
	}
	r.manifest(v.file, gvk, decoded)
	if csv, ok := decoded.(*serviceVersion); ok {
		r.install(v, csv)
		return
	}
	key := inventory.SourceKey{Kind: gvk.Kind, Name: decoded.GetName()}
	if _, ofPlugin := decoded.(*inventory.PluginPolicy); ofPlugin { // Calico has a NetworkPolicy, too
		key.Kind = gvk.GroupKind().String()
	}
	if decoders[gvk.GroupKind().String()].namespaced {
		decoded.SetNamespace(cmp.Or(decoded.GetNamespace(), "default")) // as kubectl does
		key.Namespace = decoded.GetNamespace()
	}
	read := object{key: key, file: v.file, line: v.line, unknown: unknown, value: convert(decoded, gvk.Version)}
	if isRegistration(gvk.Kind) {
		read.hooks = hooks(v)
	}
	r.found(read)
}

// nameGenerated gives an object that has generateName alone a name, as the API server does,
// which ends it by five letters. It returns "Kind/name" then.
func nameGenerated(object metav1.Object, line int, kind string) string {
	if object.GetName() != "" || object.GetGenerateName() == "" {
		return ""
	}
	object.SetName(fmt.Sprintf("%s%05d", object.GetGenerateName(), line))
	return join(kind, object.GetName())
}

// unknownFields are those of a registration that is to be applied, for which kubectl
// refuses it.
func unknownFields(v value, gvk schema.GroupVersionKind) []string {
	if !v.file.plain || gvk.Group != admissionv1.GroupName && gvk.Kind != inventory.KindCRD || gvk.Version != "v1" {
		return nil
	}
	strict, _ := kjson.UnmarshalStrict(v.json, decoders[gvk.GroupKind().String()].object(), kjson.DisallowUnknownFields)
	var out []string
	for _, err := range strict {
		if path, unknown := strings.CutPrefix(err.Error(), "unknown field "); unknown {
			out = append(out, strings.Trim(path, `"`))
		}
	}
	return out
}

// nameIn returns the name of an object that is not decoded.
func nameIn(data []byte) string {
	var named metav1.PartialObjectMetadata
	_ = decode(data, &named) // what has no name has no name for an error
	return named.Name
}

// hook is the position of a webhook in its configuration.
type hook struct {
	name string
	line int
}

// hooks returns the webhooks of a configuration, each at its line.
func hooks(v value) []hook {
	var configuration struct {
		Webhooks []struct {
			Name string `json:"name"`
		} `json:"webhooks"`
	}
	_ = decode(v.json, &configuration) // it was decoded once
	shown := v.showing(v.json).part("webhooks")
	out := make([]hook, len(configuration.Webhooks))
	for i, w := range configuration.Webhooks {
		out[i] = hook{w.Name, v.line}
		if shown.elements() == len(out) {
			out[i].line = shown.part(i).line
		}
	}
	return out
}

// join returns "Kind/name", or the kind alone.
func join(kind, name string) string {
	if name == "" {
		return kind
	}
	return kind + "/" + name
}
