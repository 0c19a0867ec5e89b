package admission

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// stage is in which version, and how far prepared, an expression reads an object.
type stage struct {
	Kind
	// prepared says that the strategy of a subresource has put back what the
	// request may not change: it does so between the mutating and the validating
	// webhooks.
	prepared bool
	params   paramsKnown
	// ofPolicy says that the expression is a policy's own, rather than a matchCondition.
	ofPolicy bool
}

// paramsKnown says what an expression may read of params: an object in JSON, or as below.
type paramsKnown string

// A webhook has none, nor has a policy's binding without paramRef. Others are unknown, but where
// the input holds them.
const (
	webhookParams paramsKnown = ""
	nullParams    paramsKnown = "null"
	openParams    paramsKnown = "open"
)

func (p paramsKnown) value() ref.Val {
	var object map[string]any
	if utiljson.Unmarshal([]byte(p), &object) != nil || object == nil {
		return types.NullValue // nothing is read of those that are open
	}
	group, _ := schema.ParseGroupVersion(nested(object, "apiVersion"))
	k := knowledge{group: group.Group, kind: nested(object, "kind"), namespaced: true, labeled: true, written: true}
	return k.value("", object)
}

func (r Request) stageOf(t inventory.Type, kind Kind) stage {
	return stage{Kind: kind, prepared: r.Operation == Update && r.Resource.Subresource != "" && t.Validates()}
}

// newObject is the variable object: null where something is deleted.
func (r Request) newObject(stage stage) ref.Val {
	switch {
	case r.Operation == Delete:
		return types.NullValue
	case r.Operation == Connect: // the options of the connection, which have no metadata
		return knowledge{}.value("", map[string]any{})
	}
	if r.whole && stage.Kind == r.Kind {
		return knowledge{whole: true}.value("", r.Object)
	}
	k, root := r.knownObject(stage, r.Object, r.labelsAt(stage))
	return k.value("", root)
}

// labelsAt are those of the object at the stage. Some strategies of subresources put back
// the old ones, others take the new ones.
func (r Request) labelsAt(stage stage) labelSet {
	if stage.prepared && !(r.oldLabels.complete && maps.Equal(r.objectLabels.values, r.oldLabels.values)) {
		return withNameLabel(anyLabels, namespaceName(r))
	}
	return r.objectLabels
}

// oldObject is the variable of that name: null where nothing was before.
func (r Request) oldObject(stage stage) ref.Val {
	if r.Operation == Create || r.Operation == Connect {
		return types.NullValue
	}
	stage.prepared = false
	if r.whole && r.storedWhole != nil {
		return knowledge{whole: true}.value("", r.storedWhole)
	}
	k, root := r.knownObject(stage, nil, r.oldLabels)
	if r.Operation == Delete {
		k, root = r.knownObject(stage, r.Object, r.objectLabels)
	}
	if r.stored != nil {
		k.stored, root["metadata"] = true, r.stored
	}
	return k.value("", root)
}

// knownObject is what there is of an object: what a file says of it, or nil, what the
// request says and the labels. Source: createHandler in
// k8s.io/apiserver/pkg/endpoints/handlers, which completes the metadata.
func (r Request) knownObject(stage stage, file map[string]any, l labelSet) (knowledge, map[string]any) {
	k := knowledge{
		group: stage.Group, kind: stage.Kind.Kind, created: r.Operation == Create, namespaced: r.namespaced,
		labeled: l.complete, patched: r.patched,
	}
	root, metadata := map[string]any{}, map[string]any{}
	if file != nil && !stage.prepared {
		k.written = !r.partial
		k.mirror = stage.Kind.Kind == "Pod" && nested(file, "metadata", "annotations", corev1.MirrorPodAnnotationKey) != ""
		if own, ok := file["metadata"].(map[string]any); ok {
			metadata = maps.Clone(own)
		}
	}
	if file != nil && stage.Kind == r.Kind { // in another version the rest looks otherwise
		root = fields(file, r.Resource.Subresource, stage)
	}
	for _, field := range serverFields {
		delete(metadata, field)
	}
	metadata["name"], metadata["namespace"] = r.Name, ""
	if r.foreign {
		metadata["name"] = nested(file, "metadata", "name")
	}
	if r.namespaced {
		metadata["namespace"] = r.Namespace
	}
	metadata["labels"] = nativeLabels(l)
	if root["metadata"] = metadata; stage.Kind.Kind != "" {
		root["kind"] = stage.Kind.Kind
	}
	if delete(root, "apiVersion"); !stage.Unsure {
		root["apiVersion"] = schema.GroupVersion{Group: stage.Group, Version: stage.Version}.String()
	}
	return k, root
}

