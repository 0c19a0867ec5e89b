package classify

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// typical is a cluster with that many webhooks, mixed as real ones are: most
// look at resources of their own, one in twenty at Pods, one in two hundred at
// everything.
func typical(n int) *inventory.Snapshot { return typicalObjects(n).Snapshot(taken) }

func typicalObjects(n int) inventory.Objects {
	o := inventory.Objects{NamespacesKnown: true}
	o.ServicesKnown.All, o.EndpointsKnown.All = true, true
	for i := range 100 {
		name := fmt.Sprintf("team-%02d", i)
		o.Namespaces = append(o.Namespaces, kubetest.Namespace(name, map[string]string{corev1.LabelMetadataName: name}))
		service := kubetest.Service(name, "policy")
		service.Spec.Selector = map[string]string{"app": "policy"}
		o.Services = append(o.Services, service)
		o.EndpointSlices = append(o.EndpointSlices, kubetest.EndpointSlice(name, "policy", "10.0.0.1", "10.0.0.2"))
	}
	for i := range n {
		o.Validating = append(o.Validating, kubetest.Validating(fmt.Sprintf("policy-%04d", i), typicalWebhook(i)))
	}
	return o
}

func typicalWebhook(i int) admissionv1.ValidatingWebhook {
	rule := admissionv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs", "cronjobs"}}
	switch {
	case i%200 == 0:
		rule = admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}}
	case i%20 == 0:
		rule = admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}
	}
	w := kubetest.Webhook(
		fmt.Sprintf("policy-%04d.example.com", i), kubetest.Client(fmt.Sprintf("team-%02d", i%100), "policy"),
		admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}, Rule: rule},
	)
	if i%3 == 0 {
		w.NamespaceSelector = kubetest.Selector(corev1.LabelMetadataName, metav1.LabelSelectorOpNotIn, "kube-system", "policy")
	}
	return w
}
