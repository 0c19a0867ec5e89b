package dryrun

import (
	_ "embed"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// rule is what API servers set in values of a type where a field is missing.
type rule struct {
	Type  string
	Since int
	// Plugin is set of what an admission plugin sets on create, before webhooks are called.
	Plugin bool
	If     map[string]any
	Set    json.RawMessage
}

//go:embed defaults.yaml
var ruleFile []byte

var rulesByType = sync.OnceValue(func() map[string][]rule {
	var rules []rule
	if err := yaml.UnmarshalStrict(ruleFile, &rules); err != nil {
		panic(err) // unreachable: it is read in tests
	}
	out := map[string][]rule{}
	for _, r := range rules {
		out[r.Type] = append(out[r.Type], r)
	}
	return out
})

// withDefaults is the object with the defaults of the API server.
func (x *run) withDefaults(object map[string]any) map[string]any {
	if x.typed() == nil {
		structuraldefaulting.Default(object, x.Schema)
		return object
	}
	return x.withRules(object, false)
}

// withPlugins is an object with what admission plugins set before webhooks are called; their
// priority of a Pod is known of the stored one, or where it is the usual one.
func (x *run) withPlugins(object map[string]any) map[string]any {
	spec := mapAt(object, "spec")
	switch {
	case x.Kind.Kind == "Pod" && spec != nil:
		tolerate(spec)
		usual := fields{"priority": int64(0), "preemptionPolicy": "PreemptLowerPriority"}
		if x.Stored != nil {
			usual = mapAt(x.Stored, "spec")
		}
		for _, key := range []string{"priority", "preemptionPolicy"} {
			if x.Answer.Object == nil && spec["priorityClassName"] == mapAt(x.Stored, "spec")["priorityClassName"] && usual[key] != nil {
				spec[key] = usual[key]
			}
		}
	case x.Operation == admission.Create:
		return x.withRules(object, true)
	}
	return object
}

func (x *run) withRules(object map[string]any, plugins bool) map[string]any {
	typed := x.typed()
	if typed == nil {
		return object
	}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, typed) != nil {
		return object // unreachable: it was decoded
	}
	if !plugins {
		x.Types.Default(typed)
	}
	x.setFields(reflect.ValueOf(typed), plugins)
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return object // unreachable: as above
	}
	return out
}

func (x *run) setFields(v reflect.Value, plugins bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			x.setFields(v.Elem(), plugins)
		}
	case reflect.Slice:
		for i := range v.Len() {
			x.setFields(v.Index(i), plugins)
		}
	case reflect.Struct:
		group, isAPI := strings.CutPrefix(v.Type().PkgPath(), "k8s.io/api/")
		if !isAPI {
			return
		}
		value := v.Addr().Interface()
		if !plugins {
			setComputed(value)
		}
		server := x.matcher.Snapshot.Server
		for _, r := range rulesByType()[group+"."+v.Type().Name()] {
			if r.Plugin == plugins && (!server.Known() || server.AtLeast(1, r.Since)) && has(value, r.If) {
				values := reflect.New(v.Type())
				_ = json.Unmarshal(r.Set, values.Interface()) // as above
				fill(v, values.Elem())
			}
		}
		for i := 0; i < v.NumField() && !plugins; i++ {
			x.setFields(v.Field(i), plugins)
		}
	}
}

// has reports whether a value has the fields.
func has(v any, fields map[string]any) bool {
	if len(fields) == 0 {
		return true
	}
	value, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(v) // it was read from JSON
	return includes(value, fields)
}

func includes(value, fields map[string]any) bool {
	for key, want := range fields {
		below, isMap := want.(map[string]any)
		if isMap && !includes(asMap(value[key]), below) || !isMap && value[key] != want {
			return false
		}
	}
	return true
}

// fill sets the fields that are missing.
func fill(v, values reflect.Value) {
	_, isValue := v.Interface().(intstr.IntOrString)
	switch isMissing := v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0; {
	case values.IsZero():
	case isMissing:
		v.Set(values)
	case v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct:
		fill(v.Elem(), values.Elem())
	case v.Kind() == reflect.Struct && !isValue:
		for i := range v.NumField() {
			fill(v.Field(i), values.Field(i))
		}
	case v.Kind() == reflect.Map:
		for _, key := range values.MapKeys() {
			if !v.MapIndex(key).IsValid() {
				v.SetMapIndex(key, values.MapIndex(key))
			}
		}
	}
}

// setComputed sets the defaults that follow from other fields. Source: SetDefaults_… in
// k8s.io/kubernetes/pkg/apis, as of defaults.yaml.
func setComputed(v any) {
	switch o := v.(type) {
	case *corev1.Container:
		setPullPolicy(&o.ImagePullPolicy, o.Image)
	case *corev1.EphemeralContainerCommon:
		setComputed((*corev1.Container)(o))
	case *corev1.ImageVolumeSource:
		setPullPolicy(&o.PullPolicy, o.Reference)
	case *corev1.VolumeSource:
		if *o == (corev1.VolumeSource{}) {
			o.EmptyDir = &corev1.EmptyDirVolumeSource{}
		}
	case *corev1.ServiceSpec:
		isOfCluster := o.Type == "" || o.Type == corev1.ServiceTypeClusterIP
		if isOfCluster && len(o.ExternalIPs) > 0 && o.ExternalTrafficPolicy == "" {
			o.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
		}
	case *corev1.ServicePort:
		if o.TargetPort == intstr.FromInt32(0) || o.TargetPort == intstr.FromString("") {
			o.TargetPort = intstr.FromInt32(o.Port)
		}
	case *corev1.PodSpec:
		if o.ServiceAccountName == "" {
			o.ServiceAccountName = o.DeprecatedServiceAccount
		}
		o.DeprecatedServiceAccount = o.ServiceAccountName
	case *corev1.Pod:
		for _, list := range [][]corev1.Container{o.Spec.InitContainers, o.Spec.Containers} {
			for i := range list {
				setContainer(&list[i], o.Spec.HostNetwork)
			}
		}
	case *corev1.Namespace:
		if o.Name != "" {
			o.Labels = filled(o.Labels, map[string]string{corev1.LabelMetadataName: o.Name})
		}
	case *appsv1.StatefulSetSpec:
		for i := range o.VolumeClaimTemplates {
			o.VolumeClaimTemplates[i].TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
		}
	case *batchv1.Job:
		if len(o.Labels) == 0 {
			o.Labels = o.Spec.Template.Labels
		}
	}
}

// setPullPolicy sets that of an image by its tag.
func setPullPolicy(policy *corev1.PullPolicy, image string) {
	_, tag, isTagged := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":")
	switch {
	case *policy != "":
	case tag == "latest" || !isTagged && !strings.Contains(image, "@"):
		*policy = corev1.PullAlways
	default:
		*policy = corev1.PullIfNotPresent
	}
}

// setContainer has a container of a Pod request what it is limited to, and the ports of its node.
func setContainer(c *corev1.Container, hostNetwork bool) {
	if c.Resources.Limits != nil {
		c.Resources.Requests = filled(c.Resources.Requests, c.Resources.Limits)
	}
	for i, p := range c.Ports {
		if hostNetwork && p.HostPort == 0 {
			c.Ports[i].HostPort = p.ContainerPort
		}
	}
}

// filled is a map with what it lacks of another one.
func filled[M ~map[K]V, K comparable, V any](m, other M) M {
	out := maps.Clone(other)
	maps.Copy(out, m)
	return out
}
