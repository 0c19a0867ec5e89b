package cluster

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// The bounds of what is asked about params, beyond which they are unknown: how many lists,
// and how many objects in one.
const (
	maxParamQueries = 500
	maxParams       = 5000
)

// readParams asks which params exist that bindings name, by the metadata of a list. They
// may be of any kind, which few users may list: those that are forbidden are unknown, and
// where a list fails, what was known is kept.
func (r *reader) readParams(ctx context.Context, clients Clients, s *inventory.Snapshot, info serverInfo) serverInfo {
	ctx, cancel := context.WithTimeout(ctx, serverInfoTimeout)
	defer cancel()
	queries, resources := clients.paramQueries(s, info.paramsRefused)
	refused := map[inventory.ParamQuery]bool{}
	maps.Copy(refused, info.paramsRefused)
	before := info.params
	info.params, info.paramsRefused = map[inventory.ParamQuery][]string{}, refused
	for i, c := range r.readAll(ctx, resources) {
		switch {
		case c.complete:
			info.params[queries[i]] = namespacesOf(c.objects)
		case c.failure == nil:
		case c.failure.refused() || c.failure.err == errTooBroad:
			refused[queries[i]] = true
		default:
			info.failures = append(info.failures, *c.failure)
			if was, ok := before[queries[i]]; ok {
				info.params[queries[i]] = was
			}
		}
	}
	return info
}

// paramQueries are what is asked, each once, with the list that answers it. A kind that is
// not served has no params to list.
func (c Clients) paramQueries(s *inventory.Snapshot, refused map[inventory.ParamQuery]bool) ([]inventory.ParamQuery, []resource) {
	var queries []inventory.ParamQuery
	var resources []resource
	for _, p := range s.Policies {
		for _, b := range p.Bindings {
			q, ok := p.ParamQuery(b)
			served, isServed := servedParams(s, q)
			if !ok || !isServed || refused[q] || len(queries) == maxParamQueries || slices.Contains(queries, q) {
				continue
			}
			queries, resources = append(queries, q), append(resources, c.params(q, served))
		}
	}
	return queries, resources
}

// servedParams returns the resource of the params, and whether the query fits it: only
// what is namespaced is in a namespace.
func servedParams(s *inventory.Snapshot, q inventory.ParamQuery) (inventory.Served, bool) {
	gv, err := schema.ParseGroupVersion(q.APIVersion)
	i := slices.IndexFunc(s.Served, func(r inventory.Served) bool {
		return r.Group == gv.Group && r.Version == gv.Version && r.Kind == q.Kind && r.Parent() == r.Resource && slices.Contains(r.Verbs, "list")
	})
	if err != nil || i < 0 {
		return inventory.Served{}, false
	}
	return s.Served[i], s.Served[i].Namespaced || q.Namespace == ""
}

func (c Clients) params(q inventory.ParamQuery, of inventory.Served) resource {
	client := c.metadata.Resource(schema.GroupVersionResource{Group: of.Group, Version: of.Version, Resource: of.Name})
	r := resource{
		GroupResource: schema.GroupResource{Group: of.Group, Resource: of.Name},
		namespace:     q.Namespace,
		labels:        q.Selector,
		page:          500, most: maxParams, strip: stripMeta,
	}
	if q.Name != "" {
		r.fields = fields.OneTermEqualSelector(metav1.ObjectNameField, q.Name).String()
	}
	return withClient(client.Namespace(q.Namespace), r)
}

// namespacesOf are the namespaces of the objects, each once.
func namespacesOf(objects []any) []string {
	out := []string{}
	for _, object := range objects {
		if m, ok := object.(metav1.Object); ok && !slices.Contains(out, m.GetNamespace()) {
			out = append(out, m.GetNamespace())
		}
	}
	return out
}
