package classify

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// controlPlaneParts is what nodes need to join, a control plane to recover
// and leaders to stay leaders. Each outage that taught it is in
// testdata/outages.
var controlPlaneParts = map[string][]inventory.Resource{
	"": {
		{Name: "namespaces", Subresource: "finalize"},
		{Name: "namespaces", Subresource: "status"},
		{Name: "nodes"},
		{Name: "nodes", Subresource: "status"},
		{Group: "apiextensions.k8s.io", Name: "customresourcedefinitions"},
		{Group: "certificates.k8s.io", Name: "certificatesigningrequests"},
		{Group: "certificates.k8s.io", Name: "certificatesigningrequests", Subresource: "approval"},
		{Group: "certificates.k8s.io", Name: "certificatesigningrequests", Subresource: "status"},
		{Group: "storage.k8s.io", Name: "csinodes"},
	},
	"kube-node-lease": {
		{Group: "coordination.k8s.io", Name: "leases"},
	},
	"kube-public": {
		{Name: "configmaps"},
	},
	"kube-system": {
		{Name: "endpoints"},
		{Name: "pods"},
		{Name: "pods", Subresource: "binding"},
		{Name: "pods", Subresource: "status"},
		{Name: "secrets"},
		{Name: "serviceaccounts"},
		{Name: "serviceaccounts", Subresource: "token"},
		{Name: "services"},
		{Name: "services", Subresource: "status"},
		{Group: "apps", Name: "controllerrevisions"},
		{Group: "apps", Name: "daemonsets"},
		{Group: "apps", Name: "daemonsets", Subresource: "status"},
		{Group: "apps", Name: "deployments"},
		{Group: "apps", Name: "deployments", Subresource: "scale"},
		{Group: "apps", Name: "deployments", Subresource: "status"},
		{Group: "apps", Name: "replicasets"},
		{Group: "apps", Name: "replicasets", Subresource: "scale"},
		{Group: "apps", Name: "replicasets", Subresource: "status"},
		{Group: "apps", Name: "statefulsets"},
		{Group: "apps", Name: "statefulsets", Subresource: "scale"},
		{Group: "apps", Name: "statefulsets", Subresource: "status"},
		{Group: "discovery.k8s.io", Name: "endpointslices"},
		{Group: "networking.k8s.io", Name: "networkpolicies"},
	},
}

// defaultControlPlane adds what API servers write themselves, but for what they write on
// behalf of a request in whichever namespace.
func defaultControlPlane() map[string][]inventory.Resource {
	out := map[string][]inventory.Resource{}
	for namespace, resources := range controlPlaneParts {
		out[namespace] = slices.Clone(resources)
	}
	for _, w := range admission.ServerWrites {
		if w.Namespace != admission.AnyNamespace {
			out[w.Namespace] = append(out[w.Namespace], w.Resource)
		}
	}
	for namespace := range out {
		slices.SortFunc(out[namespace], inventory.Resource.Compare)
		out[namespace] = slices.Compact(out[namespace])
	}
	return out
}

// ControlPlaneMatch is a request on the control plane's path that a webhook is
// called for.
type ControlPlaneMatch struct {
	inventory.Resource
	// Namespace is "" for a cluster-scoped resource, and the name of the Namespace
	// where it is about one.
	Namespace string
	// Match is yes, or maybe where a matchCondition decides, or a label of the
	// namespace that is unknown.
	Match admission.Match
	// Reason is what decides where Match is maybe.
	Reason admission.Reason
}

// controlPlaneRequests are the requests on the control plane's path, by resource.
type controlPlaneRequests map[inventory.Resource][]controlPlaneRequest

type controlPlaneRequest struct {
	namespace string
	request   admission.Request
	// byWriters are the same as those make it who write the resource.
	byWriters []admission.Request
}

// maxOnRunLevel bounds the namespaces of a run level that are considered: an
// OpenShift cluster has some ten, and a message names five.
const maxOnRunLevel = 100

// controlPlaneOf adds the namespaces on run levels 0 and 1 that exist: what
// runs there is what runs in kube-system elsewhere.
func (p Policy) controlPlaneOf(s *inventory.Snapshot) map[string][]inventory.Resource {
	out := maps.Clone(p.ControlPlane)
	for _, level := range []string{"0", "1"} {
		for _, name := range p.onRunLevel(s, level) {
			if out[name] == nil {
				out[name] = p.ControlPlane[metav1.NamespaceSystem]
			}
		}
	}
	return out
}

