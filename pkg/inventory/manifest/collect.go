package manifest

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// collector puts outcomes together, in their order.
type collector struct {
	progress func(files, objects int)
	files    int
	skipped  int

	objects []kept
	// index leads from a key to its place in objects.
	index     map[inventory.SourceKey]int
	errors    []inventory.Error
	openShift bool

	// items are the outcomes of a list of which some are still to come.
	items []outcome
}

// kept is an object and the file it was read from.
type kept struct {
	object
	file string
}

func (c *collector) collect(t task, o outcome) {
	switch {
	case t.fileDone:
		c.fileDone()
	case t.whole == nil:
		c.add(o)
	default:
		if c.items = append(c.items, o); t.last {
			c.list(t)
		}
	}
}

func (c *collector) fileDone() {
	c.files++
	if c.progress != nil {
		c.progress(c.files, len(c.objects))
	}
}

// list adds the items of a list. One that is broken may have been cut at the
// wrong place: then the whole list is read in one piece. If that fails too,
// the items are as good as it gets.
func (c *collector) list(t task) {
	items := c.items
	c.items = nil
	for _, item := range items {
		if item.broken && !t.whole.json {
			if whole := t.whole.read(); !whole.broken {
				c.add(whole)
				return
			}
			break
		}
	}
	for _, item := range items {
		c.add(item)
	}
}

func (c *collector) add(o outcome) {
	c.errors = append(c.errors, o.errors...)
	c.skipped += o.skipped
	c.openShift = c.openShift || o.openShift
	for _, object := range o.objects {
		k := kept{object: object, file: o.file}
		if at, again := c.index[k.key]; again {
			c.objects[at] = k
			continue
		}
		c.index[k.key] = len(c.objects)
		c.objects = append(c.objects, k)
	}
}

// result is what all objects make together.
func (c *collector) result() inventory.Objects {
	out := inventory.Objects{
		OpenShift: c.openShift,
		Sources:   make(map[inventory.SourceKey]inventory.Source, len(c.objects)),
		Errors:    c.errors,
	}
	var best server
	var old []*endpoints
	for _, k := range c.objects {
		c.source(&out, k)
		switch v := k.value.(type) {
		case server:
			if v.known() && v.better(best) {
				best = v
			}
		case *endpoints:
			old = append(old, v)
		default:
			put(&out, k.value)
		}
	}
	out.Server = best.version
	addMirrored(&out, old)
	return out
}

// source notes where an object and its webhooks were read.
func (c *collector) source(out *inventory.Objects, k kept) {
	out.Sources[k.key] = inventory.Source{File: k.file, Line: k.line}
	for _, h := range k.hooks {
		key := k.key
		key.Webhook = h.name
		if _, again := out.Sources[key]; !again {
			out.Sources[key] = inventory.Source{File: k.file, Line: h.line}
		}
	}
}

func put(out *inventory.Objects, value any) {
	switch v := value.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		out.Validating = append(out.Validating, v)
	case *admissionv1.MutatingWebhookConfiguration:
		out.Mutating = append(out.Mutating, v)
	case *apiextensionsv1.CustomResourceDefinition:
		out.CRDs = append(out.CRDs, v)
		out.OpenShift = out.OpenShift || (typeMeta{apiVersion: v.Spec.Group + "/"}).openShift()
	case *metav1.PartialObjectMetadata:
		out.Namespaces = append(out.Namespaces, v)
	case *corev1.Service:
		out.Services = append(out.Services, v)
	case *discoveryv1.EndpointSlice:
		out.EndpointSlices = append(out.EndpointSlices, v)
	case *apiregistrationv1.APIService:
		out.APIServices = append(out.APIServices, v)
	}
}

// addMirrored adds the endpoints of namespaces that have no slices. Where there
// are slices, the endpoints say the same again.
func addMirrored(out *inventory.Objects, old []*endpoints) {
	sliced := map[string]bool{}
	for _, s := range out.EndpointSlices {
		sliced[s.Namespace] = true
	}
	for _, e := range old {
		if !sliced[e.Namespace] {
			out.EndpointSlices = append(out.EndpointSlices, mirror(e)...)
		}
	}
}
