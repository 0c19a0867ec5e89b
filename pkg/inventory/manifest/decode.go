package manifest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// decoder fills the API's types from nodes, as the API server's JSON decoder
// does: keys are case-sensitive, unknown ones are ignored. Doing it without
// the detour over JSON is faster, and an error knows its line. Strings are
// copied: those of a node keep the whole text alive.
type decoder struct {
	plans map[reflect.Type]plan
	// soft are the problems that leave the object readable.
	soft []*problem
}

func newDecoder() *decoder { return &decoder{plans: plans()} }

// plan is how to fill a struct.
type plan struct {
	// custom types read JSON themselves.
	custom bool
	// fields leads from a field's name in JSON to the field.
	fields map[string][]int
}

// plans are those of the types that are read, and of all they are made of.
var plans = sync.OnceValue(func() map[reflect.Type]plan {
	out := map[reflect.Type]plan{}
	for _, t := range []reflect.Type{
		reflect.TypeFor[admissionv1.ValidatingWebhookConfiguration](),
		reflect.TypeFor[admissionv1.MutatingWebhookConfiguration](),
		reflect.TypeFor[apiextensionsv1.CustomResourceDefinition](),
		reflect.TypeFor[crdV1beta1](),
		reflect.TypeFor[metav1.PartialObjectMetadata](),
		reflect.TypeFor[corev1.Service](),
		reflect.TypeFor[endpoints](),
		reflect.TypeFor[discoveryv1.EndpointSlice](),
		reflect.TypeFor[endpointSliceV1beta1](),
		reflect.TypeFor[apiregistrationv1.APIService](),
		reflect.TypeFor[corev1.Pod](),
		reflect.TypeFor[appsv1.Deployment](),
		reflect.TypeFor[appsv1.StatefulSet](),
		reflect.TypeFor[appsv1.DaemonSet](),
	} {
		addPlan(out, t)
	}
	return out
})

// unread are the types that nobody looks at and that make up most of a
// cluster's bytes.
var unread = []reflect.Type{
	reflect.TypeFor[metav1.FieldsV1](),
	reflect.TypeFor[apiextensionsv1.CustomResourceValidation](),
	reflect.TypeFor[apiextensionsv1.CustomResourceColumnDefinition](),
}

// wantedFields are the only fields that are read of some types. Pods are most of a
// cluster's objects, and what is in their containers is nobody's business here.
var wantedFields = map[reflect.Type][]string{
	reflect.TypeFor[corev1.PodSpec]():           {"nodeName", "hostNetwork", "priorityClassName"},
	reflect.TypeFor[corev1.PodStatus]():         {"phase", "conditions"},
	reflect.TypeFor[appsv1.DeploymentSpec]():    {"replicas", "selector", "template"},
	reflect.TypeFor[appsv1.StatefulSetSpec]():   {"replicas", "selector", "template"},
	reflect.TypeFor[appsv1.DaemonSetSpec]():     {"selector", "template"},
	reflect.TypeFor[appsv1.DeploymentStatus]():  {},
	reflect.TypeFor[appsv1.StatefulSetStatus](): {},
	reflect.TypeFor[appsv1.DaemonSetStatus]():   {},
}

func addPlan(plans map[reflect.Type]plan, t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if _, done := plans[t]; done || t.Kind() != reflect.Struct {
		return
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		plans[t] = plan{custom: true}
		return
	}
	p := plan{fields: map[string][]int{}}
	plans[t] = p
	addFields(plans, p, t, nil)
}

func addFields(plans map[reflect.Type]plan, p plan, t reflect.Type, prefix []int) {
	only, some := wantedFields[t]
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		index := append(slices.Clone(prefix), i)
		switch {
		case f.Anonymous && name == "":
			addFields(plans, p, f.Type, index)
		case name == "", name == "-", some && !slices.Contains(only, name), slices.Contains(unread, innermost(f.Type)):
		default:
			p.fields[name] = index
			addPlan(plans, f.Type)
		}
	}
}

