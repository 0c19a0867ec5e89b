package manifest

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// result returns all that was read.
func (c *collector) result(inputs []input) inventory.Objects {
	out := inventory.Objects{
		OpenShift: c.openShift,
		Sources:   make(map[inventory.SourceKey]inventory.Source, len(c.objects)),
		Errors:    c.allErrors(),
	}
	known := confirmed(c.complete, inputs)
	var best server
	for _, k := range c.objects {
		addSources(out.Sources, k)
		if s, ok := k.value.(server); ok && s.known() && s.better(best) {
			best = s
		}
		if !known.replacedByPods(k.key) {
			out.Add(k.value)
		}
	}
	out.OpenShift = out.OpenShift || slices.ContainsFunc(out.CRDs, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return openShiftGroup(crd.Spec.Group) })
	out.Server = best.version
	out.Nodes = c.nodes(known, inputs)
	out.ServicesKnown.Namespaces = known[allServices]
	out.EndpointsKnown.Namespaces = known.endpoints()
	addMirrored(&out, c.objects)
	return out
}

// addSources adds the positions of an object and its webhooks.
func addSources(sources map[inventory.SourceKey]inventory.Source, k kept) {
	sources[k.key] = inventory.Source{File: k.file, Line: k.line}
	for i, h := range k.hooks {
		key := k.key
		key.Webhook, key.Index = h.name, i
		sources[key] = inventory.Source{File: k.file, Line: h.line}
	}
}

// coverage are the namespaces of which all objects of a set were collected.
type coverage map[objectSet]map[string]bool

// confirmed returns what the files are complete of, by the layout of their input.
func confirmed(complete []completeness, inputs []input) coverage {
	out := coverage{}
	for _, c := range complete {
		if inputs[c.input].layout != c.layout {
			continue
		}
		if out[c.complete] == nil {
			out[c.complete] = map[string]bool{}
		}
		out[c.complete][c.namespace] = true
	}
	return out
}

// endpoints are the namespaces of which all slices are known, or the endpoints
// they are mirrored from.
func (c coverage) endpoints() map[string]bool {
	out := maps.Clone(c[allSlices])
	if out == nil {
		return c[allEndpoints]
	}
	maps.Copy(out, c[allEndpoints])
	return out
}

// replacedByPods reports whether the Pods of the workload are known. DaemonSets
// are kept: they show on which nodes a Pod is still missing.
func (c coverage) replacedByPods(key inventory.SourceKey) bool {
	return c[allPods][key.Namespace] && (key.Kind == "Deployment" || key.Kind == "StatefulSet")
}

// nodes counts the Nodes of an input that has all of them: a must-gather does.
func (c *collector) nodes(known coverage, inputs []input) int {
	count := map[int]int{}
	for _, k := range c.objects {
		if k.key.Kind == "Node" && (inputs[k.input].layout == mustGather || known[allNodes] != nil) {
			count[k.input]++
		}
	}
	most := 0
	for _, n := range count {
		most = max(most, n)
	}
	return most
}

// addMirrored adds the endpoints of namespaces that have no slices. Where there
// are slices, the endpoints are the same again.
func addMirrored(out *inventory.Objects, objects []kept) {
	sliced := map[string]bool{}
	for _, s := range out.EndpointSlices {
		sliced[s.Namespace] = true
	}
	for _, k := range objects {
		if e, ok := k.value.(*endpoints); ok && !sliced[e.Namespace] {
			out.EndpointSlices = append(out.EndpointSlices, mirror(e)...)
		}
	}
}
