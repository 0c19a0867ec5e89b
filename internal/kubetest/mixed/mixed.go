// Package mixed makes clusters at random, for tests of what webhooks do to each other.
package mixed

import (
	"fmt"
	"math/rand/v2"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Cluster is one of few webhooks that have much to do with each other:
// whatever they ask for, some of it is there.
func Cluster(r *rand.Rand) inventory.Objects {
	o := inventory.Objects{Cluster: inventory.Cluster{NamespacesKnown: r.IntN(4) > 0}}
	o.ServicesKnown.All, o.EndpointsKnown.All = true, true
	const namespaces = 5
	for i := range namespaces {
		if r.IntN(5) > 0 {
			o.Namespaces = append(o.Namespaces, kubetest.Namespace(Team(i), someLabels(r)))
		}
		for s := range 2 {
			AddBackend(&o, Team(i), fmt.Sprintf("policy-%d", s))
			o.Pods[len(o.Pods)-1].Labels["tier"] = fmt.Sprint(r.IntN(2))
			o.Pods[len(o.Pods)-1].Spec.HostNetwork = r.IntN(3) == 0
		}
	}
	if r.IntN(2) == 0 {
		o.Pods = append(o.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: Team(0), Name: "cni", Labels: someLabels(r),
				OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "cni", Controller: new(true)}},
			},
			Spec: corev1.PodSpec{PriorityClassName: "system-node-critical", HostNetwork: true},
		})
	}
	for i := range 1 + r.IntN(8) {
		w := kubetest.Webhook("", kubetest.Client(Team(r.IntN(namespaces)), fmt.Sprintf("policy-%d", r.IntN(2))),
			kubetest.Rule("", "pods", admissionv1.Create, admissionv1.Update))
		w.Name, w.TimeoutSeconds = fmt.Sprintf("hook-%d.example.com", r.IntN(6)), new(int32(1+r.IntN(5)))
		w.NamespaceSelector, w.ObjectSelector = someSelector(r), someSelector(r)
		switch r.IntN(6) {
		case 0, 1:
			w.Rules[0].Resources = []string{"pods/status"}
		case 2:
			w.Rules[0].APIGroups, w.Rules[0].Resources = []string{"discovery.k8s.io", "coordination.k8s.io"}, []string{"endpointslices", "leases"}[r.IntN(2):][:1]
		}
		if r.IntN(4) == 0 {
			w.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: fmt.Sprintf(`!has(object.metadata.labels) || !('app' in object.metadata.labels) || object.metadata.labels['app'] != 'policy-%d'`, r.IntN(2))}}
		}
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("policy-%d", i)}
		if r.IntN(2) == 0 {
			o.Mutating = append(o.Mutating,
				&admissionv1.MutatingWebhookConfiguration{
					ObjectMeta: meta, Webhooks: []admissionv1.MutatingWebhook{kubetest.Reinvoked(w)},
				})
			continue
		}
		o.Validating = append(o.Validating,
			&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionv1.ValidatingWebhook{w}})
	}
	return o
}

func someLabels(r *rand.Rand) map[string]string {
	out := map[string]string{}
	for _, key := range []string{"tier", "team"} {
		if r.IntN(2) == 0 {
			out[key] = fmt.Sprint(r.IntN(2))
		}
	}
	return out
}

func someSelector(r *rand.Rand) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	for _, e := range []metav1.LabelSelectorRequirement{
		{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn,
			Values: []string{Team(r.IntN(5)), Team(r.IntN(5))},
		},
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{Team(r.IntN(5))}},
		{Key: "tier", Operator: metav1.LabelSelectorOpNotIn, Values: []string{fmt.Sprint(r.IntN(2))}},
		{Key: "team", Operator: metav1.LabelSelectorOpExists},
		{Key: "team", Operator: metav1.LabelSelectorOpDoesNotExist},
	} {
		if r.IntN(6) == 0 {
			out.MatchExpressions = append(out.MatchExpressions, e)
		}
	}
	return out
}

// Team is the name of the i-th namespace.
func Team(i int) string { return fmt.Sprintf("team-%05d", i) }

// AddBackend adds a Service with two endpoints, and its Pod.
func AddBackend(o *inventory.Objects, namespace, name string) {
	service := kubetest.Service(namespace, name)
	service.Spec.Selector = map[string]string{"app": name}
	o.Services = append(o.Services, service)
	o.EndpointSlices = append(o.EndpointSlices, kubetest.EndpointSlice(namespace, name, "10.0.0.1", "10.0.0.2"))
	o.Pods = append(o.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{"app": name},
	}})
}
