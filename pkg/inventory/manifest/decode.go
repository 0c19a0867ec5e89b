package manifest

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
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

func isOpenShift(group string) bool { return strings.HasSuffix(group, ".openshift.io") }

// isSkipped reports whether objects of the type, or items of the list, are not
// read.
func isSkipped(t schema.GroupVersionKind) bool {
	t = itemType(t)
	_, ok := decoders[t.GroupKind().String()]
	return !ok && t.Kind != "" && t.Version != ""
}

// decode fills an object as the API server does: keys are case-sensitive and
// unknown ones ignored. Keys that are there twice are refused: which of the two
// counts would be a guess.
func decode(data []byte, target any) error {
	duplicates, err := kjson.UnmarshalStrict(data, target, kjson.DisallowDuplicateFields)
	if err == nil && len(duplicates) > 0 {
		err = fmt.Errorf("%w: remove one", duplicates[0])
	}
	return err
}

// badBundles are the CA bundles that are not base64: why the broken ones cannot be read,
// and what stands for one that is filled in later.
type badBundles struct {
	broken       []*problem
	placeholders []string
}

// decodeObject decodes an object without the CA bundles that are not base64: the rest of
// a webhook can be audited without. One that is null is one that is empty.
func (v value) decodeObject(object metav1.Object) (bad badBundles, p *problem) {
	data := v.json
	err := decode(data, object)
	_, isBundle := errors.AsType[base64.CorruptInputError](err) // no other field is base64
	if isBundle || bytes.Contains(data, []byte(`"caBundle":null`)) {
		var tree any
		if err = decode(data, &tree); err == nil {
			bad.cut(tree, nil, v.showing(data))
			data, err = json.Marshal(tree)
		}
		err = cmp.Or(err, decode(data, object))
	}
	if err != nil {
		return bad, v.decodeProblem(err)
	}
	return bad, nil
}

// placeholderBundle matches what tools replace: ${CA_BUNDLE}, {{ .Values.ca }}, <CA>, XYZ.
var placeholderBundle = regexp.MustCompile(`^\s*(\$[({]?\w.*|\{\{.*\}\}|<.*>|[\w.-]{1,40})\s*$`)

func (b *badBundles) cut(value any, path *field.Path, place place) {
	switch v := value.(type) {
	case []any:
		for i, element := range v {
			b.cut(element, path.Index(i), place.part(i))
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			b.cut(v[key], path.Child(key), place.part(key))
		}
		if null, stated := v["caBundle"]; stated && null == nil {
			v["caBundle"] = "" // the field is its manager's all the same
		}
		bundle, _ := v["caBundle"].(string)
		_, err := base64.StdEncoding.DecodeString(bundle)
		switch {
		case err == nil:
		case placeholderBundle.MatchString(bundle):
			v["caBundle"] = base64.StdEncoding.EncodeToString([]byte("xx")) // as one that is not known: Authority.Blanked
			b.placeholders = append(b.placeholders, strings.TrimSpace(bundle))
		default:
			delete(v, "caBundle")
			b.broken = append(b.broken, problemf(place.part("caBundle").line, "%s: must be base64", path.Child("caBundle")))
		}
	}
}

// emptyBundle is the line break that generators write for an injector to replace.
const emptyBundle = "Cg=="

func (v value) decodeProblem(err error) *problem {
	mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return problemf(v.line, "%v", err)
	}
	path, position := fieldAt(json.NewDecoder(bytes.NewReader(v.json)), nil, v.showing(v.json), mismatch.Offset)
	p := problemf(position.line, "%s: must be of type %s, not %s", path, mismatch.Type, mismatch.Value)
	if mismatch.Type.Kind() == reflect.String && mismatch.Value != "object" && mismatch.Value != "array" {
		p.message += ": write it in quotes"
	}
	return p
}

// fieldAt reads the next value and returns the path and place of the one in it, or of
// itself, that the decoder has read up to the offset: a scalar to its end, of an object or
// array the first character. The path is nil where none is.
func fieldAt(d *json.Decoder, path *field.Path, place place, offset int64) (*field.Path, place) {
	start, _ := d.Token() // what is no JSON is not decoded
	delim, isDelim := start.(json.Delim)
	switch {
	case d.InputOffset() >= offset:
		return path, place
	case !isDelim:
		return nil, place
	}
	for i := 0; d.More(); i++ {
		child, part := path.Index(i), place.part(i)
		if delim == '{' {
			key, _ := d.Token()
			child, part = path.Child(fmt.Sprint(key)), place.part(key)
		}
		if found, place := fieldAt(d, child, part, offset); found != nil {
			return found, place
		}
	}
	_, _ = d.Token()
	return nil, place
}

// convert returns the object as it is kept: with defaults.
func convert(object metav1.Object) any {
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
	case *admissionv1.MutatingAdmissionPolicyBinding:
		defaultNamedRules(o.Spec.MatchResources)
	case *apiextensionsv1.CustomResourceDefinition:
		withoutSchemas(o)
		defaultCRD(o)
	case *corev1.Service:
		defaultService(&o.Spec)
	case *corev1.Pod:
		o.ObjectMeta = inventory.ReducedMeta(o.ObjectMeta)
		o.Spec, o.Status = inventory.ReducedPod(o.Spec), corev1.PodStatus{
			Phase: o.Status.Phase, Conditions: o.Status.Conditions,
		}
	case *appsv1.Deployment:
		o.Spec.Template.Spec, o.Status = reduced(o.Spec.Template.Spec), appsv1.DeploymentStatus{}
	case *appsv1.StatefulSet:
		o.Spec.Template.Spec = reduced(o.Spec.Template.Spec)
		o.Spec.VolumeClaimTemplates, o.Status = nil, appsv1.StatefulSetStatus{}
	case *appsv1.DaemonSet:
		o.Spec.Template.Spec, o.Status = reduced(o.Spec.Template.Spec), appsv1.DaemonSetStatus{}
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

// reduced is what is read of the Pods of a workload: the Secrets that they mount, too.
func reduced(s corev1.PodSpec) corev1.PodSpec {
	out := inventory.ReducedPod(s)
	for _, v := range s.Volumes {
		if v.Secret != nil {
			out.Volumes = append(out.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{Secret: v.Secret}})
		}
	}
	return out
}

