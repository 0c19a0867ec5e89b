package classify

import (
	"slices"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Class is a class of resources.
type Class string

// The classes of the enhancement "Improving Supportability of API Webhooks", and
// ClassVital.
const (
	// ClassCritical are resources that a cluster's scalability and stability
	// hang on.
	ClassCritical Class = "critical"
	// ClassVital are resources beyond the enhancement's list that leader election
	// and the health of nodes depend on. For latency and paging they count as
	// critical.
	ClassVital Class = "vital"
	// ClassVirtual are resources that are never stored.
	ClassVirtual Class = "virtual"
	// ClassSensitive are resources that carry secrets or grant access.
	ClassSensitive Class = "sensitive"
	// ClassCore are the resources of a stock cluster.
	ClassCore Class = "core"
)

// Classes lists the classes of the enhancement, as reports have them.
var Classes = []Class{ClassCritical, ClassVirtual, ClassSensitive, ClassCore}

// ListedClasses are the classes whose members the Policy lists one by one.
var ListedClasses = []Class{ClassCritical, ClassVital, ClassVirtual, ClassSensitive}

// defaultClasses are the members of the classes as the enhancement "Improving
// Supportability of API Webhooks" (openshift/enhancements, 2021) lists them, with
// the group that each resource belongs to. Core is decided by group.
func defaultClasses() map[Class][]inventory.Resource {
	return map[Class][]inventory.Resource{
		ClassCritical: {
			{Name: "endpoints"},
			{Name: "events"},
			{Group: "events.k8s.io", Name: "events"}, // stored as one with core events
			{Name: "pods"},
			{Name: "resourcequotas"},
			{Group: "apiserver.openshift.io", Name: "apirequestcounts"},
			{Group: "discovery.k8s.io", Name: "endpointslices"},
			{Group: "quota.openshift.io", Name: "clusterresourcequotas"},
		},
		ClassVital: {
			{Name: "nodes"},
			{Name: "nodes", Subresource: "status"},
			{Group: "coordination.k8s.io", Name: "leases"},
		},
		// "bindings" and "*reviews": what each decides is in virtualDecisions. The
		// scheduler writes pods/binding, the enhancement names bindings alone.
		ClassVirtual: {
			{Name: "bindings"},
			{Name: "pods", Subresource: "binding"},
			{Group: "authentication.k8s.io", Name: "selfsubjectreviews"},
			{Group: "authentication.k8s.io", Name: "tokenreviews"},
			{Group: "authorization.k8s.io", Name: "localsubjectaccessreviews"},
			{Group: "authorization.k8s.io", Name: "selfsubjectaccessreviews"},
			{Group: "authorization.k8s.io", Name: "selfsubjectrulesreviews"},
			{Group: "authorization.k8s.io", Name: "subjectaccessreviews"},
			{Group: "authorization.openshift.io", Name: "localresourceaccessreviews"},
			{Group: "authorization.openshift.io", Name: "localsubjectaccessreviews"},
			{Group: "authorization.openshift.io", Name: "resourceaccessreviews"},
			{Group: "authorization.openshift.io", Name: "selfsubjectrulesreviews"},
			{Group: "authorization.openshift.io", Name: "subjectaccessreviews"},
			{Group: "authorization.openshift.io", Name: "subjectrulesreviews"},
			{Group: "oauth.openshift.io", Name: "tokenreviews"},
			{Group: "security.openshift.io", Name: "podsecuritypolicyreviews"},
			{Group: "security.openshift.io", Name: "podsecuritypolicyselfsubjectreviews"},
			{Group: "security.openshift.io", Name: "podsecuritypolicysubjectreviews"},
		},
		ClassSensitive: {
			{Name: "secrets"},
			{Name: "serviceaccounts"},
			{Name: "serviceaccounts", Subresource: "token"}, // mints tokens
			{Group: "admissionregistration.k8s.io", Name: "mutatingwebhookconfigurations"},
			{Group: "admissionregistration.k8s.io", Name: "validatingwebhookconfigurations"},
			{Group: "authentication.k8s.io", Name: "tokenreviews"},
			{Group: "certificates.k8s.io", Name: "certificatesigningrequests"},
			{Group: "cloudcredential.openshift.io", Name: "credentialsrequests"},
			{Group: "oauth.openshift.io", Name: "oauthaccesstokens"},
			{Group: "oauth.openshift.io", Name: "oauthauthorizetokens"},
			{Group: "oauth.openshift.io", Name: "oauthclientauthorizations"},
			{Group: "oauth.openshift.io", Name: "oauthclients"},
			{Group: "oauth.openshift.io", Name: "tokenreviews"},
			{Group: "oauth.openshift.io", Name: "useroauthaccesstokens"},
			{Group: "route.openshift.io", Name: "routes"},
		},
	}
}

// coreGroups are the API groups of a stock Kubernetes or OpenShift cluster: the recorded
// ones, but for an add-on, and those that others own. A test holds them against a real
// API server's discovery, github.com/openshift/api, the API index of OpenShift and what
// its operators register webhooks for.
func coreGroups() []string {
	out := slices.Clone(adoptedGroups)
	for _, r := range inventory.Builtins(inventory.Newest, true) {
		if r.Group != "sharedresource.openshift.io" {
			out = append(out, r.Group)
		}
	}
	return text.Distinct(out)
}

// adoptedGroups are those of OpenShift that no resource is recorded of.
var adoptedGroups = []string{
	"autoscaling.openshift.io",
	"gateway.networking.k8s.io",
	"groupsnapshot.storage.k8s.io",
	"infrastructure.cluster.x-k8s.io",
	"insights.openshift.io",
	"ipam.cluster.x-k8s.io",
	"k8s.cni.cncf.io",
	"k8s.ovn.org",
	"metal3.io",
	"metrics.k8s.io",
	"migration.k8s.io",
	"monitoring.coreos.com",
	"olm.operatorframework.io",
	"operators.coreos.com",
	"packages.operators.coreos.com",
	"performance.openshift.io",
	"policy.networking.k8s.io",
	"snapshot.storage.k8s.io",
	"tuned.openshift.io",
	"whereabouts.cni.cncf.io",
}

// isApprovedAPI reports whether the resource is that of a CRD which is part of OpenShift,
// by its annotation. Source: github.com/openshift/api, payload-manifests/crds.
func isApprovedAPI(s *inventory.Snapshot, r inventory.Resource) bool {
	crd := s.CRDs[r.Name+"."+r.Group]
	return crd != nil && crd.Annotations["api-approved.openshift.io"] != ""
}