func nativeLabels(l labelSet) map[string]any {
	out := map[string]any{}
	for key, value := range l.values {
		out[key] = value
	}
	return out
}

// fields are those of a file that reach the stage: the status only in a request to
// that subresource, which takes nothing else, and of a Scale all but that.
func fields(file map[string]any, subresource string, stage stage) map[string]any {
	out := maps.Clone(file)
	if subresource != "status" {
		delete(out, "status")
	}
	if stage.prepared && stage.Kind.Kind != scaleKind {
		maps.DeleteFunc(out, func(key string, _ any) bool { return key != "status" })
	}
	return out
}

// serverFields are the fields of the metadata that the API server sets whatever is
// sent.
var serverFields = []string{"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"}

var metadataFields = append([]string{"annotations", "finalizers", "generateName", "labels", "name", "namespace", "ownerReferences"}, serverFields...)

// rootFields are those that some kind of Kubernetes' own has beside others: TestRootFields holds
// them.
var rootFields = strings.Fields(`action addressType aggregationRule allowVolumeExpansion allowedTopologies apiVersion
	automountServiceAccountToken binaryData capacity conditions count data deleteOptions deprecatedCount deprecatedFirstTimestamp
	deprecatedLastTimestamp deprecatedSource description driverName endpoints eventTime firstTimestamp globalDefault handler
	imagePullSecrets immutable involvedObject kind lastTimestamp maximumVolumeSize message metadata mountOptions nodeTopology note
	overhead parameters ports preemptionPolicy provisioner range reason reclaimPolicy regarding related reportingComponent
	reportingController reportingInstance revision roleRef rules scheduling secrets series source spec status storageClassName
	stringData subjects subsets target template type value volumeBindingMode webhooks`)

// knowledge says of a field that is not in what is known of an object whether it is
// missing, or not known: the API server sets defaults when it decodes an object,
// its admission plugins add to that, and the strategies of the kinds change it.
type knowledge struct {
	group, kind         string
	created, namespaced bool
	// labeled says that all its labels are known, patched that a map that is empty may
	// still be there: a server-side apply of a custom resource keeps it.
	labeled, patched bool
	// written says that a file holds what the client sends.
	written bool
	// mirror says that it is a mirror Pod, which the API server refuses where it names a
	// service account. Source: k8s.io/kubernetes plugin/pkg/admission/serviceaccount.
	mirror bool
	// stored says that the metadata are those of the stored object, whole that nothing is
	// missing of the object.
	stored, whole bool
}

