package manifest

import (
	"cmp"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// webhook points to the fields of a webhook that have defaults.
type webhook struct {
	failurePolicy  **admissionv1.FailurePolicyType
	matchPolicy    **admissionv1.MatchPolicyType
	sideEffects    **admissionv1.SideEffectClass
	timeoutSeconds **int32
	reviewVersions *[]string
	rules          []admissionv1.RuleWithOperations
}

const v1beta1 = "v1beta1"

// defaultWebhook sets the scope of rules, and the defaults of v1beta1 where those of v1,
// which a Snapshot has, are others.
// Source: k8s.io/kubernetes/pkg/apis/admissionregistration/v1beta1/defaults.go.
func defaultWebhook(version string, w webhook) {
	defaultRules(w.rules)
	if version != v1beta1 {
		return
	}
	*w.failurePolicy = cmp.Or(*w.failurePolicy, new(admissionv1.Ignore))
	*w.matchPolicy = cmp.Or(*w.matchPolicy, new(admissionv1.Exact))
	*w.sideEffects = cmp.Or(*w.sideEffects, new(admissionv1.SideEffectClassUnknown))
	*w.timeoutSeconds = cmp.Or(*w.timeoutSeconds, new(int32(30)))
	*w.reviewVersions = reviewVersions(*w.reviewVersions)
}

// ignored is the value of a field that is not read.
type ignored struct{}

func (*ignored) UnmarshalJSON([]byte) error { return nil }

// crd is a CustomResourceDefinition of v1 or v1beta1, without its schemas: they
// are most of its bytes.
type crd struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   crdSpec                                        `json:"spec"`
	Status apiextensionsv1.CustomResourceDefinitionStatus `json:"status"`
}

type crdSpec struct {
	apiextensionsv1.CustomResourceDefinitionSpec `json:",inline"`

	Versions   []crdVersion   `json:"versions"`
	Conversion *crdConversion `json:"conversion"`
	// Version and Subresources are those of v1beta1.
	Version      string                                      `json:"version"`
	Subresources *apiextensionsv1.CustomResourceSubresources `json:"subresources"`
}

type crdVersion struct {
	apiextensionsv1.CustomResourceDefinitionVersion `json:",inline"`

	Schema  ignored `json:"schema"`
	Columns ignored `json:"additionalPrinterColumns"`
}

type crdConversion struct {
	apiextensionsv1.CustomResourceConversion `json:",inline"`
	// ClientConfig and ReviewVersions are those of v1beta1.
	ClientConfig   *apiextensionsv1.WebhookClientConfig `json:"webhookClientConfig"`
	ReviewVersions []string                             `json:"conversionReviewVersions"`
}

// v1 converts as the API server does.
// Source: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1
// (defaults.go, conversion.go).
func (c *crd) v1(version string) *apiextensionsv1.CustomResourceDefinition {
	out := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   c.TypeMeta,
		ObjectMeta: c.ObjectMeta,
		Spec:       c.Spec.CustomResourceDefinitionSpec,
		Status:     c.Status,
	}
	for _, v := range c.Spec.Versions {
		out.Spec.Versions = append(out.Spec.Versions, v.CustomResourceDefinitionVersion)
	}
	if c.Spec.Conversion != nil {
		out.Spec.Conversion = &c.Spec.Conversion.CustomResourceConversion
	}
	if version == v1beta1 {
		c.Spec.convert(&out.Spec)
	}
	defaultCRD(out)
	return out
}

// convert sets the fields of v1 from those of v1beta1.
func (s *crdSpec) convert(out *apiextensionsv1.CustomResourceDefinitionSpec) {
	out.Scope = cmp.Or(out.Scope, apiextensionsv1.NamespaceScoped)
	if len(out.Versions) == 0 && s.Version != "" {
		out.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: s.Version, Served: true, Storage: true}}
	}
	for i := range out.Versions {
		out.Versions[i].Subresources = cmp.Or(out.Versions[i].Subresources, s.Subresources)
	}
	if c := s.Conversion; c != nil && c.Strategy == apiextensionsv1.WebhookConverter {
		out.Conversion.Webhook = &apiextensionsv1.WebhookConversion{ClientConfig: c.ClientConfig, ConversionReviewVersions: reviewVersions(c.ReviewVersions)}
	}
}

// reviewVersions returns the versions, or the default of v1beta1.
func reviewVersions(versions []string) []string {
	if len(versions) == 0 {
		return []string{v1beta1}
	}
	return versions
}

// endpointSlice is an EndpointSlice of v1 or v1beta1.
type endpointSlice struct {
	discoveryv1.EndpointSlice `json:",inline"`

	Endpoints []endpoint `json:"endpoints"`
}

type endpoint struct {
	discoveryv1.Endpoint `json:",inline"`
	// Topology is that of v1beta1.
	Topology struct {
		Hostname *string `json:"kubernetes.io/hostname"`
		Zone     *string `json:"topology.kubernetes.io/zone"`
	} `json:"topology"`
}

func (s *endpointSlice) v1() *discoveryv1.EndpointSlice {
	out := s.EndpointSlice
	out.Endpoints = make([]discoveryv1.Endpoint, len(s.Endpoints))
	for i, e := range s.Endpoints {
		e.NodeName = cmp.Or(e.NodeName, e.Topology.Hostname)
		e.Zone = cmp.Or(e.Zone, e.Topology.Zone)
		out.Endpoints[i] = e.Endpoint
	}
	return &out
}
