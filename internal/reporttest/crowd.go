package reporttest

import (
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/certtest"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Crowd is the cluster of BenchmarkScale in e2e: 300 CRDs, and 5,000 webhooks in
// 500 configurations that share 50 Services.
func Crowd(t testing.TB) inventory.Objects {
	o := inventory.Objects{Cluster: inventory.Cluster{NamespacesKnown: true}}
	o.ServicesKnown.All, o.EndpointsKnown.All = true, true
	for i := range 50 {
		name := fmt.Sprintf("scale-%03d", i)
		o.Namespaces = append(o.Namespaces, kubetest.Namespace(name, nil))
		o.Services = append(o.Services, kubetest.Service(name, "hook"))
		o.EndpointSlices = append(o.EndpointSlices, EndpointSlice(name, true))
	}
	for i := range 300 {
		o.CRDs = append(o.CRDs, kubetest.CRD(fmt.Sprintf("scale-%03d.example.com", i), "widgets", "v1", "v2"))
	}
	bundle := certtest.Bundle(t, Taken.AddDate(1, 0, 0))
	for i := range 500 {
		o.Validating = append(o.Validating, Crowded(i, bundle))
	}
	return o
}

// EndpointSlice is one with an endpoint of the Service hook.
func EndpointSlice(namespace string, ready bool) *discoveryv1.EndpointSlice {
	slice := kubetest.EndpointSlice(namespace, "hook", "10.0.0.1")
	slice.Endpoints[0].Conditions.Ready = &ready
	return slice
}

// Crowded is one of the configurations of Crowd.
func Crowded(i int, bundle []byte) *admissionv1.ValidatingWebhookConfiguration {
	c := kubetest.Validating(fmt.Sprintf("scale-%03d", i))
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
		w := kubetest.Webhook(
			fmt.Sprintf("hook-%d.scale-%03d.example.com", n, i), kubetest.Client(fmt.Sprintf("scale-%03d", i%50), "hook"),
			kubetest.Rule(group, resource, admissionv1.Create, admissionv1.Update),
		)
		w.ClientConfig.CABundle = bundle
		w.NamespaceSelector = kubetest.Selector(corev1.LabelMetadataName, metav1.LabelSelectorOpNotIn, "kube-system")
		c.Webhooks = append(c.Webhooks, w)
	}
	return c
}
