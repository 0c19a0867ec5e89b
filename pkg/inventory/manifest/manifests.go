package manifest

import (
	"bytes"
	"path/filepath"

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
	if t.file.member != "" {
		m.Input = filepath.Dir(t.file.name)
	}
	for _, key := range inventory.OrderAnnotations {
		if value, annotated := object.GetAnnotations()[key]; annotated {
			if m.Order == nil {
				m.Order = map[string]string{}
			}
			m.Order[key] = value
		}
	}
	o.manifests = append(o.manifests, m)
}

// metadata notes an object of a kind that is not read, which need not be valid
// otherwise.
func (o *outcome) metadata(t text, meta schema.GroupVersionKind, data []byte) {
	if !t.file.plain || len(data) > maxObject || bytes.Contains(data, []byte("resourceVersion")) {
		return
	}
	if !isJSON(data) {
		var p *problem
		if data, p = toJSON(metadataBlock(data)); p != nil {
			return
		}
	}
	var object metav1.PartialObjectMetadata
	if decode(data, &object) == nil {
		o.manifest(t, meta, &object)
	}
}

// metadataBlock is the metadata of an object in block style, else the whole of it:
// what else it holds is much more, and need not be parsed.
func metadataBlock(data []byte) []byte {
	var out []byte
	base, inside := -1, false
	for line := range bytes.Lines(data) {
		content := bytes.TrimLeft(line, " ")
		indent := len(line) - len(content)
		if isBlank(bytes.TrimSpace(content)) {
			continue
		}
		if base < 0 || indent == base {
			base, inside = indent, bytes.Equal(bytes.TrimRight(content, " \r\n"), []byte("metadata:"))
		}
		if inside {
			out = append(out, line...)
		}
	}
	if len(out) == 0 || hasAliases(data) {
		return data
	}
	return out
}

// toApply are the objects of the inputs that are no copy of a cluster, as far as it
// is known.
func toApply(inputs []*input) []inventory.Manifest {
	var out []inventory.Manifest
	for _, in := range inputs {
		if !in.stored && !in.archive && in.layout == plain {
			out = append(out, in.manifests...)
		}
	}
	return out
}