func isRegistration(kind string) bool {
	return kind == inventory.KindValidating || kind == inventory.KindMutating || kind == inventory.KindCRD
}

type object struct {
	key  inventory.SourceKey
	file *file
	// line is that of the object's first line in its file.
	line  int
	hooks []hook
	// unknown are the fields that the kind does not have, of an object to be applied.
	unknown []string
	// rival is another object of the name; nil without one.
	rival *inventory.Rival
	// sameSchemas is set where those of all versions of a CRD are the same.
	sameSchemas bool
	value       any
}

// skip counts objects of a type that is not read; a list counts as one at least.
func (r *reader) skip(f *file, gvk schema.GroupVersionKind, count int) {
	f.input.skipped += max(count, 1)
	r.openShift = r.openShift || isOpenShift(gvk.Group)
}

func (r *reader) object(v value, gvk schema.GroupVersionKind) {
	d, found := decoders[gvk.GroupKind().String()]
	input, named := v.file.input, func() string { return join(gvk.Kind, nameIn(v.json)) }
	switch {
	case gvk.Version == "" && isRegistration(gvk.Kind):
		r.fail(v.file, v.line, named(), "apiVersion is missing")
		return
	case !found, !slices.Contains(d.versions, gvk.Version) && strings.Contains(strings.TrimSuffix(gvk.Group, ".k8s.io"), "."):
		r.skip(v.file, gvk, 1)
		r.metadata(v, gvk)
		return
	case gvk.Version == "v1beta1" && !slices.Contains(d.versions, gvk.Version):
		r.skip(v.file, gvk, 1)
		if o := d.object(); decode(v.json, o) == nil && v.file.isPatch(o) {
			return
		}
		ended := fmt.Sprintf("%s:%d: %s is in %s, which no API server since v1.25 takes: not read", v.file.name, v.line, named(), gvk.GroupVersion())
		input.ended = append(input.ended, remark{v.file, ended})
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
		input.patches = append(input.patches, remark{v.file, fmt.Sprintf("not read, as a part of another object: %s in %s:%d", name, v.file.name, v.line)})
		r.skip(v.file, gvk, 1)
		return
	}
	for _, broken := range bad.broken {
		r.fail(v.file, broken.line, name, broken.message)
	}
	if decoded.GetUID() == "" && isRegistration(gvk.Kind) && gvk.Kind != inventory.KindCRD { // a finding says what becomes of a CRD
		empty := bytes.Count(v.json, []byte(`"caBundle":"`+emptyBundle+`"`))
		bad.placeholders = append(bad.placeholders, slices.Repeat([]string{emptyBundle}, empty)...)
	}
	for _, bundle := range bad.placeholders {
		input.placeholders = append(input.placeholders, remark{v.file, bundle})
	}
	name = cmp.Or(nameGenerated(decoded, v.line, gvk.Kind), name)
	if p == nil && decoded.GetName() == "" {
		p = problemf(v.line, "metadata.name is missing")
	}
	if p != nil {
		r.fail(v.file, p.line, name, p.message)
		return
	}
	r.take(v, gvk, decoded)
}

// take keeps an object that was decoded, without what is not read of it: who owns which field,
// and much of what it is made of.
func (r *reader) take(v value, gvk schema.GroupVersionKind, decoded metav1.Object) {
	fields := decoded.GetManagedFields()
	for i := range fields {
		fields[i].FieldsV1 = nil
	}
	r.manifest(v.file, gvk, decoded, nil)
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
	read := object{
		key: key, file: v.file, line: v.line, unknown: unknownFields(v, gvk),
		sameSchemas: hasSameSchemas(decoded), value: convert(decoded),
	}
	if isRegistration(gvk.Kind) {
		read.hooks = hooks(v, decoded)
	}
	r.found(read)
}

// hasSameSchemas reports whether a CRD has the same schema in all versions. One without fields, as
// where kustomize builds it, says nothing.
func hasSameSchemas(object metav1.Object) bool {
	crd, isCRD := object.(*apiextensionsv1.CustomResourceDefinition)
	if !isCRD || len(crd.Spec.Versions) == 0 {
		return false
	}
	first := crd.Spec.Versions[0].Schema
	return first != nil && first.OpenAPIV3Schema != nil && len(first.OpenAPIV3Schema.Properties) > 0 &&
		!slices.ContainsFunc(crd.Spec.Versions,
			func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
				return !reflect.DeepEqual(v.Schema, first)
			})
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

type hook struct {
	name    string
	line    int
	service inventory.Key
}

// hooks returns the webhooks of a configuration, each at its line.
func hooks(v value, configuration metav1.Object) []hook {
	all, places := inventory.WebhooksOf(configuration), v.showing(v.json).part("webhooks")
	out := make([]hook, len(all))
	for i, w := range all {
		out[i] = hook{name: w.Name, line: v.line}
		if s := w.ClientConfig.Service; s != nil {
			out[i].service = inventory.Key{Namespace: s.Namespace, Name: s.Name}
		}
		if places.elements() == len(out) {
			out[i].line = places.part(i).line
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
