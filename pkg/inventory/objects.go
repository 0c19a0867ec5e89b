package inventory

import (
	"fmt"
	"reflect"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Objects are the raw API objects that pkg/inventory/cluster or
// pkg/inventory/manifest read. Snapshot never writes to them.
type Objects struct {
	Cluster

	Validating []*admissionv1.ValidatingWebhookConfiguration
	Mutating   []*admissionv1.MutatingWebhookConfiguration
	// Policies of other versions than v1 have the same fields, and are kept as v1.
	MutatingPolicies         []*admissionv1.MutatingAdmissionPolicy
	MutatingPolicyBindings   []*admissionv1.MutatingAdmissionPolicyBinding
	ValidatingPolicies       []*admissionv1.ValidatingAdmissionPolicy
	ValidatingPolicyBindings []*admissionv1.ValidatingAdmissionPolicyBinding
	CRDs                     []*apiextensionsv1.CustomResourceDefinition
	Namespaces               []*metav1.PartialObjectMetadata
	Services                 []*corev1.Service
	EndpointSlices           []*discoveryv1.EndpointSlice
	APIServices              []*apiregistrationv1.APIService
	// Pods are those of the namespaces in which backends run; of a cluster
	// their metadata, node, host network and priority class are enough.
	Pods []*corev1.Pod
	// Deployments, StatefulSets and Jobs stand in for Pods in files; of a cluster
	// there are the Deployments that are its DNS.
	Deployments  []*appsv1.Deployment
	StatefulSets []*appsv1.StatefulSet
	Jobs         []*batchv1.Job
	// DaemonSets are needed by nodes, some of them: of a cluster, those of the
	// SystemNamespaces in which a webhook could keep them from starting.
	DaemonSets []*appsv1.DaemonSet
	// DisruptionBudgets and NetworkPolicies are those of the namespaces in which
	// backends run.
	DisruptionBudgets []*policyv1.PodDisruptionBudget
	NetworkPolicies   []*networkingv1.NetworkPolicy
	// PluginPolicies are those of Cilium and Calico, of files alone; so are
	// PeerAuthentications and AuthorizationPolicies of Istio, LinkerdPolicies and Certificates of cert-manager.
	PluginPolicies        []*PluginPolicy
	PeerAuthentications   []*PeerAuthentication
	AuthorizationPolicies []*AuthorizationPolicy
	LinkerdPolicies       []*LinkerdPolicy
	IssuedCertificates    []*IssuedCertificate
	// ReviewsExcluded overrides what the version says, where the feature gate
	// itself could be read.
	ReviewsExcluded *bool
	// Discovered is what the server says it serves; nil for files, where the
	// built-ins of Server stand in.
	Discovered []Served

	// Sources is where an object, or one webhook in it, was read.
	Sources map[SourceKey]Origin
	Errors  []Error
}

// fieldsByType are the fields of Objects by the type of the objects in them.
var fieldsByType = sync.OnceValue(func() map[reflect.Type]int {
	out := map[reflect.Type]int{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Objects]()) {
		if len(f.Index) == 1 && f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Pointer {
			out[f.Type.Elem()] = f.Index[0]
		}
	}
	return out
})

// Add appends an object to the list of its type. It panics where there is none: what
// reads a kind has to keep it.
func (o *Objects) Add(object any) {
	i, isKept := fieldsByType()[reflect.TypeOf(object)]
	if !isKept {
		panic(fmt.Sprintf("inventory.Objects has no list of %T", object))
	}
	list := reflect.ValueOf(o).Elem().Field(i)
	list.Set(reflect.Append(list, reflect.ValueOf(object)))
}

// SourceKey names an object of Objects, and a webhook of it where Webhook is
// not "". Index is the place of the webhook in the object: several may have one
// name.
type SourceKey struct {
	Kind, Namespace, Name string
	Webhook               string
	Index                 int
}
