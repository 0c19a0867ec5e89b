package classify

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// purposes say by kind why a resource belongs to a class: its members are the
// resources of these kinds that a server serves, and no others.
var purposes = map[Class]map[string]string{
	ClassCritical: {
		"APIRequestCount":      "written by every API server all the time",
		"ClusterResourceQuota": "written with each object that it counts",
		"EndpointSlice":        "no Service works without",
		"Endpoints":            "no Service works without, for those that still read them",
		"Event":                "written by every controller all the time",
		"Pod":                  "everything runs in them",
		"ResourceQuota":        "written with each object that it counts",
	},
	ClassVirtual: {
		"Binding":                            "places a Pod on a node",
		"LocalResourceAccessReview":          "who may do something in a namespace",
		"LocalSubjectAccessReview":           "whether a user may do something in a namespace",
		"PodSecurityPolicyReview":            "which service account could create a Pod",
		"PodSecurityPolicySelfSubjectReview": "whether the user could create a Pod",
		"PodSecurityPolicySubjectReview":     "whether another user could create a Pod",
		"ResourceAccessReview":               "who may do something",
		"SelfSubjectAccessReview":            "whether the user may do something",
		"SelfSubjectReview":                  "who the user is",
		"SelfSubjectRulesReview":             "what the user may do",
		"SubjectAccessReview":                "whether a user may do something",
		"SubjectRulesReview":                 "what another user may do",
		"TokenReview":                        "whose token it is",
	},
	ClassSensitive: {
		"CertificateSigningRequest":      "becomes a client certificate",
		"CredentialsRequest":             "becomes credentials of the cloud",
		"MutatingWebhookConfiguration":   "sees and changes whatever it asks for",
		"OAuthAccessToken":               "is a token, or its digest",
		"OAuthAuthorizeToken":            "becomes a token",
		"OAuthClient":                    "holds the client's secret",
		"OAuthClientAuthorization":       "lets a client act for a user",
		"Route":                          "holds the key of its certificate",
		"Secret":                         "holds secrets",
		"ServiceAccount":                 "is an identity, and names its secrets",
		"TokenRequest":                   "becomes a token",
		"TokenReview":                    "carries the token",
		"UserOAuthAccessToken":           "is a token, or its digest",
		"ValidatingWebhookConfiguration": "sees whatever it asks for",
	},
}

// TestClassesAreComplete: the members of the classes are the served resources of
// the kinds that belong to them. A subresource counts where its kind is its own.
func TestClassesAreComplete(t *testing.T) {
	served := inventory.Builtins(inventory.Newest, true)
	kinds := map[inventory.Resource]string{}
	for _, s := range served {
		kinds[s.Resource] = s.Kind
	}
	for class, purpose := range purposes {
		want, used := map[string]bool{}, map[string]bool{}
		for _, s := range served {
			if purpose[s.Kind] != "" && (s.Subresource == "" || kinds[s.Parent()] != s.Kind) {
				want[s.Resource.String()], used[s.Kind] = true, true
			}
		}
		for kind := range purpose {
			if !used[kind] {
				t.Errorf("%s: no resource is of kind %s", class, kind)
			}
		}
		have := map[string]bool{}
		for _, r := range defaultClasses()[class] {
			have[r.String()] = true
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%s: -of the kinds that belong to it +members:\n%s", class, diff)
		}
	}
}

// TestReviewsAreVirtual: every kind that ends in Review is, and no purpose is
// missing for one.
func TestReviewsAreVirtual(t *testing.T) {
	for _, s := range inventory.Builtins(inventory.Newest, true) {
		if strings.HasSuffix(s.Kind, "Review") && !slices.Contains(defaultClasses()[ClassVirtual], s.Resource) {
			t.Errorf("%s is not virtual", s.Resource)
		}
	}
}

// TestMembersAreMatched: a rule that names a member matches it as one of its
// class, unless the API server calls no webhook for it.
func TestMembersAreMatched(t *testing.T) {
	for class, members := range defaultClasses() {
		for _, r := range members {
			s := files(t, registering(fmt.Sprintf(`{operations: ["*"], apiGroups: [%q], apiVersions: ["*"], resources: [%q]}`, r.Group, r.Path()))+openshiftCRD)
			matched := slices.Contains(evaluate(t, DefaultPolicy(), s).Profiles[0].ByClass[class], r)
			if never := slices.Contains(admission.NeverSent(s, inventory.Ref{Type: inventory.Validating}), r.Parent()); matched == never {
				t.Errorf("%s: %s: matched: %t, want %t", class, r, matched, !never)
			}
		}
	}
}

// openshiftCRD shows that the input is of OpenShift.
const openshiftCRD = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterversions.config.openshift.io}
spec: {group: config.openshift.io, scope: Cluster, names: {plural: clusterversions, kind: ClusterVersion}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}
`
