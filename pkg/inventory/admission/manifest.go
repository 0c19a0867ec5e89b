package admission

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Writing is the request by which the object of a manifest is written, in the namespace
// where it states none. A kind that the input does not show to be served, as that of a
// CRD which it lacks, counts as namespaced, with the plural that kubectl guesses.
func (m *Matcher) Writing(op Operation, o *inventory.Manifest, namespace string) Request {
	kind := Kind{Group: o.Group, Version: o.Version, Kind: o.Kind}
	v, served := m.index.kinds[kind]
	if !served {
		plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: o.Group, Version: o.Version, Kind: o.Kind})
		v = apiVersion{inventory.Resource{Group: o.Group, Name: plural.Resource}, o.Version, kind, true, true}
	}
	subject := Subject{Name: o.Name, Labels: o.Labels}
	if subject.Labels == nil {
		subject.Labels = map[string]string{}
	}
	if v.Namespaced {
		subject.Namespace = cmp.Or(o.Namespace, namespace)
	}
	return m.request(v, op, subject)
}
