package cluster

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster/client"
)

func TestRead(t *testing.T) {
	s := populated(t)
	s.put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "p"}}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "p"}})
	counts := map[string]int{}
	objects := must.Get(Read(t.Context(), s.clients(), Options{}, func(p Progress) { counts[p.Resource] = max(counts[p.Resource], p.Objects) }))(t)
	got := objects.Snapshot(time.Now())
	if !whole(got) || len(got.Workloads) != 1 || got.Server.String() != "v1.37.1" || got.Current.IsZero() {
		t.Errorf("webhooks %v, Services %v, errors %v, server %v, current at %v", refs(got), got.Services, got.Errors, got.Server, got.Current)
	}
	want := map[string]int{
		"validatingwebhookconfigurations.admissionregistration.k8s.io":   2,
		"mutatingwebhookconfigurations.admissionregistration.k8s.io":     1,
		"validatingadmissionpolicies.admissionregistration.k8s.io":       1,
		"validatingadmissionpolicybindings.admissionregistration.k8s.io": 1,
		"mutatingadmissionpolicies.admissionregistration.k8s.io":         0,
		"mutatingadmissionpolicybindings.admissionregistration.k8s.io":   0,
		"customresourcedefinitions.apiextensions.k8s.io":                 1,
		"apiservices.apiregistration.k8s.io":                             1,
		"namespaces":                                                     2,
		"services":                                                       6,
		"pods":                                                           1,
		"poddisruptionbudgets.policy":                                    0,
		"networkpolicies.networking.k8s.io":                              0,
		"endpointslices.discovery.k8s.io":                                6,
		"daemonsets.apps":                                                0,
		"deployments.apps":                                               0,
	}
	expect.Equal(t, want, counts)
	for _, ask := range s.recorded() {
		if ask.verb() == "watch" {
			t.Errorf("watched %s", ask.path)
		}
	}
}

// TestReadWhatIsApplied: what webhooks will call once they are applied is read, and what they
// call now.
func TestReadWhatIsApplied(t *testing.T) {
	s := populated(t)
	s.put(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "new", Name: "new"}})
	applied := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{validating("new", kubetest.Client("new", "new"), kubetest.Client("new", "gone"))}}
	plain := must.Get(Read(t.Context(), s.clients(), Options{}, func(Progress) {}))(t)
	objects := must.Get(Read(t.Context(), s.clients(), Options{Applied: &applied}, func(Progress) {}))(t)
	got := objects.Snapshot(time.Now())
	for name, exists := range map[string]bool{"new": true, "gone": false} {
		key := inventory.Key{Namespace: "new", Name: name}
		if _, has := got.Services[key]; has != exists || !got.ServicesKnown.Has(key) || plain.ServicesKnown.Has(key) {
			t.Errorf("%s: %v, known %v", key, got.Services[key], got.ServicesKnown)
		}
	}
	for key := range plain.ServicesKnown.Services {
		if !got.ServicesKnown.Has(key) {
			t.Errorf("%s is not known any more", key)
		}
	}
}

func TestReadNothing(t *testing.T) {
	s := startServer(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		spoil  func()
		reason string
	}{
		{"canceled", canceled, func() {}, "context canceled"},
		{"forbidden", t.Context(), func() { s.refuse(http.StatusForbidden, func(request) bool { return true }) }, "is forbidden: grant the verb"},
		{"not Kubernetes", t.Context(), func() { s.refuse(http.StatusNotFound, func(request) bool { return true }) }, "is not served"},
		{"unreachable", t.Context(), s.end, "connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.spoil()
			_, err := Read(tt.ctx, s.clients(), Options{}, func(Progress) {})
			if err == nil || !strings.Contains(err.Error(), tt.reason) || !strings.Contains(err.Error(), s.addr) {
				t.Errorf("got error %v, want one with %q and the address", err, tt.reason)
			}
			if tt.ctx.Err() != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%v does not wrap the cause", err)
			}
		})
	}
}

// TestOneLimit: the limit of a config is that of all clients of the cluster together.
func TestOneLimit(t *testing.T) {
	c := must.Get(NewClients(&rest.Config{QPS: 20}))(t)
	apps := must.Get(client.Group(c.config, c.http, appsv1.SchemeGroupVersion))(t)
	if limit := c.core.GetRateLimiter(); limit == nil || limit != apps.GetRateLimiter() || limit.QPS() != 20 {
		t.Errorf("core is limited by %v, apps by %v", limit, apps.GetRateLimiter())
	}
}

func TestNewClientsTellsWhatIsWrong(t *testing.T) {
	config := &rest.Config{Host: "https://cluster.example.com", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no certificate")}}
	if _, err := NewClients(config); err == nil || !strings.Contains(err.Error(), config.Host) {
		t.Errorf("got error %v, want one that names the host", err)
	}
}
