package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

func TestRead(t *testing.T) {
	s := populated(t)
	counts := map[string]int{}
	objects := must.Get(Read(t.Context(), s.clients(), Options{}, func(p Progress) { counts[p.Resource] = p.Objects }))(t)
	got := objects.Snapshot(time.Now())
	if !whole(got) || got.Server.String() != "v1.37.1" || got.Current.IsZero() {
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
		"pods":                                                           0,
		"poddisruptionbudgets.policy":                                    0,
		"networkpolicies.networking.k8s.io":                              0,
		"endpointslices.discovery.k8s.io":                                6,
		"daemonsets.apps":                                                0,
		"deployments.apps":                                               0,
	}
	expect.Equal(t, want, counts)
	for _, ask := range s.asked() {
		if ask.verb() == "watch" {
			t.Errorf("watched %s", ask.path)
		}
	}
}

func readOnce(t *testing.T, s *fakeServer) *inventory.Snapshot {
	t.Helper()
	objects := must.Get(Read(t.Context(), s.clients(), Options{}, func(Progress) {}))(t)
	return objects.Snapshot(time.Now())
}

func TestReadBeginsAListAnew(t *testing.T) {
	for _, tt := range []struct {
		name          string
		tokensExpired int
		crds, errors  int
	}{
		{"twice", 2, 41, 0},
		{"in vain", 100, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t)
			s.tokensExpired = tt.tokensExpired
			for i := range 41 {
				s.put(convertedCRD(fmt.Sprintf("things%d", i), "convert", "convert"))
			}
			last := 0
			objects, err := Read(t.Context(), s.clients(), Options{}, func(p Progress) {
				if p.Resource == "customresourcedefinitions.apiextensions.k8s.io" {
					last = p.Objects
				}
			})
			if err != nil || len(objects.CRDs) != tt.crds || len(objects.Errors) != tt.errors {
				t.Errorf("%d CRDs, errors %v, %v", len(objects.CRDs), objects.Errors, err)
			}
			if tt.errors == 0 && last != tt.crds {
				t.Errorf("progress ends at %d, want %d", last, tt.crds)
			}
		})
	}
}

// TestReadParams: which params exist is asked of a binding's kind alone, as metadata, and
// is unknown where that is forbidden, which is no error; an API server that fails is one.
func TestReadParams(t *testing.T) {
	s := startServer(t)
	s.groups[schema.GroupVersion{Version: "v1"}] = []string{"configmaps", "pods"}
	limits := func(namespace, name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"limits": "yes"}}}
	}
	s.put(limits("shop", "limits"), limits("shop", "more"), limits("default", "limits"))
	refs := map[string]*admissionv1.ParamRef{
		"anywhere":  {Name: "limits"},
		"here":      {Name: "limits", Namespace: "shop"},
		"again":     {Name: "limits", Namespace: "shop"},
		"elsewhere": {Name: "limits", Namespace: "other"},
		"selected":  {Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"limits": "yes"}}, Namespace: "shop"},
		"none":      {Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"limits": "no"}}},
		"unread":    nil,
	}
	for name, ref := range refs {
		p, b := validatingPolicy(name), kubetest.Binding(name)
		p.Spec.ParamKind, b.Spec.ParamRef = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}, ref
		s.put(p, b)
	}
	other := validatingPolicy("not served")
	other.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "example.com/v1", Kind: "Limit"}
	binding := kubetest.Binding("not served")
	binding.Spec.ParamRef = refs["anywhere"]
	s.put(other, binding)
	got := map[string]string{}
	for _, p := range readOnce(t, s).Policies {
		b := p.Bindings[0]
		slices.Sort(b.ParamsIn)
		got[p.Name] = fmt.Sprint(b.ParamsKnown, b.ParamsIn)
	}
	want := map[string]string{
		"anywhere": "true [default shop]", "here": "true [shop]", "again": "true [shop]", "elsewhere": "true []",
		"selected": "true [shop]", "none": "true []", "unread": "false []", "not served": "false []",
	}
	expect.Equal(t, want, got)
	lists := 0
	for _, ask := range s.asked() {
		if ask.resource == "configmaps" {
			lists++
			if !ask.metadataOnly() {
				t.Errorf("read more than metadata: %s", ask.path)
			}
		}
	}
	if lists != 5 {
		t.Errorf("%d lists, want one for each question", lists)
	}
	for status, errors := range map[int]int{http.StatusForbidden: 0, http.StatusGatewayTimeout: 1} {
		s.refuse(status, func(r request) bool { return r.resource == "configmaps" })
		read := readOnce(t, s)
		for _, p := range read.Policies {
			if p.Bindings[0].ParamsKnown {
				t.Errorf("%d: the params of %s are known", status, p.Name)
			}
		}
		if len(read.Errors) != errors {
			t.Errorf("%d: errors %v, want %d", status, read.Errors, errors)
		}
	}
}

// TestWatchParams: params that come and go show in a Snapshot, once the server is asked
// anew; what is forbidden is not asked each time.
func TestWatchParams(t *testing.T) {
	s := startServer(t)
	s.groups[schema.GroupVersion{Version: "v1"}] = []string{"configmaps", "pods"}
	p, b := validatingPolicy("limits"), kubetest.Binding("limits")
	p.Spec.ParamKind, b.Spec.ParamRef = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}, &admissionv1.ParamRef{Name: "limits", Namespace: "shop"}
	s.put(p, b)
	watched := watching(s, Options{Resync: 50 * time.Millisecond})
	params := func(want string) func(*inventory.Snapshot) bool {
		return func(s *inventory.Snapshot) bool {
			b := s.Policies[0].Bindings[0]
			return fmt.Sprint(b.ParamsKnown, b.ParamsIn) == want
		}
	}
	watched.await("no params", params("true []"))
	limits := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "limits"}}
	s.put(limits)
	watched.await("params", params("true [shop]"))
	s.refuse(http.StatusGatewayTimeout, func(r request) bool { return r.resource == "configmaps" })
	failed := watched.await("an error", func(s *inventory.Snapshot) bool { return len(s.Errors) > 0 })
	if !params("true [shop]")(failed) {
		t.Error("a failing API server makes known params unknown")
	}
	s.refuse(http.StatusForbidden, func(r request) bool { return r.resource == "configmaps" })
	since := time.Now()
	watched.await("unknown params", func(s *inventory.Snapshot) bool { return s.Taken.After(since) && params("false []")(s) })
	asked := len(s.asked())
	watched.await("a later Snapshot", func(*inventory.Snapshot) bool { return len(s.asked()) > asked+8 })
	refused := 0
	for _, ask := range s.asked()[asked:] {
		if ask.resource == "configmaps" {
			refused++
		}
	}
	if refused > 1 {
		t.Errorf("asked %d times for what is forbidden", refused)
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

func TestNewClientsTellsWhatIsWrong(t *testing.T) {
	config := &rest.Config{Host: "https://cluster.example.com", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no certificate")}}
	if _, err := NewClients(config); err == nil || !strings.Contains(err.Error(), config.Host) {
		t.Errorf("got error %v, want one that names the host", err)
	}
}
