package manifest

import (
	"bytes"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
	_, known := decoders[t.GroupKind().String()]
	return !known && t.Kind != "" && t.Version != ""
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
	"CustomResourceDefinition.apiextensions.k8s.io":                 {[]string{"v1"}, false, empty[crd]},
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
	"ClusterVersion.config.openshift.io":                            {[]string{"v1"}, false, empty[clusterStatus]},
	"ClusterOperator.config.openshift.io":                           {[]string{"v1"}, false, empty[clusterStatus]},
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
	case *crd:
		return o.whole()
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
	value   any
}

// outcome is what a text holds.
type outcome struct {
	objects   []object
	errors    []inventory.Error
	skipped   int
	openShift bool
	// listed is set where there was a list, be it empty.
	listed bool
	// fileDone is set at the end of a file.
	fileDone bool
	// manifests are the objects that are still to be applied; stored says that an API
	// server has stored one.
	manifests []inventory.Manifest
	stored    bool
	// placeholders are what stands for CA bundles that are filled in later.
	placeholders []string
	// ended are the objects in versions that no server takes any more, each with its place.
	ended []string
}

// fail adds a problem, whose line counts from the text's.
func (o *outcome) fail(t text, object string, p *problem) {
	o.errors = append(o.errors, inventory.Error{
		Source:  inventory.Source{File: t.file.name, Line: t.line + p.line - 1},
		Object:  object,
		Message: p.message,
	})
}

// skip counts objects of a type that is not read; a list counts as one at least.
func (o *outcome) skip(meta schema.GroupVersionKind, count int) {
	o.skipped += max(count, 1)
	o.openShift = o.openShift || isOpenShift(meta.Group)
}

// object reads one API object, whose webhooks are in the spans of the text.
func (o *outcome) object(t text, data []byte, meta schema.GroupVersionKind, webhooks []span) {
	d, known := decoders[meta.GroupKind().String()]
	switch {
	case meta.Version == "" && isRegistration(meta.Kind):
		o.fail(t, join(meta.Kind, nameIn(data)), problemf(1, "apiVersion is missing"))
		return
	case !known:
		o.skip(meta, 1)
		o.metadata(t, meta, data)
		return
	case meta.Version == "v1beta1" && !slices.Contains(d.versions, meta.Version):
		o.skip(meta, 1)
		o.ended = append(o.ended, fmt.Sprintf("%s:%d: %s is in %s, which no API server since v1.25 takes: not read", t.file.name, t.line, join(meta.Kind, nameIn(data)), meta.GroupVersion()))
		return
	case !slices.Contains(d.versions, meta.Version):
		o.fail(t, join(meta.Kind, nameIn(data)), problemf(1, "%s is not a version that this binary reads: must be %s", meta.GroupVersion(), strings.Join(d.versions, " or ")))
		return
	}
	o.openShift = o.openShift || isOpenShift(meta.Group)
	value := d.object()
	bad, p := decodeObject(data, value)
	for _, path := range bad.broken {
		o.fail(t, join(meta.Kind, value.GetName()), problemf(t.fieldLine(path, webhooks), "%s: must be base64", path))
	}
	o.placeholders = append(o.placeholders, bad.placeholders...)
	if value.GetUID() == "" && isRegistration(meta.Kind) && meta.Kind != inventory.KindCRD { // a finding says what becomes of a CRD
		o.placeholders = append(o.placeholders, emptyBundles(data)...)
	}
	unknown := unknownFields(t, meta, data)
	if crd, ok := value.(*crd); ok && p == nil {
		p = crd.refused(unknown)
	}
	if p != nil {
		if p.field != nil && p.line == 1 { // JSON that was YAML has one line
			p.line = t.fieldLine(p.field, webhooks)
		}
		o.fail(t, join(meta.Kind, value.GetName()), p)
		return
	}
	if value.GetName() == "" {
		o.fail(t, meta.Kind, problemf(1, "metadata.name is missing"))
		return
	}
	// Who owns which field is not read, and much of what an object is made of.
	fields := value.GetManagedFields()
	for i := range fields {
		fields[i].FieldsV1 = nil
	}
	o.manifest(t, meta, value)
	key := inventory.SourceKey{Kind: meta.Kind, Name: value.GetName()}
	if d.namespaced {
		value.SetNamespace(cmp.Or(value.GetNamespace(), "default")) // as kubectl does
		key.Namespace = value.GetNamespace()
	}
	o.objects = append(o.objects, object{
		key:     key,
		line:    t.line,
		hooks:   hooks(value, t.line, webhooks),
		unknown: unknown,
		value:   convert(value, meta.Version),
	})
}

// unknownFields are those of a registration that is to be applied, for which kubectl
// refuses it.
func unknownFields(t text, meta schema.GroupVersionKind, data []byte) []string {
	if !t.file.plain || meta.Group != admissionv1.GroupName && meta.Kind != inventory.KindCRD || meta.Version != "v1" {
		return nil
	}
	strict, _ := kjson.UnmarshalStrict(data, decoders[meta.GroupKind().String()].object(), kjson.DisallowUnknownFields)
	var out []string
	for _, err := range strict {
		if path, unknown := strings.CutPrefix(err.Error(), "unknown field "); unknown {
			out = append(out, strings.Trim(path, `"`))
		}
	}
	return out
}

// fieldLine returns the line of a field in the text, 1 where the webhooks do not show
// theirs.
func (t text) fieldLine(path *field.Path, webhooks []span) int {
	place, webhook := span{end: len(t.data), line: 1}, 0
	name := path.String()
	key, _, _ := strings.Cut(name[strings.LastIndex(name, ".")+1:], "[")
	switch n, _ := fmt.Sscanf(name, "webhooks[%d]", &webhook); {
	case n == 1 && webhook >= len(webhooks):
		return 1
	case n == 1:
		place = webhooks[webhook]
	}
	// The last one: kubectl's annotation, which comes first, may hold another.
	at := max(0, bytes.LastIndex(t.data[place.start:place.end], []byte(key)))
	return place.line + bytes.Count(t.data[place.start:place.start+at], []byte("\n"))
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

// hooks returns the webhooks of a configuration: each at its line, or all at the
// line of the configuration if it does not show theirs.
func hooks(configuration any, line int, shown []span) []hook {
	var out []hook
	switch c := configuration.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			out = append(out, hook{w.Name, line})
		}
	case *admissionv1.MutatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			out = append(out, hook{w.Name, line})
		}
	}
	if len(shown) == len(out) {
		for i := range out {
			out[i].line += shown[i].line - 1
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
