package page

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

func escaped(text string) string { return url.QueryEscape(text) }

// attack is a name that is a script wherever it is not escaped.
const attack = `"><script>alert(1)</script><img src=x onerror=alert(2)>'{{.}}javascript:alert(3)`

// hostileObjects are objects whose every name is an attack; an API server would
// refuse most of them, files may hold them.
func hostileObjects() inventory.Objects {
	o := inventory.Objects{Cluster: inventory.Cluster{NamespacesKnown: true}}
	o.ServicesKnown.All, o.EndpointsKnown.All = true, true
	o.Namespaces = append(o.Namespaces, kubetest.Namespace(attack, map[string]string{"a": attack}))
	o.Services = append(o.Services, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: attack, Name: attack},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{attack: attack}, Ports: []corev1.ServicePort{{Name: attack, Port: 443}}},
	})
	for i, resource := range []string{"pods", "secrets", attack, "*"} {
		w := validating(attack+fmt.Sprint(i), attack, resource)
		w.MatchConditions = []admissionv1.MatchCondition{{Name: attack, Expression: attack}}
		w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		if i%2 == 0 {
			w.ObjectSelector, w.MatchConditions = nil, nil
		}
		o.Validating = append(o.Validating, &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{
				Name: attack + "../.." + resource, Labels: map[string]string{"olm.owner": attack},
				Annotations: map[string]string{classify.ApprovalAnnotation: "javascript:" + attack},
			},
			Webhooks: []admissionv1.ValidatingWebhook{w},
		})
	}
	byURL := validating(attack, attack, "configmaps")
	byURL.ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://" + attack), CABundle: []byte(attack)}
	o.Validating = append(o.Validating, kubetest.Validating(attack, byURL))
	return o
}

// validating is a webhook that a Service of that name in a namespace of that name
// serves.
func validating(name, backend, resource string) admissionv1.ValidatingWebhook {
	return kubetest.Webhook(name, kubetest.Client(backend, backend), kubetest.Rule("", resource))
}

// large is the cluster of 5,000 webhooks that the measurements of metrics use.
func large(t testing.TB) *classify.Report {
	t.Helper()
	return reporttest.Evaluated(t, reporttest.Crowd(t).Snapshot(reporttest.Taken))
}

// longest are large as well: names of the maximum length, each webhook called for
// everything, each backend missing, each namespace selected by name.
func longest(t testing.TB) *classify.Report {
	t.Helper()
	o := inventory.Objects{Cluster: inventory.Cluster{NamespacesKnown: true}}
	o.ServicesKnown.All, o.EndpointsKnown.All = true, true
	for i := range 2000 {
		name := fmt.Sprintf("%04d%s", i, strings.Repeat("n", 59))
		o.Namespaces = append(o.Namespaces, kubetest.Namespace(name, map[string]string{corev1.LabelMetadataName: name}))
	}
	for i := range 500 {
		c := kubetest.Mutating(fmt.Sprintf("%04d%s", i, strings.Repeat("c", 249)))
		for n := range 10 {
			v := validating(fmt.Sprintf("%02d%s", n, strings.Repeat("h", 251)), fmt.Sprintf("%04d%s", i, strings.Repeat("s", 59)), "*")
			v.Rules[0].APIGroups = []string{"*"}
			c.Webhooks = append(c.Webhooks, kubetest.Reinvoked(v))
		}
		o.Mutating = append(o.Mutating, c)
	}
	return reporttest.Evaluated(t, o.Snapshot(reporttest.Taken))
}

// inACycle is a cluster of 5,000 webhooks with failurePolicy Fail on Pods, each with a
// backend in a namespace of its own: the Pods of each need the next webhook, those of the
// last one the first.
func inACycle(t testing.TB) *classify.Report {
	t.Helper()
	const n = 5000
	o := inventory.Objects{Cluster: inventory.Cluster{NamespacesKnown: true}}
	o.ServicesKnown.All, o.EndpointsKnown.All = true, true
	for i := range n {
		name, labels := team(i), map[string]string{"app": "policy"}
		o.Namespaces = append(o.Namespaces, kubetest.Namespace(name, map[string]string{corev1.LabelMetadataName: name}))
		service := kubetest.Service(name, name)
		service.Spec.Selector = labels
		o.Services = append(o.Services, service)
		o.Pods = append(o.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name, Labels: labels}})
		w := validating("pods."+name+".example.com", name, "pods")
		w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: team((i + 1) % n)}}
		o.Validating = append(o.Validating, kubetest.Validating(name, w))
	}
	return reporttest.Evaluated(t, o.Snapshot(reporttest.Taken))
}

func team(i int) string { return fmt.Sprintf("team-%05d", i) }

// largest are clusters of 5,000 webhooks.
var largest = []struct {
	name   string
	report func(testing.TB) *classify.Report
}{{"usual", large}, {"longest names", longest}, {"in a cycle", inACycle}}