func innermost(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// decode reads the node into the value that into points to.
func (d *decoder) decode(n *node, into any) *problem {
	return d.value(n, reflect.ValueOf(into).Elem())
}

func (d *decoder) value(n *node, v reflect.Value) *problem {
	if n.null() {
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(n, v.Elem())
	case reflect.Struct:
		return d.structure(n, v)
	case reflect.Map:
		return d.table(n, v)
	case reflect.Slice:
		return d.list(n, v)
	}
	return basic(n, v)
}

func (d *decoder) structure(n *node, v reflect.Value) *problem {
	plan := d.plans[v.Type()]
	if plan.custom {
		return unmarshal(n, v)
	}
	if n.kind != mapping {
		return mismatch(n, "a mapping")
	}
	for i := 0; i < len(n.items); i += 2 {
		index, ok := plan.fields[n.items[i].text]
		if !ok {
			continue
		}
		softBefore := len(d.soft)
		p := d.value(&n.items[i+1], v.FieldByIndex(index))
		for _, soft := range d.soft[softBefore:] {
			soft.under(n.items[i].text)
		}
		if p != nil {
			return p.under(n.items[i].text)
		}
	}
	return nil
}

func unmarshal(n *node, v reflect.Value) *problem {
	err := v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(appendJSON(nil, n))
	if err != nil {
		return problemf(n.line, "%v", err)
	}
	return nil
}

func (d *decoder) table(n *node, v reflect.Value) *problem {
	if n.kind != mapping {
		return mismatch(n, "a mapping")
	}
	if m, ok := v.Addr().Interface().(*map[string]string); ok {
		return labels(n, m)
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.items)/2))
	for i := 0; i < len(n.items); i += 2 {
		element := reflect.New(v.Type().Elem()).Elem()
		if p := d.value(&n.items[i+1], element); p != nil {
			return p.under(n.items[i].text)
		}
		v.SetMapIndex(reflect.ValueOf(strings.Clone(n.items[i].text)).Convert(v.Type().Key()), element)
	}
	return nil
}

// labels is table for the one type that most tables have.
func labels(n *node, m *map[string]string) *problem {
	*m = make(map[string]string, len(n.items)/2)
	for i := 0; i < len(n.items); i += 2 {
		value := &n.items[i+1]
		switch {
		case value.null():
			(*m)[strings.Clone(n.items[i].text)] = ""
		case value.kind != scalar || value.plain && resolve(value.text) != str:
			return mismatch(value, "a string").under(n.items[i].text)
		default:
			(*m)[strings.Clone(n.items[i].text)] = strings.Clone(value.text)
		}
	}
	return nil
}

func (d *decoder) list(n *node, v reflect.Value) *problem {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return d.bytes(n, v)
	}
	if n.kind != sequence {
		return mismatch(n, "a list")
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
	for i := range n.items {
		softBefore := len(d.soft)
		p := d.value(&n.items[i], v.Index(i))
		for _, soft := range d.soft[softBefore:] {
			soft.at(i)
		}
		if p != nil {
			return p.at(i)
		}
	}
	return nil
}

// bytes reads base64. Where that fails, the value stays empty and the object
// is read all the same: it is a CA bundle, and the rest of the webhook can be
// judged without.
func (d *decoder) bytes(n *node, v reflect.Value) *problem {
	if n.kind != scalar || n.plain && resolve(n.text) != str {
		return mismatch(n, "base64 text")
	}
	decoded, err := base64.StdEncoding.DecodeString(n.text)
	if err != nil {
		d.soft = append(d.soft, problemf(n.line, "not base64: %v", err))
		return nil
	}
	v.SetBytes(decoded)
	return nil
}

func basic(n *node, v reflect.Value) *problem {
	if n.kind != scalar {
		return mismatch(n, wanted(v.Kind()))
	}
	got := str
	if n.plain {
		got = resolve(n.text)
	}
	switch v.Kind() {
	case reflect.String:
		if got == str {
			v.SetString(strings.Clone(n.text))
			return nil
		}
	case reflect.Bool:
		if got == boolean {
			v.SetBool(truth(n.text))
			return nil
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		if i, whole := parseWhole(n.text); whole && got != str && !v.OverflowInt(i) {
			v.SetInt(i)
			return nil
		}
	}
	return mismatch(n, wanted(v.Kind()))
}

func wanted(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	}
	return "a whole number in range"
}

func mismatch(n *node, want string) *problem {
	p := problemf(n.line, "%s where %s is wanted", n.what(), want)
	if n.kind == scalar && n.plain && want == "a string" {
		p.message += fmt.Sprintf(": write %q in quotes", n.text)
	}
	return p
}
