package inventory

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// IssuedCertificate is one that cert-manager issues. Source: cert-manager.io, reference of Certificate.
type IssuedCertificate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SecretName string   `json:"secretName"`
		DNSNames   []string `json:"dnsNames"`
		IsCA       bool     `json:"isCA"`
	} `json:"spec"`
}

// DeepCopyObject copies what is ever written to.
func (c *IssuedCertificate) DeepCopyObject() runtime.Object { out := *c; return &out }

// IsFor reports whether API servers accept the certificate of the Service.
func (c *IssuedCertificate) IsFor(service Key) bool {
	return slices.Contains(c.Spec.DNSNames, service.Name+"."+service.Namespace+".svc") ||
		slices.Contains(c.Spec.DNSNames, "*."+service.Namespace+".svc")
}
