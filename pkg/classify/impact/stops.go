package impact

import (
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Stop is a function of a cluster that a webhook can stop.
type Stop struct {
	Function string
	// Match is yes, or maybe where labels or matchConditions decide.
	Match admission.Match
}

// function is one that needs a request.
type function struct {
	name      string
	resource  inventory.Resource
	operation admission.Operation
	// namespace is "" for cluster-scoped resources, and for any namespace.
	namespace string
}

// functions are what a cluster does by requests that webhooks may meet. Sources:
// client-go's leaderelection, kubelet, kube-scheduler and the controllers of
// kube-controller-manager.
var functions = []function{
	{"leader election of the scheduler and the controllers", inventory.Resource{Group: "coordination.k8s.io", Name: "leases"}, admission.Update, "kube-system"},
	{"heartbeats of nodes, which turn NotReady without", inventory.Resource{Group: "coordination.k8s.io", Name: "leases"}, admission.Update, "kube-node-lease"},
	{"nodes joining the cluster", inventory.Resource{Name: "nodes"}, admission.Create, ""},
	{"certificates of kubelets, for nodes that join and for rotation", inventory.Resource{Group: "certificates.k8s.io", Name: "certificatesigningrequests"}, admission.Create, ""},
	{"approval of the certificates of kubelets", inventory.Resource{Group: "certificates.k8s.io", Name: "certificatesigningrequests", Subresource: "approval"}, admission.Update, ""},
	{"signing of the certificates of kubelets", inventory.Resource{Group: "certificates.k8s.io", Name: "certificatesigningrequests", Subresource: "status"}, admission.Update, ""},
	{"the status of nodes", inventory.Resource{Name: "nodes", Subresource: "status"}, admission.Update, ""},
	{"creation of Pods, also those of Deployments, Jobs and nodes", inventory.Resource{Name: "pods"}, admission.Create, ""},
	{"Pods of new namespaces: they do not start without ConfigMap kube-root-ca.crt", inventory.Resource{Name: "configmaps"}, admission.Create, ""},
	{"Pods of new namespaces: they are refused without ServiceAccount default", inventory.Resource{Name: "serviceaccounts"}, admission.Create, ""},
	{"rollouts of Deployments", inventory.Resource{Group: "apps", Name: "replicasets"}, admission.Create, ""},
	{"rollouts of StatefulSets and DaemonSets", inventory.Resource{Group: "apps", Name: "controllerrevisions"}, admission.Create, ""},
	{"scheduling", inventory.Resource{Name: "pods", Subresource: "binding"}, admission.Create, ""},
	{"the status of Pods, by which they turn ready", inventory.Resource{Name: "pods", Subresource: "status"}, admission.Update, ""},
	{"tokens of Pods, without which they do not start", inventory.Resource{Name: "serviceaccounts", Subresource: "token"}, admission.Create, ""},
	{"the endpoints of new Services", inventory.Resource{Group: "discovery.k8s.io", Name: "endpointslices"}, admission.Create, ""},
	{"the endpoints of Services following their Pods", inventory.Resource{Group: "discovery.k8s.io", Name: "endpointslices"}, admission.Update, ""},
	{"removal of Pods: garbage collection and node drains", inventory.Resource{Name: "pods"}, admission.Delete, ""},
	{"evictions: node drains", inventory.Resource{Name: "pods", Subresource: "eviction"}, admission.Create, ""},
	{"deletion of namespaces", inventory.Resource{Name: "namespaces"}, admission.Delete, ""},
	{"deletion of namespaces: they stay Terminating", inventory.Resource{Name: "namespaces", Subresource: "finalize"}, admission.Update, ""},
	{"creation of namespaces", inventory.Resource{Name: "namespaces"}, admission.Create, ""},
	{"quota: usage is not written any more", inventory.Resource{Name: "resourcequotas", Subresource: "status"}, admission.Update, ""},
	{"installation of CRDs", inventory.Resource{Group: "apiextensions.k8s.io", Name: "customresourcedefinitions"}, admission.Create, ""},
	{"Events", inventory.Resource{Name: "events"}, admission.Create, ""},
	{"Events", inventory.Resource{Group: "events.k8s.io", Name: "events"}, admission.Create, ""},
	{"kubectl exec", inventory.Resource{Name: "pods", Subresource: "exec"}, admission.Connect, ""},
}

// Stops are the functions of the cluster that need requests for which the
// webhook is called. A conversion stops the controllers that read everything,
// where they read another version than is stored.
func Stops(p *classify.Profile) []Stop {
	if p.Type == inventory.Conversion {
		if p.Matcher.ConversionNeed(p.CRD) != admission.ControllersConvert {
			return nil
		}
		return []Stop{{"garbage collection", admission.Maybe}, {"deletion of namespaces, in the whole cluster", admission.Maybe}, {"resource quota", admission.Maybe}}
	}
	var out []Stop
	for _, f := range functions {
		out = f.addTo(out, f.match(p))
	}
	return out
}

// addTo adds the function where it stops: once, also where either of two resources will
// do.
func (f function) addTo(stops []Stop, m admission.Match) []Stop {
	if m == admission.No || slices.ContainsFunc(stops, func(s Stop) bool { return s.Function == f.name }) {
		return stops
	}
	return append(stops, Stop{f.name, m})
}

func (f function) match(p *classify.Profile) admission.Match {
	i := slices.IndexFunc(p.Matched, func(r admission.MatchedResource) bool { return r.Resource == f.resource })
	if i < 0 || !p.Matched[i].Operations.Has(f.operation) {
		return admission.No
	}
	if f.namespace == "" && p.Matched[i].Namespaced {
		if p.NamespaceSelector.Empty() && p.ObjectSelector.Empty() && len(p.MatchConditions) == 0 {
			return admission.Yes
		}
		return admission.Maybe
	}
	v := p.Matcher.Intercepts(p.Webhook, f.resource, f.operation, f.namespace)
	if v.OptIn {
		return admission.No
	}
	return v.Match
}
