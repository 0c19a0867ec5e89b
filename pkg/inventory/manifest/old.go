package manifest

import (
	"cmp"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// webhookV1beta1 points to the fields of a webhook whose defaults changed with
// v1; all others are the same in both versions.
type webhookV1beta1 struct {
	failurePolicy  **admissionv1.FailurePolicyType
	matchPolicy    **admissionv1.MatchPolicyType
	sideEffects    **admissionv1.SideEffectClass
	timeoutSeconds **int32
	reviewVersions *[]string
}

// defaultV1beta1 makes the defaults of v1beta1 explicit, where v1 would
// default otherwise.
// Source: k8s.io/kubernetes/pkg/apis/admissionregistration/v1beta1/defaults.go.
func defaultV1beta1(w webhookV1beta1) {
	*w.failurePolicy = cmp.Or(*w.failurePolicy, new(admissionv1.Ignore))
	*w.matchPolicy = cmp.Or(*w.matchPolicy, new(admissionv1.Exact))
	*w.sideEffects = cmp.Or(*w.sideEffects, new(admissionv1.SideEffectClassUnknown))
	*w.timeoutSeconds = cmp.Or(*w.timeoutSeconds, new(int32(30)))
	if len(*w.reviewVersions) == 0 {
		*w.reviewVersions = []string{"v1beta1"}
	}
}

// crdV1beta1 is a CustomResourceDefinition of v1beta1, as far as it is read.
type crdV1beta1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   crdSpecV1beta1                                 `json:"spec"`
	Status apiextensionsv1.CustomResourceDefinitionStatus `json:"status"`
}

type crdSpecV1beta1 struct {
	Group        string                                            `json:"group"`
	Version      string                                            `json:"version"`
	Names        apiextensionsv1.CustomResourceDefinitionNames     `json:"names"`
	Scope        apiextensionsv1.ResourceScope                     `json:"scope"`
	Subresources *apiextensionsv1.CustomResourceSubresources       `json:"subresources"`
	Versions     []apiextensionsv1.CustomResourceDefinitionVersion `json:"versions"`
	Conversion   *conversionV1beta1                                `json:"conversion"`
}

type conversionV1beta1 struct {
	Strategy       apiextensionsv1.ConversionStrategyType `json:"strategy"`
	ClientConfig   *apiextensionsv1.WebhookClientConfig   `json:"webhookClientConfig"`
	ReviewVersions []string                               `json:"conversionReviewVersions"`
}

// v1 converts as the API server does.
// Source: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1
// (defaults.go, conversion.go).
func (c *crdV1beta1) v1() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   c.TypeMeta,
		ObjectMeta: c.ObjectMeta,
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group:      c.Spec.Group,
			Names:      c.Spec.Names,
			Scope:      cmp.Or(c.Spec.Scope, apiextensionsv1.NamespaceScoped),
			Versions:   c.Spec.versions(),
			Conversion: c.Spec.Conversion.v1(),
		},
		Status: c.Status,
	}
}

func (s *crdSpecV1beta1) versions() []apiextensionsv1.CustomResourceDefinitionVersion {
	out := s.Versions
	if len(out) == 0 && s.Version != "" {
		out = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: s.Version, Served: true, Storage: true}}
	}
	for i := range out {
		out[i].Subresources = cmp.Or(out[i].Subresources, s.Subresources)
	}
	return out
}

func (c *conversionV1beta1) v1() *apiextensionsv1.CustomResourceConversion {
	if c == nil {
		return nil
	}
	out := &apiextensionsv1.CustomResourceConversion{Strategy: c.Strategy}
	if c.Strategy != apiextensionsv1.WebhookConverter {
		return out
	}
	out.Webhook = &apiextensionsv1.WebhookConversion{ClientConfig: c.ClientConfig, ConversionReviewVersions: c.ReviewVersions}
	if len(c.ReviewVersions) == 0 {
		out.Webhook.ConversionReviewVersions = []string{"v1beta1"}
	}
	return out
}

// endpointSliceV1beta1 is an EndpointSlice of v1beta1, as far as it is read.
type endpointSliceV1beta1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	AddressType discoveryv1.AddressType    `json:"addressType"`
	Endpoints   []endpointV1beta1          `json:"endpoints"`
	Ports       []discoveryv1.EndpointPort `json:"ports"`
}

type endpointV1beta1 struct {
	Addresses  []string                       `json:"addresses"`
	Conditions discoveryv1.EndpointConditions `json:"conditions"`
	Hostname   *string                        `json:"hostname"`
	TargetRef  *corev1.ObjectReference        `json:"targetRef"`
	Topology   map[string]string              `json:"topology"`
	NodeName   *string                        `json:"nodeName"`
}

func (s *endpointSliceV1beta1) v1() *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{
		TypeMeta:    s.TypeMeta,
		ObjectMeta:  s.ObjectMeta,
		AddressType: s.AddressType,
		Ports:       s.Ports,
		Endpoints:   make([]discoveryv1.Endpoint, len(s.Endpoints)),
	}
	for i, e := range s.Endpoints {
		out.Endpoints[i] = discoveryv1.Endpoint{
			Addresses:  e.Addresses,
			Conditions: e.Conditions,
			Hostname:   e.Hostname,
			TargetRef:  e.TargetRef,
			NodeName:   cmp.Or(e.NodeName, label(e.Topology, corev1.LabelHostname)),
			Zone:       label(e.Topology, corev1.LabelTopologyZone),
		}
	}
	return out
}

func label(labels map[string]string, key string) *string {
	if value, ok := labels[key]; ok {
		return &value
	}
	return nil
}
