package dryrun

import (
	"encoding/json"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// typed returns an empty object of the kind of the request; nil of a kind that is not among
// the Types, as of custom resources.
func (x *run) typed() runtime.Object {
	object, err := x.Types.New(schema.GroupVersionKind{Group: x.Kind.Group, Version: x.Kind.Version, Kind: x.Kind.Kind})
	if err != nil {
		return nil
	}
	return object
}

// decode returns the object as the API server decodes it; one without a type as it is.
func (x *run) decode(object map[string]any) (map[string]any, error) {
	text, _ := json.Marshal(object) // it was read from JSON
	return x.decodeText(object, text)
}

// decodeText is decode of an object by its text, in which 3.0 is no integer.
func (x *run) decodeText(object map[string]any, text []byte) (map[string]any, error) {
	typed := x.typed()
	if typed == nil {
		return object, nil
	}
	if err := utiljson.Unmarshal(text, typed); err != nil {
		return nil, err
	}
	if o, ok := typed.(*corev1.Secret); ok && o.StringData != nil {
		if o.Data == nil {
			o.Data = map[string][]byte{}
		}
		for key, value := range o.StringData {
			o.Data[key] = []byte(value)
		}
		o.StringData = nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
}

// merged is the object as a server-side apply leaves it, where no other manager owns what
// is sent.
func (x *run) merged(stored, sent map[string]any) (map[string]any, error) {
	if typed := x.typed(); typed != nil {
		return strategicpatch.StrategicMergeMapPatch(runtime.DeepCopyJSON(stored), sent, typed) // it changes the first
	}
	before, _ := json.Marshal(stored) // as above
	changes, _ := json.Marshal(sent)
	after, err := jsonpatch.MergePatch(before, changes)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, utiljson.Unmarshal(after, &out)
}
