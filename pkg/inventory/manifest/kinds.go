package manifest

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// typeMeta is what says how to read an object.
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

// item returns the type of a typed list's items: they carry none in what the
// API itself answers.
func (t typeMeta) item() typeMeta {
	kind := strings.TrimSuffix(t.kind, "List")
	if kind == "" {
		return typeMeta{}
	}
	return typeMeta{t.apiVersion, kind}
}

func (t typeMeta) list() bool { return strings.HasSuffix(t.kind, "List") }

// openShift reports whether only OpenShift serves the type.
func (t typeMeta) openShift() bool { return openShiftGroup(t.group()) }

func openShiftGroup(group string) bool { return strings.HasSuffix(group, ".openshift.io") }

type groupKind struct{ group, kind string }

// reading is how to read a kind.
type reading struct {
	versions   []string
	namespaced bool
	read       func(*decoder, *node, typeMeta) (any, *problem)
}

func (t typeMeta) reading() (reading, bool) {
	r, ok := readings[groupKind{t.group(), t.kind}]
	return r, ok
}

// readings are the kinds that are read; all others are skipped.
var readings = map[groupKind]reading{
	{"admissionregistration.k8s.io", inventory.KindValidating}: {[]string{"v1", "v1beta1"}, false, readValidating},
	{"admissionregistration.k8s.io", inventory.KindMutating}:   {[]string{"v1", "v1beta1"}, false, readMutating},
	{"apiextensions.k8s.io", inventory.KindCRD}:                {[]string{"v1", "v1beta1"}, false, readCRD},
	{"apiregistration.k8s.io", "APIService"}:                   {[]string{"v1", "v1beta1"}, false, read[apiregistrationv1.APIService]},
	{"", "Namespace"}:                                          {[]string{"v1"}, false, read[metav1.PartialObjectMetadata]},
	{"", "Service"}:                                            {[]string{"v1"}, true, read[corev1.Service]},
	{"", "Endpoints"}:                                          {[]string{"v1"}, true, read[endpoints]},
	{"discovery.k8s.io", "EndpointSlice"}:                      {[]string{"v1", "v1beta1"}, true, readSlice},
	{"", "Node"}:                                               {[]string{"v1"}, false, readNode},
	{"", "Pod"}:                                                {[]string{"v1"}, true, read[corev1.Pod]},
	{"apps", "Deployment"}:                                     {[]string{"v1"}, true, read[appsv1.Deployment]},
	{"apps", "StatefulSet"}:                                    {[]string{"v1"}, true, read[appsv1.StatefulSet]},
	{"apps", "DaemonSet"}:                                      {[]string{"v1"}, true, read[appsv1.DaemonSet]},
	{"config.openshift.io", "ClusterVersion"}:                  {[]string{"v1"}, false, readClusterVersion},
	{"config.openshift.io", "ClusterOperator"}:                 {[]string{"v1"}, false, readClusterOperator},
}

func read[T any](d *decoder, n *node, _ typeMeta) (any, *problem) {
	out := new(T)
	return out, d.decode(n, out)
}

func readValidating(d *decoder, n *node, t typeMeta) (any, *problem) {
	out := &admissionv1.ValidatingWebhookConfiguration{}
	p := d.decode(n, out)
	if t.version() == "v1beta1" {
		for i := range out.Webhooks {
			w := &out.Webhooks[i]
			defaultV1beta1(webhookV1beta1{&w.FailurePolicy, &w.MatchPolicy, &w.SideEffects, &w.TimeoutSeconds, &w.AdmissionReviewVersions})
		}
	}
	return out, p
}

func readMutating(d *decoder, n *node, t typeMeta) (any, *problem) {
	out := &admissionv1.MutatingWebhookConfiguration{}
	p := d.decode(n, out)
	if t.version() == "v1beta1" {
		for i := range out.Webhooks {
			w := &out.Webhooks[i]
			defaultV1beta1(webhookV1beta1{&w.FailurePolicy, &w.MatchPolicy, &w.SideEffects, &w.TimeoutSeconds, &w.AdmissionReviewVersions})
		}
	}
	return out, p
}

func readCRD(d *decoder, n *node, t typeMeta) (any, *problem) {
	if t.version() != "v1beta1" {
		return read[apiextensionsv1.CustomResourceDefinition](d, n, t)
	}
	old := &crdV1beta1{}
	p := d.decode(n, old)
	return old.v1(), p
}

func readSlice(d *decoder, n *node, t typeMeta) (any, *problem) {
	if t.version() != "v1beta1" {
		return read[discoveryv1.EndpointSlice](d, n, t)
	}
	old := &endpointSliceV1beta1{}
	p := d.decode(n, old)
	return old.v1(), p
}

