package manifest

import (
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

type decoder struct {
	versions   []string
	namespaced bool
	object     func() metav1.Object
}

// decoders are the kinds that are read, each with its group; all others are skipped.
var decoders = map[string]decoder{
	"ValidatingWebhookConfiguration.admissionregistration.k8s.io":   {[]string{"v1"}, false, empty[admissionv1.ValidatingWebhookConfiguration]},
	"MutatingWebhookConfiguration.admissionregistration.k8s.io":     {[]string{"v1"}, false, empty[admissionv1.MutatingWebhookConfiguration]},
	"ValidatingAdmissionPolicy.admissionregistration.k8s.io":        {policyVersions, false, empty[admissionv1.ValidatingAdmissionPolicy]},
	"ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io": {policyVersions, false, empty[admissionv1.ValidatingAdmissionPolicyBinding]},
	"MutatingAdmissionPolicy.admissionregistration.k8s.io":          {policyVersions, false, empty[admissionv1.MutatingAdmissionPolicy]},
	"MutatingAdmissionPolicyBinding.admissionregistration.k8s.io":   {policyVersions, false, empty[admissionv1.MutatingAdmissionPolicyBinding]},
	"CustomResourceDefinition.apiextensions.k8s.io":                 {[]string{"v1"}, false, empty[apiextensionsv1.CustomResourceDefinition]},
	"APIService.apiregistration.k8s.io":                             {[]string{"v1"}, false, empty[apiregistrationv1.APIService]},
	"Namespace":                                                     {[]string{"v1"}, false, empty[metav1.PartialObjectMetadata]},
	"Service":                                                       {[]string{"v1"}, true, empty[corev1.Service]},
	"EndpointSlice.discovery.k8s.io":                                {[]string{"v1"}, true, empty[discoveryv1.EndpointSlice]},
	"Node":                                                          {[]string{"v1"}, false, empty[corev1.Node]},
	"Pod":                                                           {[]string{"v1"}, true, empty[corev1.Pod]},
	"Deployment.apps":                                               {[]string{"v1"}, true, empty[appsv1.Deployment]},
	"StatefulSet.apps":                                              {[]string{"v1"}, true, empty[appsv1.StatefulSet]},
	"DaemonSet.apps":                                                {[]string{"v1"}, true, empty[appsv1.DaemonSet]},
	"Job.batch":                                                     {[]string{"v1"}, true, empty[batchv1.Job]},
	"PodDisruptionBudget.policy":                                    {[]string{"v1"}, true, empty[policyv1.PodDisruptionBudget]},
	"NetworkPolicy.networking.k8s.io":                               {[]string{"v1"}, true, empty[networkingv1.NetworkPolicy]},
	"CiliumNetworkPolicy.cilium.io":                                 {[]string{"v2"}, true, empty[inventory.PluginPolicy]},
	"CiliumClusterwideNetworkPolicy.cilium.io":                      {[]string{"v2"}, false, empty[inventory.PluginPolicy]},
	"NetworkPolicy.projectcalico.org":                               {[]string{"v3"}, true, empty[inventory.PluginPolicy]},
	"NetworkPolicy.crd.projectcalico.org":                           {[]string{"v1"}, true, empty[inventory.PluginPolicy]},
	"GlobalNetworkPolicy.projectcalico.org":                         {[]string{"v3"}, false, empty[inventory.PluginPolicy]},
	"GlobalNetworkPolicy.crd.projectcalico.org":                     {[]string{"v1"}, false, empty[inventory.PluginPolicy]},
	"Tier.projectcalico.org":                                        {[]string{"v3"}, false, empty[inventory.PluginPolicy]},
	"Tier.crd.projectcalico.org":                                    {[]string{"v1"}, false, empty[inventory.PluginPolicy]},
	"PeerAuthentication.security.istio.io":                          {[]string{"v1", "v1beta1"}, true, empty[inventory.PeerAuthentication]},
	"AuthorizationPolicy.security.istio.io":                         {[]string{"v1", "v1beta1"}, true, empty[inventory.AuthorizationPolicy]},
	"Server.policy.linkerd.io":                                      {[]string{"v1beta1", "v1beta2", "v1beta3"}, true, empty[inventory.LinkerdPolicy]},
	"ServerAuthorization.policy.linkerd.io":                         {[]string{"v1beta1"}, true, empty[inventory.LinkerdPolicy]},
	"AuthorizationPolicy.policy.linkerd.io":                         {[]string{"v1alpha1"}, true, empty[inventory.LinkerdPolicy]},
	"Certificate.cert-manager.io":                                   {[]string{"v1"}, true, empty[inventory.IssuedCertificate]},
	"ClusterServiceVersion.operators.coreos.com":                    {[]string{"v1alpha1"}, true, empty[serviceVersion]},
	"ClusterVersion.config.openshift.io":                            {[]string{"v1"}, false, empty[clusterStatus]},
	"ClusterOperator.config.openshift.io":                           {[]string{"v1"}, false, empty[clusterStatus]},
}

// resourceOf is the resource of a kind, or of a list of it; any where the kind is not read.
func resourceOf(kind string) string {
	kind = itemType(schema.GroupVersionKind{Kind: kind}).Kind
	for name := range decoders {
		if k, group, _ := strings.Cut(name, "."); k == kind {
			resource, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: group, Kind: kind})
			return resource.GroupResource().String()
		}
	}
	return inventory.AnyResource
}

// policyVersions are those of policies and bindings, whose fields are the same.
var policyVersions = []string{"v1", "v1beta1", "v1alpha1"}

func empty[T any, P interface {
	*T
	metav1.Object
}]() metav1.Object {
	return P(new(T))
}