// value is a value of the object at the path, in which elements of lists add
// nothing.
func (k knowledge) value(path string, v any) ref.Val {
	switch v := v.(type) {
	case map[string]any:
		return partialMap{types.NewStringInterfaceMap(types.DefaultTypeAdapter, v), k, path, v}
	case []any:
		elements := make([]ref.Val, len(v))
		for i := range v {
			elements[i] = k.value(path, v[i])
		}
		return partialList{types.NewRefValList(types.DefaultTypeAdapter, elements)}
	case string:
		if !k.whole && slices.Contains(quantities, last(parent(path))) {
			return unknown // 1000m is stored as 1
		}
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

func last(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

func parent(path string) string { return path[:max(strings.LastIndexByte(path, '.'), 0)] }

var (
	// userMaps are the fields with keys of the user's, to which the API server adds
	// none. LimitRanger writes an annotation of its own, which no condition is known to read.
	userMaps = []string{"annotations", "binaryData", "data", "labels", "matchLabels"}
	// quantities are the maps whose values are quantities, which are written in many ways.
	quantities = []string{"capacity", "hard", "limits", "requests"}
	// extended are the lists and maps to which admission plugins, or the strategy of a
	// kind, add.
	extended = map[string][]string{
		"DaemonSet":             {"metadata.annotations"},
		"Job":                   {"spec.selector.matchLabels", "spec.template.metadata.labels"},
		"Node":                  {"spec.taints"},
		"PersistentVolume":      {"metadata.finalizers"},
		"PersistentVolumeClaim": {"metadata.finalizers"},
		"Pod":                   {"spec.containers.volumeMounts", "spec.initContainers.volumeMounts", "spec.tolerations", "spec.volumes"},
	}
)

func (k knowledge) missing(path, key string) bool {
	switch {
	case k.whole:
		return true
	case path == "":
		return k.kind != "" && !slices.Contains(rootFields, key) && inventory.IsBuiltinGroup(k.group)
	case path == "metadata" && !slices.Contains(metadataFields, key):
		return true
	case k.stored && (path == "metadata" || strings.HasPrefix(path, "metadata.")):
		return true
	case path == "metadata" && key == "labels":
		return k.labeled && !k.patched
	case path == "metadata.labels":
		return k.labeled
	case path == "metadata" && key == "namespace":
		return !k.namespaced
	case path == "metadata" && (key == "deletionTimestamp" || key == "deletionGracePeriodSeconds"):
		return k.created
	case k.mirror && path == "spec" && strings.HasPrefix(key, "serviceAccount"):
		return true
	case !k.written:
		return false
	case path == "metadata":
		return key != "name" && !slices.Contains(serverFields, key) && !slices.Contains(extended[k.kind], path+"."+key)
	case strings.Contains(path+"."+key, "ontainers.securityContext"):
		return key != "procMount" // which alone has a default
	}
	return k.userMap(path)
}

func (k knowledge) userMap(path string) bool {
	return slices.Contains(userMaps, last(path)) && !slices.Contains(extended[k.kind], path)
}

// find returns the value of a field: unknown where the API server may set it.
func (k knowledge) find(path, key string, object map[string]any) (ref.Val, bool) {
	field := strings.TrimPrefix(path+"."+key, ".")
	value, ok := object[key]
	if k.whole && ok {
		return k.value(field, value), true
	}
	pointer := strings.Contains(field, "securityContext") // whose fields keep false and 0
	if ok && (pointer || !empty(value) || k.userMap(path)) && !slices.Contains(extended[k.kind], field) {
		return k.value(field, value), true
	}
	if (!ok || empty(value)) && k.missing(path, key) {
		return nil, false
	}
	return unknown, true
}

// empty reports whether the API server leaves the value out of most objects.
func empty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return v == nil || v == "" || v == false || v == int64(0)
}

var unknown = types.NewUnknown(0, types.NewAttributeTrail("object"))

// partialMap is a map of which not all keys are known. It is what the
// interpreter of CEL takes for a map: the answer about a key that is unknown is
// unknown, and so is what it would not be without.
type partialMap struct {
	traits.Mapper
	knowledge
	path   string
	fields map[string]any
}

func (m partialMap) Find(key ref.Val) (ref.Val, bool) {
	switch key := key.(type) {
	case types.String:
		return m.find(m.path, string(key), m.fields)
	case *types.Unknown:
		return key, true
	}
	return m.Mapper.Find(key)
}

func (m partialMap) Get(key ref.Val) ref.Val {
	if v, ok := m.Find(key); ok || v != nil {
		return v
	}
	return types.NewErr("no such key: %v", key)
}

func (m partialMap) Contains(key ref.Val) ref.Val {
	v, ok := m.Find(key)
	if types.IsUnknownOrError(v) {
		return v
	}
	return types.Bool(ok)
}

// Equal compares with another value: two maps never for certain.
func (m partialMap) Equal(other ref.Val) ref.Val {
	if _, ok := other.(traits.Mapper); ok {
		return unknown
	}
	return types.False
}

// Iterator goes through the keys, the unknown ones as one at the end.
func (m partialMap) Iterator() traits.Iterator {
	var keys []ref.Val
	for key := range m.fields {
		if v, ok := m.find(m.path, key, m.fields); ok && !types.IsUnknown(v) {
			keys = append(keys, types.String(key))
		}
	}
	if !m.complete() {
		keys = append(keys, unknown)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, keys).Iterator()
}

// complete reports whether no other keys may be there. LimitRanger annotates Pods.
func (m partialMap) complete() bool {
	switch {
	case m.whole:
		return true
	case m.path == "metadata.labels":
		return m.labeled
	case m.stored && strings.HasPrefix(m.path, "metadata."):
		return true
	}
	return m.written && m.userMap(m.path) && !(m.kind == "Pod" && m.path == "metadata.annotations")
}

// partialCall is a call that asks for the size of its argument, or compares two: the
// interpreter takes the size of a map for known, and the left of two for the one to ask.
type partialCall struct{ interpreter.InterpretableCall }

func decoratePartial(i interpreter.Interpretable) (interpreter.Interpretable, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if ok && slices.Contains([]string{overloads.Size, operators.Equals, operators.NotEquals}, call.Function()) {
		return partialCall{call}, nil
	}
	return i, nil
}

func (c partialCall) Eval(vars cel.Activation) ref.Val { return c.Exec(interpreter.AsFrame(vars)) }

func (c partialCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	values := lists.Map(c.Args(), func(arg interpreter.InterpretableV2) ref.Val { return arg.Exec(frame) })
	if i := slices.IndexFunc(values, types.IsUnknownOrError); i >= 0 {
		return values[i]
	}
	switch m, isMap := values[0].(partialMap); {
	case c.Function() != overloads.Size:
		equal := equalInPart(values[0], values[1])
		if b, ok := equal.(types.Bool); ok && c.Function() == operators.NotEquals {
			return !b
		}
		return equal
	case isMap && !m.complete():
		return unknown
	}
	sizer, ok := values[0].(traits.Sizer)
	if !ok {
		return types.MaybeNoSuchOverloadErr(values[0])
	}
	return sizer.Size()
}

// equalInPart compares values, each of which may be known in part.
func equalInPart(a, b ref.Val) ref.Val {
	switch b.(type) {
	case partialMap, partialList:
		return types.Equal(b, a)
	}
	return types.Equal(a, b)
}

// partialList is a list whose elements may be known in part: those are equal to nothing for
// certain.
type partialList struct{ traits.Lister }

func (l partialList) Contains(value ref.Val) ref.Val {
	var out ref.Val = types.False
	for i := l.Iterator(); i.HasNext() == types.True; {
		switch equal := equalInPart(i.Next(), value); {
		case equal == types.True:
			return equal
		case types.IsUnknown(equal):
			out = equal
		}
	}
	return out
}

func (l partialList) Equal(other ref.Val) ref.Val {
	list, ok := other.(traits.Lister)
	if !ok || l.Size() != list.Size() {
		return types.False
	}
	var out ref.Val = types.True
	for i := types.Int(0); i < l.Size().(types.Int); i++ {
		switch equal := equalInPart(l.Get(i), list.Get(i)); {
		case equal == types.False:
			return equal
		case types.IsUnknown(equal):
			out = equal
		}
	}
	return out
}

// asDecoded is an object as it is sent without what the API server decodes into other
// fields, of which no more is known then. Source: the conversions of
// k8s.io/kubernetes/pkg/apis.
func asDecoded(object map[string]any) map[string]any {
	if _, plain := object["stringData"]; !plain || nested(object, "kind") != "Secret" {
		return object
	}
	out := maps.Clone(object)
	delete(out, "stringData")
	delete(out, "data")
	return out
}
