package classify

import (
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

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

// classKinds are the kinds of the classes' members, as the enhancement "Improving Supportability
// of API Webhooks" (openshift/enhancements, 2021) lists them; "bindings" and "*reviews" of it are
// the virtual ones, and what each decides is in virtualDecisions. Core is decided by group.
var classKinds = map[Class]string{
	ClassCritical: "APIRequestCount ClusterResourceQuota EndpointSlice Endpoints Event Pod ResourceQuota",
	ClassVirtual: `Binding LocalResourceAccessReview LocalSubjectAccessReview PodSecurityPolicyReview
		PodSecurityPolicySelfSubjectReview PodSecurityPolicySubjectReview ResourceAccessReview
		SelfSubjectAccessReview SelfSubjectReview SelfSubjectRulesReview SubjectAccessReview SubjectRulesReview
		TokenReview`,
	ClassSensitive: `CertificateSigningRequest CredentialsRequest MutatingWebhookConfiguration OAuthAccessToken
		OAuthAuthorizeToken OAuthClient OAuthClientAuthorization Route Secret ServiceAccount TokenRequest TokenReview
		UserOAuthAccessToken ValidatingWebhookConfiguration`,
}

// defaultClasses are the resources of the kinds that a server serves: a subresource counts where
// its kind is its own.
func defaultClasses() map[Class][]inventory.Resource {
	out := map[Class][]inventory.Resource{ClassVital: inventory.ResourcesNamed("nodes nodes/status leases.coordination.k8s.io")}
	served, kinds := inventory.Builtins(inventory.Newest, true), map[inventory.Resource]string{}
	for _, s := range served {
		kinds[s.Resource] = s.Kind
	}
	for class, names := range classKinds {
		classified := strings.Fields(names)
		for _, s := range served {
			if slices.Contains(classified, s.Kind) && (s.Subresource == "" || kinds[s.Parent()] != s.Kind) {
				out[class] = append(out[class], s.Resource)
			}
		}
		out[class] = distinctResources(out[class])
	}
	return out
}

func distinctResources(all []inventory.Resource) []inventory.Resource {
	return slices.Compact(slices.SortedFunc(slices.Values(all), inventory.Resource.Compare))
}

// coreGroups are the API groups of a stock Kubernetes or OpenShift cluster: the recorded
// ones, but for an add-on, and those that others own. A test holds them against a real
// API server's discovery, github.com/openshift/api, the API index of OpenShift and what
// its operators register webhooks for.
func coreGroups() []string {
	out := strings.Fields(adoptedGroups)
	for _, r := range inventory.Builtins(inventory.Newest, true) {
		if r.Group != "sharedresource.openshift.io" {
			out = append(out, r.Group)
		}
	}
	return lists.Distinct(out)
}

// adoptedGroups are those of OpenShift that no resource is recorded of.
const adoptedGroups = `
	autoscaling.openshift.io gateway.networking.k8s.io groupsnapshot.storage.k8s.io
	infrastructure.cluster.x-k8s.io insights.openshift.io ipam.cluster.x-k8s.io k8s.cni.cncf.io k8s.ovn.org
	metal3.io metrics.k8s.io migration.k8s.io monitoring.coreos.com olm.operatorframework.io
	operators.coreos.com packages.operators.coreos.com performance.openshift.io policy.networking.k8s.io
	snapshot.storage.k8s.io tuned.openshift.io whereabouts.cni.cncf.io
`

// isApprovedAPI reports whether the resource is that of a CRD which is part of OpenShift,
// by its annotation. Source: github.com/openshift/api, payload-manifests/crds.
func isApprovedAPI(s *inventory.Snapshot, r inventory.Resource) bool {
	crd := s.CRDs[r.Name+"."+r.Group]
	return crd != nil && crd.Annotations["api-approved.openshift.io"] != ""
}
