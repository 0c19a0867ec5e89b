package manifest

import (
	"cmp"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The functions in this file set what kube-apiserver sets where it stores an object and
// a file leaves it out. Source: defaults.go in each package of k8s.io/kubernetes/pkg/apis
// and in k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.

func defaultRules(rules []admissionv1.RuleWithOperations) {
	allScopes := new(admissionv1.AllScopes)
	for i := range rules {
		rules[i].Scope = cmp.Or(rules[i].Scope, allScopes)
	}
}

func defaultNamedRules(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	allScopes := new(admissionv1.AllScopes)
	for _, rules := range [][]admissionv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			rules[i].Scope = cmp.Or(rules[i].Scope, allScopes)
		}
	}
}

func defaultService(s *corev1.ServiceSpec) {
	s.Type = cmp.Or(s.Type, corev1.ServiceTypeClusterIP)
	for i := range s.Ports {
		p := &s.Ports[i]
		p.Protocol = cmp.Or(p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
}

func defaultCRD(c *apiextensionsv1.CustomResourceDefinition) {
	c.Spec.Names.Singular = cmp.Or(c.Spec.Names.Singular, strings.ToLower(c.Spec.Names.Kind))
	if len(c.Status.StoredVersions) > 0 {
		return
	}
	for _, v := range c.Spec.Versions {
		if v.Storage {
			c.Status.StoredVersions = []string{v.Name}
			return
		}
	}
}

// withoutSchemas leaves out most of a CRD's bytes.
func withoutSchemas(c *apiextensionsv1.CustomResourceDefinition) {
	for i := range c.Spec.Versions {
		c.Spec.Versions[i].Schema, c.Spec.Versions[i].AdditionalPrinterColumns = nil, nil
	}
}