// holdsUpControlPlane reports whether the webhook could hold the control plane up:
// it fails closed, or its timeout is longer than those that wait for it.
func (p *Policy) holdsUpControlPlane(w *inventory.Webhook) bool {
	shortest := secondsOf(min(p.LeaseTimeoutSeconds, p.ControlPlaneTimeoutSeconds))
	return w.Type != inventory.Conversion && (w.FailsClosed() || w.Timeout > shortest)
}

// controlPlaneRequests makes each request once, for all webhooks.
func (p Policy) controlPlaneRequests(m *admission.Matcher) controlPlaneRequests {
	out := controlPlaneRequests{}
	for namespace, resources := range p.controlPlaneOf(m.Snapshot) {
		for _, r := range resources {
			for _, op := range m.Operations(r) { // none where the API server does not serve it
				if op == admission.Delete {
					continue
				}
				for _, subject := range subjectsOf(m.Snapshot, r, namespace) {
					request, err := m.Request(op, r, subject)
					if err != nil { // never: it serves the operation
						continue
					}
					out[r] = append(out[r],
						controlPlaneRequest{cmp.Or(namespace, subject.Name), request, byWriters(request, namespace)})
				}
			}
		}
	}
	return out
}

// subjectsOf are the objects of the requests: for the control plane writes its own
// Namespace, beside any other, that is one whose name and labels are known.
func subjectsOf(s *inventory.Snapshot, r inventory.Resource, namespace string) []admission.Subject {
	out := []admission.Subject{{Namespace: namespace, Labels: admission.Unlabeled}}
	if r.IsNamespaces() {
		own := inventory.WithNameLabel(s.Namespaces[metav1.NamespaceSystem].Labels, metav1.NamespaceSystem)
		out = append(out, admission.Subject{Name: metav1.NamespaceSystem, Labels: own})
	}
	return out
}

// matchedBy returns the requests on the control plane's path that the webhook is
// called for, sorted. Labels that a namespace would need to have for it, and is
// not known to have, are taken to be absent.
func (v controlPlaneRequests) matchedBy(work *work, w *inventory.Webhook,
	reached []admission.MatchedResource,
) []ControlPlaneMatch {
	var out []ControlPlaneMatch
	for _, r := range reached {
		for _, needed := range v[r.Resource] {
			if !r.Operations.Has(needed.request.Operation) {
				continue
			}
			if !work.step() {
				return nil
			}
			verdict := askedByWriters(needed, w)
			if verdict.Match != admission.No && !verdict.OptIn {
				out = append(out, ControlPlaneMatch{r.Resource, needed.namespace, verdict.Match, verdict.Reason})
			}
		}
	}
	out = distinctMatches(out)
	return slices.DeleteFunc(slices.Clone(out), func(v ControlPlaneMatch) bool { return v.isCovered(out) })
}

// askedByWriters is what becomes of the request: of users that a matchCondition keeps
// apart, those count that write the resource.
func askedByWriters(pathRequest controlPlaneRequest, w *inventory.Webhook) admission.Verdict {
	verdict := pathRequest.request.Match(w)
	if verdict.Match != admission.Maybe || verdict.Reason != admission.ReasonMatchConditions {
		return verdict
	}
	first := pathRequest.byWriters[0].Match(w)
	for _, request := range pathRequest.byWriters[1:] {
		if request.Match(w).Match != first.Match {
			return verdict
		}
	}
	return first
}

// isCovered reports whether another match says as much of Namespaces: that of any
// of them says more than that of one.
func (v ControlPlaneMatch) isCovered(all []ControlPlaneMatch) bool {
	return v.IsNamespaces() && slices.ContainsFunc(all, func(o ControlPlaneMatch) bool {
		return o.Resource == v.Resource &&
			(o.Match == v.Match && o.Namespace < v.Namespace || o.Match == admission.Yes && v.Match != admission.Yes)
	})
}

// distinctMatches sorts the matches, and keeps the surest of each resource and namespace.
func distinctMatches(all []ControlPlaneMatch) []ControlPlaneMatch {
	slices.SortFunc(all, func(a, b ControlPlaneMatch) int {
		return cmp.Or(
			cmp.Compare(a.Namespace, b.Namespace), // nodes and the like first
			a.Resource.Compare(b.Resource),
			-cmp.Compare(a.Match, b.Match), // yes before maybe
		)
	})
	return slices.CompactFunc(all,
		func(a, b ControlPlaneMatch) bool { return a.Resource == b.Resource && a.Namespace == b.Namespace })
}
