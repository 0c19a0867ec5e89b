package reporttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Crowd is the cluster of BenchmarkScale in e2e: 300 CRDs, and 5,000 webhooks in
// 500 configurations that share 50 Services.
func Crowd() inventory.Objects {
	o := inventory.Objects{NamespacesKnown: true}
	o.ServicesKnown.All, o.EndpointsKnown.All = true, true
	for i := range 50 {
		name := fmt.Sprintf("scale-%03d", i)
		o.Namespaces = append(o.Namespaces, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}})
		o.Services = append(o.Services, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "hook"},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
		})
		o.EndpointSlices = append(o.EndpointSlices, EndpointSlice(name, true))
	}
	for i := range 300 {
		group := fmt.Sprintf("scale-%03d.example.com", i)
		o.CRDs = append(o.CRDs, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: group, Scope: apiextensionsv1.NamespaceScoped,
				Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true}, {Name: "v2", Served: true, Storage: true}},
			},
		})
	}
	bundle := certificate()
	for i := range 500 {
		o.Validating = append(o.Validating, Crowded(i, bundle))
	}
	return o
}

// certificate is a CA bundle of one certificate.
func certificate() []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: Taken.AddDate(-1, 0, 0), NotAfter: Taken.AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// EndpointSlice is one with an endpoint of the Service hook.
func EndpointSlice(namespace string, ready bool) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "hook", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		Ports:      []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(8443))}},
	}
}

// Crowded is one of the configurations of Crowd.
func Crowded(i int, bundle []byte) *admissionv1.ValidatingWebhookConfiguration {
	c := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("scale-%03d", i)}}
	for n := range 10 {
		group, resource := fmt.Sprintf("scale-%03d.example.com", (i*10+n)%300), "widgets"
		switch n {
		case 0:
			group, resource = "", "pods"
		case 1:
			group, resource = "apps", "*"
		case 2:
			group, resource = "", "secrets"
		}
		c.Webhooks = append(c.Webhooks, admissionv1.ValidatingWebhook{
			Name: fmt.Sprintf("hook-%d.scale-%03d.example.com", n, i),
			ClientConfig: admissionv1.WebhookClientConfig{
				Service:  &admissionv1.ServiceReference{Namespace: fmt.Sprintf("scale-%03d", i%50), Name: "hook"},
				CABundle: bundle,
			},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"},
			}}},
			SideEffects:             new(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		})
	}
	return c
}
