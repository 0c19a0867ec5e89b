package manifest

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// typeMeta is the type that an object states.
type typeMeta struct{ apiVersion, kind string }

func (t typeMeta) group() string {
	group, _, found := strings.Cut(t.apiVersion, "/")
	if !found {
		return ""
	}
	return group
}

func (t typeMeta) version() string {
	return t.apiVersion[strings.LastIndexByte(t.apiVersion, '/')+1:]
}

func (t typeMeta) isList() bool { return strings.HasSuffix(t.kind, "List") }

// item returns the type of a list's items: the API server states none in them.
func (t typeMeta) item() typeMeta {
	kind := strings.TrimSuffix(t.kind, "List")
	if kind == "" {
		return typeMeta{}
	}
	return typeMeta{t.apiVersion, kind}
}

// isOpenShift reports whether only OpenShift serves the type.
func (t typeMeta) isOpenShift() bool { return openShiftGroup(t.group()) }

func openShiftGroup(group string) bool { return strings.HasSuffix(group, ".openshift.io") }

// isSkipped reports whether objects of the type, or items of the list, are not
// read.
func (t typeMeta) isSkipped() bool {
	if t.isList() {
		t = t.item()
	}
	_, known := t.decoder()
	return !known && t.kind != "" && t.apiVersion != ""
}

type groupKind struct{ group, kind string }

// decoder is how to read a kind.
type decoder struct {
	versions   []string
	namespaced bool
	// object returns an empty object to decode into.
	object func() metav1.Object
}

func (t typeMeta) decoder() (decoder, bool) {
	d, ok := decoders[groupKind{t.group(), t.kind}]
	return d, ok
}

// decoders are the kinds that are read; all others are skipped.
var decoders = map[groupKind]decoder{
	{"admissionregistration.k8s.io", inventory.KindValidating}: {[]string{"v1", "v1beta1"}, false, empty[admissionv1.ValidatingWebhookConfiguration]},
	{"admissionregistration.k8s.io", inventory.KindMutating}:   {[]string{"v1", "v1beta1"}, false, empty[admissionv1.MutatingWebhookConfiguration]},
	{"apiextensions.k8s.io", inventory.KindCRD}:                {[]string{"v1", "v1beta1"}, false, empty[crd]},
	{"apiregistration.k8s.io", "APIService"}:                   {[]string{"v1", "v1beta1"}, false, empty[apiregistrationv1.APIService]},
	{"", "Namespace"}:                                          {[]string{"v1"}, false, empty[metav1.PartialObjectMetadata]},
	{"", "Service"}:                                            {[]string{"v1"}, true, empty[corev1.Service]},
	{"", "Endpoints"}:                                          {[]string{"v1"}, true, empty[endpoints]},
	{"discovery.k8s.io", "EndpointSlice"}:                      {[]string{"v1", "v1beta1"}, true, empty[endpointSlice]},
	{"", "Node"}:                                               {[]string{"v1"}, false, empty[node]},
	{"", "Pod"}:                                                {[]string{"v1"}, true, empty[pod]},
	{"apps", "Deployment"}:                                     {[]string{"v1"}, true, empty[workload]},
	{"apps", "StatefulSet"}:                                    {[]string{"v1"}, true, empty[workload]},
	{"apps", "DaemonSet"}:                                      {[]string{"v1"}, true, empty[workload]},
	{"config.openshift.io", "ClusterVersion"}:                  {[]string{"v1"}, false, empty[clusterVersion]},
	{"config.openshift.io", "ClusterOperator"}:                 {[]string{"v1"}, false, empty[clusterOperator]},
}

func empty[T any, P interface {
	*T
	metav1.Object
}]() metav1.Object {
	return P(new(T))
}

// convert returns the object as it is kept: in v1, with the defaults of its
// version.
func convert(object metav1.Object, t typeMeta) any {
	switch o := object.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			w := &o.Webhooks[i]
			t.defaultWebhook(webhook{&w.FailurePolicy, &w.MatchPolicy, &w.SideEffects, &w.TimeoutSeconds, &w.AdmissionReviewVersions})
		}
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			w := &o.Webhooks[i]
			t.defaultWebhook(webhook{&w.FailurePolicy, &w.MatchPolicy, &w.SideEffects, &w.TimeoutSeconds, &w.AdmissionReviewVersions})
		}
	case *crd:
		return o.v1(t)
	case *endpointSlice:
		return o.v1()
	case *pod:
		return o.v1()
	case *workload:
		return o.v1(t)
	case *node:
		return newServer(fromKubelet, o.Status.NodeInfo.KubeletVersion)
	case *clusterVersion:
		return o.server()
	case *clusterOperator:
		return o.server()
	}
	return object
}

