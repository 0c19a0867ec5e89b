package classify

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// controlPlaneParts is what nodes need to join, a control plane to recover
// and leaders to stay leaders. Each outage that taught it is in
// testdata/outages.
var controlPlaneParts = map[string]string{
	"": `namespaces/finalize namespaces/status nodes nodes/status csinodes.storage.k8s.io
		customresourcedefinitions.apiextensions.k8s.io certificatesigningrequests.certificates.k8s.io
		certificatesigningrequests.certificates.k8s.io/approval
		certificatesigningrequests.certificates.k8s.io/status`,
	"kube-node-lease": "leases.coordination.k8s.io",
	"kube-public":     "configmaps",
	"kube-system": `endpoints endpointslices.discovery.k8s.io services services/status
		networkpolicies.networking.k8s.io pods pods/binding pods/status secrets serviceaccounts serviceaccounts/token
		controllerrevisions.apps daemonsets.apps daemonsets.apps/status deployments.apps deployments.apps/scale
		deployments.apps/status replicasets.apps replicasets.apps/scale replicasets.apps/status statefulsets.apps
		statefulsets.apps/scale statefulsets.apps/status`,
}

// defaultControlPlane adds what API servers write themselves, but for what they write on
// behalf of a request in whichever namespace.
func defaultControlPlane() map[string][]inventory.Resource {
	out := map[string][]inventory.Resource{}
	for namespace, names := range controlPlaneParts {
		out[namespace] = inventory.ResourcesNamed(names)
	}
	for _, w := range admission.ServerWrites {
		if w.Namespace != admission.AnyNamespace {
			out[w.Namespace] = append(out[w.Namespace], w.Resource)
		}
	}
	for namespace := range out {
		out[namespace] = distinctResources(out[namespace])
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

// controlPlaneRequests makes each request once, for all webhooks.
func (p Policy) controlPlaneRequests(m *admission.Matcher) controlPlaneRequests {
	path := maps.Clone(p.ControlPlane)
	for _, level := range []string{"0", "1"} { // what runs there is what runs in kube-system elsewhere
		for _, name := range p.onRunLevel(m.Snapshot, level) {
			if path[name] == nil {
				path[name] = p.ControlPlane[metav1.NamespaceSystem]
			}
		}
	}
	out := controlPlaneRequests{}
	for namespace, resources := range path {
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
					writers := lists.Map(writersOf(r, namespace), request.By)
					out[r] = append(out[r], controlPlaneRequest{cmp.Or(namespace, subject.Name), request, writers})
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

// The users by whose names the parts of the control plane write. Source: k8s.io/apiserver
// pkg/authentication/user, k8s.io/kubernetes pkg/controller and cmd/kubeadm.
var (
	kubelet             = admission.NewUser("system:node:node", []string{"system:nodes"})
	garbageCollector    = admission.NewUser("system:serviceaccount:kube-system:generic-garbage-collector", nil)
	namespaceController = admission.NewUser("system:serviceaccount:kube-system:namespace-controller", nil)
	replicaSets         = admission.NewUser("system:serviceaccount:kube-system:replicaset-controller", nil)
	scheduler           = admission.NewUser("system:kube-scheduler", []string{"system:authenticated"})
	controllerManager   = admission.NewUser("system:kube-controller-manager", []string{"system:authenticated"})
	apiServer           = admission.NewUser(admission.APIServerUser, []string{"system:masters"})
)

// writersOf are those parts that write the resource on the control plane's path.
func writersOf(r inventory.Resource, namespace string) []*admission.User {
	switch {
	case namespace == "kube-node-lease", r.Name == "nodes", r.Name == "csinodes", r.Subresource == "token",
		r == inventory.Resource{Name: "pods", Subresource: "status"}:
		return []*admission.User{kubelet}
	case r == inventory.Resource{Name: "pods", Subresource: "binding"}:
		return []*admission.User{scheduler}
	case r.Name == "leases":
		return []*admission.User{scheduler, controllerManager}
	case r == inventory.Resource{Name: "pods"}:
		return []*admission.User{kubelet, replicaSets}
	}
	return []*admission.User{apiServer, controllerManager, replicaSets}
}
