package manifest

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// manifest notes an object that is still to be applied.
func (o *outcome) manifest(t text, meta schema.GroupVersionKind, object metav1.Object) {
	switch {
	case !t.file.plain || object.GetName() == "":
		return
	case object.GetUID() != "" || object.GetResourceVersion() != "":
		o.stored = true
		return
	}
	m := inventory.Manifest{
		Input: t.file.name,
		Group: meta.Group, Version: meta.Version, Kind: meta.Kind,
		Key:    inventory.Key{Namespace: object.GetNamespace(), Name: object.GetName()},
		Labels: object.GetLabels(),
	}
	m.Finalizers = slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool { return !strings.Contains(f, "/") })
	if t.file.member != "" {
		m.Input = filepath.Dir(t.file.name)
	}
	for _, key := range inventory.OrderAnnotations {
		if _, annotated := object.GetAnnotations()[key]; annotated {
			m.Order = append(m.Order, key)
		}
	}
	o.manifests = append(o.manifests, m)
}

// metadata notes an object of a kind that is not read, which need not be valid
// otherwise. One that is stored is of a copy of a cluster.
func (o *outcome) metadata(t text, meta schema.GroupVersionKind, data []byte) {
	if !t.file.plain || len(data) > maxObject || bytes.Contains(data, []byte("resourceVersion")) {
		return
	}
	var p *problem
	if !isJSON(data) {
		data, p = toJSON(data)
	}
	var object metav1.PartialObjectMetadata
	if p == nil && decode(data, &object) == nil {
		o.manifest(t, meta, &object)
	}
}

// toApply reports whether the input is no copy of a cluster, as far as it is known.
func (in *input) toApply() bool { return !in.stored && !in.archive && in.layout == plain }

// toApply are the objects of the inputs that are no copy of a cluster, as far as it
// is known.
func toApply(inputs []*input) []inventory.Manifest {
	var out []inventory.Manifest
	for _, in := range inputs {
		if in.toApply() {
			out = append(out, in.manifests...)
		}
	}
	return out
}