func isRegistration(kind string) bool {
	return kind == inventory.KindValidating || kind == inventory.KindMutating || kind == inventory.KindCRD
}

// object is one API object that was read.
type object struct {
	key inventory.SourceKey
	// line is that of the object's first line in its file.
	line int
	// hooks are the webhooks of a configuration.
	hooks []hook
	// removed is set where Kubernetes 1.22 removed the version.
	removed bool
	value   any
}

// position is where a text begins.
type position struct {
	file string
	line int
}

// outcome is what a part of an input holds.
type outcome struct {
	file      string
	input     int
	objects   []object
	errors    []inventory.Error
	skipped   int
	openShift bool
	// listed is set where there was a list, be it empty.
	listed bool
	// fileDone is set at the end of a file, which is complete then.
	fileDone bool
	complete []completeness
}

// fail adds a problem, whose line counts from the position.
func (o *outcome) fail(at position, object string, p *problem) {
	o.errors = append(o.errors, inventory.Error{
		Source:  inventory.Source{File: at.file, Line: at.line + p.line - 1},
		Object:  object,
		Message: p.Error(),
	})
}

func (o *outcome) add(other outcome) {
	o.objects = append(o.objects, other.objects...)
	o.errors = append(o.errors, other.errors...)
	o.skipped += other.skipped
	o.openShift = o.openShift || other.openShift
	o.listed = o.listed || other.listed
}

// skip counts objects of a type that is not read.
func (o *outcome) skip(meta typeMeta, count int) {
	o.skipped += count
	o.openShift = o.openShift || meta.isOpenShift()
}

// object reads one API object.
func (o *outcome) object(t text, meta typeMeta) {
	d, known := meta.decoder()
	switch {
	case meta.apiVersion == "" && isRegistration(meta.kind):
		o.fail(t.position, join(meta.kind, metadataName(t.data)), problemf(1, "apiVersion is missing"))
	case !known:
		o.skip(meta, 1)
	case !slices.Contains(d.versions, meta.version()):
		o.fail(t.position, join(meta.kind, metadataName(t.data)), problemf(1, "%s is not a version that this binary reads: must be %s", meta.apiVersion, strings.Join(d.versions, " or ")))
	default:
		o.decode(t, meta)
	}
}

func (o *outcome) decode(t text, meta typeMeta) {
	o.openShift = o.openShift || meta.isOpenShift()
	d, _ := meta.decoder()
	value := d.object()
	warnings, p := decode(t.data, value)
	if p != nil {
		warnings = append(warnings, p)
	}
	name := value.GetName()
	if p != nil {
		name = metadataName(t.data)
	}
	for _, w := range warnings {
		o.fail(t.position, join(meta.kind, name), w.of(t.data))
	}
	switch {
	case p != nil:
		return
	case name == "":
		o.fail(t.position, meta.kind, problemf(1, "metadata.name is missing"))
		return
	}
	if d.namespaced && value.GetNamespace() == "" {
		value.SetNamespace("default") // as kubectl does
	}
	key := inventory.SourceKey{Kind: meta.kind, Name: name}
	if d.namespaced {
		key.Namespace = value.GetNamespace()
	}
	out := object{key: key, line: t.line, removed: isRegistration(meta.kind) && meta.version() == "v1beta1", value: convert(value, meta)}
	if meta.kind == inventory.KindValidating || meta.kind == inventory.KindMutating {
		out.hooks = hooks(t.data)
		for i := range out.hooks {
			out.hooks[i].line += t.line - 1
		}
	}
	o.objects = append(o.objects, out)
}

// join returns "Kind/name", or the kind alone.
func join(kind, name string) string {
	if name == "" {
		return kind
	}
	return kind + "/" + name
}
