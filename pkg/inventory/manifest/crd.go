package manifest

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ignored is the value of a field that is not read.
type ignored struct{}

func (*ignored) UnmarshalJSON([]byte) error { return nil }

// crd is a CustomResourceDefinition without its schemas: they are most of its bytes.
type crd struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		apiextensionsv1.CustomResourceDefinitionSpec `json:",inline"`

		Versions []crdVersion `json:"versions"`
	} `json:"spec"`
	Status apiextensionsv1.CustomResourceDefinitionStatus `json:"status"`
}

type crdVersion struct {
	apiextensionsv1.CustomResourceDefinitionVersion `json:",inline"`

	Schema  ignored `json:"schema"`
	Columns ignored `json:"additionalPrinterColumns"`
}

// whole is the CRD, with the defaults that the API server sets.
func (c *crd) whole() *apiextensionsv1.CustomResourceDefinition {
	out := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   c.TypeMeta,
		ObjectMeta: c.ObjectMeta,
		Spec:       c.Spec.CustomResourceDefinitionSpec,
		Status:     c.Status,
	}
	for _, v := range c.Spec.Versions {
		out.Spec.Versions = append(out.Spec.Versions, v.CustomResourceDefinitionVersion)
	}
	defaultCRD(out)
	return out
}

// refused is why no API server takes the conversion: whether a webhook converts would be
// a guess. unknown are the fields that a CRD does not have.
func (c *crd) refused(unknown []string) *problem {
	conversion := field.NewPath("spec", "conversion")
	for _, path := range unknown {
		if below, ok := strings.CutPrefix(path, conversion.String()+"."); ok {
			return &problem{line: 1, message: path + ": there is no such field", field: conversion.Child(below)}
		}
	}
	strategies := []string{string(apiextensionsv1.NoneConverter), string(apiextensionsv1.WebhookConverter)}
	if c.Spec.Conversion == nil || slices.Contains(append(strategies, ""), string(c.Spec.Conversion.Strategy)) {
		return nil
	}
	at := conversion.Child("strategy")
	return &problem{line: 1, message: field.NotSupported(at, c.Spec.Conversion.Strategy, strategies).Error(), field: at}
}
