package manifest

import (
	"maps"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// result is what all objects make together.
func (c *collector) result(inputs []source) inventory.Objects {
	out := inventory.Objects{
		OpenShift: c.openShift,
		Sources:   make(map[inventory.SourceKey]inventory.Source, len(c.objects)),
		Errors:    c.allErrors(),
	}
	known := granted(c.claims, inputs)
	var best server
	for _, k := range c.objects {
		addSources(out.Sources, k)
		if s, ok := k.value.(server); ok && s.known() && s.better(best) {
			best = s
		}
		if !known.saidByPods(k.key) {
			put(&out, k.value)
		}
	}
	out.Server = best.version
	out.Nodes = c.nodes(known, inputs)
	out.ServicesKnown.Namespaces = known[allServices]
	out.EndpointsKnown.Namespaces = known.endpoints()
	addMirrored(&out, c.objects)
	return out
}

// addSources notes where an object and its webhooks were read.
func addSources(sources map[inventory.SourceKey]inventory.Source, k kept) {
	sources[k.key] = inventory.Source{File: k.file, Line: k.line}
	for i, h := range k.hooks {
		key := k.key
		key.Webhook, key.Index = h.name, i
		sources[key] = inventory.Source{File: k.file, Line: h.line}
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
		out.OpenShift = out.OpenShift || openShiftGroup(v.Spec.Group)
	case *metav1.PartialObjectMetadata:
		out.Namespaces = append(out.Namespaces, v)
	case *corev1.Service:
		out.Services = append(out.Services, v)
	case *discoveryv1.EndpointSlice:
		out.EndpointSlices = append(out.EndpointSlices, v)
	case *apiregistrationv1.APIService:
		out.APIServices = append(out.APIServices, v)
	default:
		putWorkload(out, value)
	}
}

func putWorkload(out *inventory.Objects, value any) {
	switch v := value.(type) {
	case *corev1.Pod:
		out.Pods = append(out.Pods, v)
	case *appsv1.Deployment:
		out.Deployments = append(out.Deployments, v)
	case *appsv1.StatefulSet:
		out.StatefulSets = append(out.StatefulSets, v)
	case *appsv1.DaemonSet:
		out.DaemonSets = append(out.DaemonSets, v)
	}
}

// coverage says of which namespaces all objects of a kind were collected.
type coverage map[collected]map[string]bool

// granted are the claims that hold.
func granted(claims []claim, inputs []source) coverage {
	out := coverage{}
	for _, c := range claims {
		if inputs[c.input].layout != c.layout {
			continue
		}
		if out[c.collected] == nil {
			out[c.collected] = map[string]bool{}
		}
		out[c.collected][c.namespace] = true
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

// saidByPods reports whether the object only stands in for Pods that are known
// themselves. DaemonSets say more: they run where there is no Pod yet.
func (c coverage) saidByPods(key inventory.SourceKey) bool {
	return c[allPods][key.Namespace] && (key.Kind == inventory.KindDeployment || key.Kind == inventory.KindStatefulSet)
}

// nodes counts the Nodes of an input that has all of them: a must-gather does.
func (c *collector) nodes(known coverage, inputs []source) int {
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
// are slices, the endpoints say the same again.
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