// object is one API object that was read.
type object struct {
	key inventory.SourceKey
	// line is that of the object's first line in its file.
	line int
	// hooks are the webhooks of a configuration.
	hooks []hook
	// removed says that it is in a version that Kubernetes 1.22 removed.
	removed bool
	value   any
}

// hook is where a webhook of a configuration stands.
type hook struct {
	name string
	line int
}

// place is where a piece of text begins.
type place struct {
	file string
	line int
}

// outcome is what reading a piece of text yields.
type outcome struct {
	file      string
	input     int
	objects   []object
	errors    []inventory.Error
	skipped   int
	openShift bool
	// broken says that the text is not YAML or JSON.
	broken bool
	// listed says that there was a list, be it empty.
	listed bool
}

// fail adds what could not be read. The problem's line counts from the place.
func (o *outcome) fail(at place, name string, p *problem) {
	o.errors = append(o.errors, inventory.Error{
		Source:  inventory.Source{File: at.file, Line: at.line + p.line - 1},
		Object:  name,
		Message: p.Error(),
	})
}

// node reads an object or a list of them.
func (o *outcome) node(n *node, at place, implied typeMeta) {
	if n.null() {
		return
	}
	meta := typeMeta{n.str("apiVersion"), n.str("kind")}
	if meta == (typeMeta{}) {
		meta = implied
	}
	if items := n.get("items"); (meta.list() || meta.kind == "") && items != nil && items.kind == sequence {
		o.listed = true
		if p := incomplete(*n, nil); p != nil {
			o.fail(at, "", p)
		}
		for i := range items.items {
			o.node(&items.items[i], at, meta.item())
		}
		return
	}
	o.object(n, at, meta)
}

func (o *outcome) object(n *node, at place, meta typeMeta) {
	r, known := meta.reading()
	switch {
	case meta == (typeMeta{}) && n.get("gitVersion") != nil, meta == (typeMeta{}) && n.get("serverVersion") != nil:
		o.keep(object{key: inventory.SourceKey{Kind: "Version"}, line: at.line + n.line - 1, value: readVersion(n)})
	case meta.apiVersion == "" && registers(meta.kind):
		o.fail(at, meta.kind+"/"+n.str("metadata", "name"), problemf(n.line, "apiVersion is missing"))
	case !known:
		o.skip(meta)
	case !slices.Contains(r.versions, meta.version()):
		o.fail(at, meta.kind+"/"+n.str("metadata", "name"), unknownVersion(n, meta, r))
	default:
		o.read(n, at, meta)
	}
}

func registers(kind string) bool {
	return kind == inventory.KindValidating || kind == inventory.KindMutating || kind == inventory.KindCRD
}

func unknownVersion(n *node, meta typeMeta, r reading) *problem {
	known := strings.Join(r.versions, " or ")
	return problemf(n.line, "%s is not a version that this binary knows: want %s", meta.apiVersion, known)
}

func (o *outcome) read(n *node, at place, meta typeMeta) {
	o.openShift = o.openShift || meta.openShift()
	r, _ := meta.reading()
	key := inventory.SourceKey{Kind: meta.kind, Name: strings.Clone(n.str("metadata", "name"))}
	if r.namespaced {
		// Where kubectl would put it.
		key.Namespace = "default"
		if ns := n.str("metadata", "namespace"); ns != "" {
			key.Namespace = strings.Clone(ns)
		}
	}
	d := newDecoder()
	value, p := r.read(d, n, meta)
	for _, soft := range d.soft {
		o.fail(at, key.Kind+"/"+key.Name, soft.of(n))
	}
	switch {
	case p != nil:
		o.fail(at, key.Kind+"/"+key.Name, p.of(n))
	case key.Name == "":
		o.fail(at, key.Kind, problemf(n.line, "metadata.name is missing"))
	default:
		if r.namespaced {
			value.(metav1.Object).SetNamespace(key.Namespace)
		}
		o.keep(object{key: key, line: at.line + n.line - 1, hooks: hooks(n, at), removed: registers(meta.kind) && meta.version() == "v1beta1", value: value})
	}
}

// skip counts an object that nobody looks at, but for its group.
func (o *outcome) skip(meta typeMeta) {
	o.skipped++
	o.openShift = o.openShift || meta.openShift()
}

func (o *outcome) keep(object object) { o.objects = append(o.objects, object) }

// hooks returns the webhooks of a configuration with the line of each name,
// or of the entry where that is missing.
func hooks(n *node, at place) []hook {
	webhooks := n.get("webhooks")
	if webhooks == nil || webhooks.kind != sequence {
		return nil
	}
	out := make([]hook, 0, len(webhooks.items))
	for i := range webhooks.items {
		w := &webhooks.items[i]
		line := w.line
		if name := w.key("name"); name != nil {
			line = name.line
		}
		out = append(out, hook{name: strings.Clone(w.str("name")), line: at.line + line - 1})
	}
	return out
}
