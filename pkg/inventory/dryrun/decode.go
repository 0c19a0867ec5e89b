package dryrun

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
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
	empty := x.typed()
	if empty == nil {
		return object, nil
	}
	if err := utiljson.Unmarshal(text, empty); err != nil {
		return nil, err
	}
	if o, ok := empty.(*corev1.Secret); ok && o.StringData != nil {
		if o.Data == nil {
			o.Data = map[string][]byte{}
		}
		for key, value := range o.StringData {
			o.Data[key] = []byte(value)
		}
		o.StringData = nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(empty)
}

// merged is the object as a server-side apply leaves it, where no other manager owns what
// is sent.
func (x *run) merged() (map[string]any, error) {
	sent, err := x.Apply.ObjectToTyped(&unstructured.Unstructured{Object: x.Sent})
	if err != nil || x.Stored == nil {
		return x.Sent, err
	}
	live, err := x.Apply.ObjectToTyped(&unstructured.Unstructured{Object: x.Stored}, typed.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	if live, err = live.Merge(sent); err != nil {
		return nil, err
	}
	out, _ := live.AsValue().Unstructured().(map[string]any)
	return out, nil
}

// wiped is an object as API servers begin with it. Source: createHandler and UpdateResource in
// k8s.io/apiserver/pkg/endpoints/handlers.
func (x *run) wiped(object map[string]any) map[string]any {
	o := &unstructured.Unstructured{Object: object}
	if x.Operation == admission.Create && !x.IsApplied {
		rest.WipeObjectMetaSystemFields(o)
	}
	var owners []metav1.OwnerReference
	for _, r := range o.GetOwnerReferences() {
		isSame := func(other metav1.OwnerReference) bool { return equality.Semantic.DeepEqual(r, other) }
		if !slices.ContainsFunc(owners, isSame) {
			owners = append(owners, r)
		}
	}
	if len(owners) < len(o.GetOwnerReferences()) && !x.IsApplied {
		o.SetOwnerReferences(owners)
	}
	return object
}
