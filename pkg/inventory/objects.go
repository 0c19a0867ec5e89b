package inventory

import (
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
	// Params are the namespaces in which there are params of a binding, "" for those
	// that are cluster-scoped; what is not asked for, or may not be read, is unknown.
	Params         map[ParamQuery][]string
	CRDs           []*apiextensionsv1.CustomResourceDefinition
	Namespaces     []*metav1.PartialObjectMetadata
	Services       []*corev1.Service
	EndpointSlices []*discoveryv1.EndpointSlice
	APIServices    []*apiregistrationv1.APIService
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
	// ReviewsExcluded overrides what the version says, where the feature gate
	// itself could be read.
	ReviewsExcluded *bool
	// Discovered is what the server says it serves; nil for files, where the
	// built-ins of Server stand in.
	Discovered []Served

	// Sources is where an object, or one webhook in it, was read.
	Sources map[SourceKey]Source
	Errors  []Error
}

// Add appends an object to the list of its type; others are left out.
func (o *Objects) Add(object any) {
	switch v := object.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		o.Validating = append(o.Validating, v)
	case *admissionv1.MutatingWebhookConfiguration:
		o.Mutating = append(o.Mutating, v)
	case *admissionv1.MutatingAdmissionPolicy:
		o.MutatingPolicies = append(o.MutatingPolicies, v)
	case *admissionv1.MutatingAdmissionPolicyBinding:
		o.MutatingPolicyBindings = append(o.MutatingPolicyBindings, v)
	case *admissionv1.ValidatingAdmissionPolicy:
		o.ValidatingPolicies = append(o.ValidatingPolicies, v)
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		o.ValidatingPolicyBindings = append(o.ValidatingPolicyBindings, v)
	case *apiextensionsv1.CustomResourceDefinition:
		o.CRDs = append(o.CRDs, v)
	case *apiregistrationv1.APIService:
		o.APIServices = append(o.APIServices, v)
	case *metav1.PartialObjectMetadata:
		o.Namespaces = append(o.Namespaces, v)
	case *corev1.Service:
		o.Services = append(o.Services, v)
	case *discoveryv1.EndpointSlice:
		o.EndpointSlices = append(o.EndpointSlices, v)
	case *corev1.Pod:
		o.Pods = append(o.Pods, v)
	case *appsv1.Deployment:
		o.Deployments = append(o.Deployments, v)
	case *appsv1.StatefulSet:
		o.StatefulSets = append(o.StatefulSets, v)
	case *appsv1.DaemonSet:
		o.DaemonSets = append(o.DaemonSets, v)
	case *batchv1.Job:
		o.Jobs = append(o.Jobs, v)
	case *policyv1.PodDisruptionBudget:
		o.DisruptionBudgets = append(o.DisruptionBudgets, v)
	case *networkingv1.NetworkPolicy:
		o.NetworkPolicies = append(o.NetworkPolicies, v)
	}
}

// SourceKey names an object of Objects, and a webhook of it where Webhook is
// not "". Index is the place of the webhook in the object: several may have one
// name.
type SourceKey struct {
	Kind, Namespace, Name string
	Webhook               string
	Index                 int
}
