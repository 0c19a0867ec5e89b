package manifest

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// withoutSchemas leaves out most of a CRD's bytes.
func withoutSchemas(c *apiextensionsv1.CustomResourceDefinition) {
	for i := range c.Spec.Versions {
		c.Spec.Versions[i].Schema, c.Spec.Versions[i].AdditionalPrinterColumns = nil, nil
	}
}

// refusedConversion is why no API server takes a CRD's conversion: whether a webhook
// converts would be a guess. unknown are the fields that a CRD does not have.
func refusedConversion(c *apiextensionsv1.CustomResourceDefinition, place place, unknown []string) *problem {
	conversion := place.part("spec").part("conversion")
	for _, path := range unknown {
		if below, ok := strings.CutPrefix(path, "spec.conversion."); ok {
			for key := range strings.SplitSeq(below, ".") {
				conversion = conversion.part(key)
			}
			return problemf(conversion.line, "%s: there is no such field", path)
		}
	}
	strategies := []string{string(apiextensionsv1.NoneConverter), string(apiextensionsv1.WebhookConverter)}
	if c.Spec.Conversion == nil || slices.Contains(append(strategies, ""), string(c.Spec.Conversion.Strategy)) {
		return nil
	}
	err := field.NotSupported(field.NewPath("spec", "conversion", "strategy"), c.Spec.Conversion.Strategy, strategies)
	return problemf(conversion.part("strategy").line, "%v", err)
}
