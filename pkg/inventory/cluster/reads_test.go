package cluster

import (
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// fiveServices are those of a namespace, with their endpoints.
func fiveServices(s *fakeServer) []admissionv1.WebhookClientConfig {
	var out []admissionv1.WebhookClientConfig
	for i := range 5 {
		name := fmt.Sprintf("s%d", i)
		s.put(service("policy", name), endpointSlice("policy", name, true))
		out = append(out, kubetest.Client("policy", name))
	}
	return out
}

func inPolicy(name string) inventory.Key { return inventory.Key{Namespace: "policy", Name: name} }

// TestWatchAmongUnrelatedServices: what no webhook calls is in no Snapshot, and its changes
// bring about none, but where one of its namespace or name is missing, in place of which it may
// be meant; once a webhook calls it, its last state is there.
func TestWatchAmongUnrelatedServices(t *testing.T) {
	s := startServer(t)
	s.put(service("policy", "more"), service("other", "unrelated"), endpointSlice("other", "unrelated", true), validating("five", fiveServices(s)...))
	r := watching(s, Options{Debounce: time.Millisecond})
	first := r.await("all Services", func(s *inventory.Snapshot) bool { return len(s.Services) > 0 })
	if len(first.Services) != 5 || len(first.Errors) != 0 {
		t.Errorf("Services %v, errors %v", first.Services, first.Errors)
	}
	eventually(t, "all watches open", func() bool { return len(s.watched()) == openWatches })
	// No order holds between the streams of two kinds: the last change of each is awaited.
	s.put(endpointSlice("other", "unrelated", false), endpointSlice("policy", "more", true), endpointSlice("policy", "s0", false), service("policy", "another"))
	s.remove(service("policy", "s3"))
	missing := r.await("the missing Service", func(s *inventory.Snapshot) bool {
		return len(s.Services) == 6 && s.ServicesKnown.Services[inPolicy("s3")] && !s.Services[inPolicy("s0")].Endpoints[0].Ready
	})
	if missing.ServicesKnown.Services[inPolicy("more")] {
		t.Errorf("a Service that nothing calls is covered: %v", missing.ServicesKnown)
	}
	s.put(validating("six", kubetest.Client("policy", "more")))
	r.await("the sixth webhook", func(s *inventory.Snapshot) bool {
		if len(s.Webhooks) == 6 && len(s.Services[inPolicy("more")].Endpoints) != 1 {
			t.Errorf("the webhook comes without what it calls: %v", s.Services)
		}
		return len(s.Webhooks) == 6
	})
	s.remove(validating("six"))
	r.await("no Service without its webhook", func(s *inventory.Snapshot) bool { return len(s.Webhooks) == 5 && len(s.Services) == 6 })
}

// TestWatchNearBackends: the Pods and NetworkPolicies of the namespaces in which backends run are
// followed, also of webhooks that fail open; others are not shown.
func TestWatchNearBackends(t *testing.T) {
	policy := func(namespace string, rules ...networkingv1.NetworkPolicyIngressRule) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deny"}, Spec: networkingv1.NetworkPolicySpec{Ingress: rules}}
	}
	pod := func(namespace, name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	s := startServer(t)
	s.put(policy("elsewhere"), policy("policy"), pod("elsewhere", "p"), pod("policy", "p"))
	s.put(validating("five", fiveServices(s)...))
	r := watching(s, Options{Debounce: time.Millisecond})
	r.await("its policy", func(s *inventory.Snapshot) bool {
		return len(s.NetworkPolicies) == 1 && len(s.Workloads) == 1 && len(s.Isolating(&s.Workloads[0], 8443)) == 1
	})
	s.put(policy("policy", networkingv1.NetworkPolicyIngressRule{}))
	r.await("a rule that opens all", func(s *inventory.Snapshot) bool { return len(s.Isolating(&s.Workloads[0], 8443)) == 0 })
	s.put(pod("elsewhere", "q"), pod("policy", "q"))
	s.remove(pod("policy", "p"))
	r.await("another Pod", func(s *inventory.Snapshot) bool { return len(s.Workloads) == 1 && s.Workloads[0].Name == "q" })
	open := validating("elsewhere", kubetest.Client("elsewhere", "s"))
	open.Webhooks[0].FailurePolicy = new(admissionv1.Ignore)
	s.put(open)
	r.await("the Pods of another backend", func(s *inventory.Snapshot) bool {
		if len(s.Webhooks) == 6 && len(s.Workloads) != 3 {
			t.Errorf("the webhook comes without Pods of its namespace: %v", s.Workloads)
		}
		return len(s.Webhooks) == 6
	})
}
