package cluster

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

func TestServiceScopes(t *testing.T) {
	numbered := func(n int) []string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("s%03d", i))
		}
		return out
	}
	for _, tt := range []struct {
		name                                  string
		services                              []string
		crowded                               bool
		byName, ofNamespace, endpointSelector int
	}{
		{"one", numbered(1), false, 1, 0, 1},
		{"few", numbered(fewServices), false, fewServices, 0, 1},
		{"more", numbered(fewServices + 1), false, 0, 1, 1},
		{"more in a crowded namespace", numbered(fewServices + 1), true, fewServices + 1, 0, 1},
		{"many in a crowded namespace", numbered(manyServices), true, 0, 1, 1},
		{"more than one selector names", numbered(2*selectedServices + 1), false, 0, 1, 3},
		{"an impossible name", []string{"a", "b", "no/name"}, false, 3, 0, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			type kind struct {
				schema.GroupResource
				extent
			}
			kinds, named := map[kind]int{}, map[kind]int{}
			for _, scope := range slices.Concat(
				serviceScopes(watchScope{serviceResource, ofNamespace, "policy", ""}, tt.services, tt.crowded),
				sliceScopes(watchScope{sliceResource, ofNamespace, "policy", ""}, tt.services),
			) {
				kinds[kind{scope.GroupResource, scope.extent}]++
				named[kind{scope.GroupResource, scope.extent}] += len(scope.keys())
				if impossible := strings.Contains(scope.services, "/"); scope.possible() == impossible {
					t.Errorf("%v is possible: %v", scope, !impossible)
				}
			}
			one, all, chosen := kind{serviceResource, ofServices}, kind{serviceResource, ofNamespace}, kind{sliceResource, ofServices}
			if kinds[one] != tt.byName || kinds[all] != tt.ofNamespace || kinds[chosen] != tt.endpointSelector {
				t.Errorf("scopes are %v", kinds)
			}
			if n := len(tt.services); named[chosen] != n || named[one]+named[all] != n {
				t.Errorf("named are %v, want each of %d once", named, n)
			}
		})
	}
}

// fiveServices are more than are watched one by one.
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

func TestWatchByNamespace(t *testing.T) {
	s := startServer(t)
	s.large = true
	clients := fiveServices(s)
	s.put(service("policy", "unrelated"), endpointSlice("policy", "unrelated", true), validating("five", clients...))
	r := watching(s, Options{Debounce: time.Millisecond})
	first := r.await("all Services", func(s *inventory.Snapshot) bool { return len(s.Services) > 0 })
	if len(first.Services) != 5 || len(first.Errors) != 0 {
		t.Errorf("Services %v, errors %v", first.Services, first.Errors)
	}
	want := []string{"endpointslices policy/kubernetes.io/service-name in (s0,s1,s2,s3,s4)", "networkpolicies policy/", "poddisruptionbudgets policy/", "pods policy/", "services policy/"}
	eventually(t, "a stream for each kind", func() bool { return slices.Equal(inNamespace(s.watched()), want) })

	s.remove(service("policy", "s3"))
	r.await("the missing Service", func(s *inventory.Snapshot) bool {
		return len(s.Services) == 4 && s.ServicesKnown.Services[inPolicy("s3")]
	})
	s.put(service("policy", "more"))
	s.put(validating("six", kubetest.Client("policy", "more")))
	r.await("the sixth Service", func(s *inventory.Snapshot) bool {
		if len(s.Services) < 4 || !s.ServicesKnown.Services[inPolicy("s3")] || !s.EndpointsKnown.Services[inPolicy("s0")] {
			t.Errorf("with webhooks %v the Services are %v", refs(s), s.Services)
		}
		return len(s.Services) == 5 && len(s.Webhooks) == 6
	})
	want = []string{"endpointslices policy/kubernetes.io/service-name in (more,s0,s1,s2,s3,s4)", "networkpolicies policy/", "poddisruptionbudgets policy/", "pods policy/", "services policy/"}
	eventually(t, "still a stream for each kind", func() bool { return slices.Equal(inNamespace(s.watched()), want) })
}

// TestWatchNetworkPolicies: those of the namespaces in which backends run are followed,
// others are not shown; where they may not be read, all else is.
func TestWatchNetworkPolicies(t *testing.T) {
	policy := func(namespace string, rules ...networkingv1.NetworkPolicyIngressRule) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deny"}, Spec: networkingv1.NetworkPolicySpec{Ingress: rules}}
	}
	for _, large := range []bool{false, true} {
		s := startServer(t)
		s.large = large
		s.put(policy("elsewhere"), policy("policy"), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "p"}})
		s.put(validating("five", fiveServices(s)...))
		r := watching(s, Options{Debounce: time.Millisecond})
		r.await("its policy", func(s *inventory.Snapshot) bool {
			return len(s.NetworkPolicies) == 1 && len(s.Workloads) == 1 && len(s.Isolating(&s.Workloads[0], 8443)) == 1
		})
		s.put(policy("policy", networkingv1.NetworkPolicyIngressRule{}))
		r.await("a rule that opens all", func(s *inventory.Snapshot) bool { return len(s.Isolating(&s.Workloads[0], 8443)) == 0 })
	}
	s := startServer(t)
	s.put(policy("policy"), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "p"}}, validating("five", fiveServices(s)...))
	s.refuse(http.StatusForbidden, func(r request) bool { return r.resource == "networkpolicies" })
	got := watching(s, Options{}).await("the rest", func(s *inventory.Snapshot) bool { return len(s.Errors) > 0 && len(s.Workloads) == 1 })
	if len(got.Errors) != 1 || !strings.Contains(got.Errors[0].Error(), "grant the verbs list and watch on networkpolicies.networking.k8s.io") || len(got.Isolating(&got.Workloads[0], 8443)) > 0 {
		t.Errorf("errors %v, policies %v", got.Errors, got.NetworkPolicies)
	}
}

func inNamespace(watched []string) []string {
	return slices.DeleteFunc(watched, func(w string) bool { return !strings.Contains(w, " ") })
}

// TestWatchKeepsWhatIsNotReplaced: what was known of the Services of a namespace
// stays known as long as the watch for one more of them cannot be opened.
func TestWatchKeepsWhatIsNotReplaced(t *testing.T) {
	s := startServer(t)
	s.large = true
	s.put(validating("five", fiveServices(s)...))
	r := watching(s, Options{Debounce: time.Millisecond, test: timing{newServiceWait: time.Millisecond}})
	r.await("all Services", func(s *inventory.Snapshot) bool { return len(s.Services) == 5 })
	s.refuse(http.StatusInternalServerError, func(r request) bool { return strings.Contains(r.query.Get("labelSelector"), "more") })
	s.put(service("policy", "more"), validating("six", kubetest.Client("policy", "more")))
	stays := func(until func(*inventory.Snapshot) bool) func(*inventory.Snapshot) bool {
		return func(s *inventory.Snapshot) bool {
			if n := len(s.Services[inPolicy("s0")].Endpoints); n != 1 || !s.EndpointsKnown.Services[inPolicy("s0")] {
				t.Errorf("with webhooks %v Service s0 has %d endpoints, known in %v", refs(s), n, s.EndpointsKnown)
			}
			return until(s)
		}
	}
	failing := r.await("the failure", stays(func(s *inventory.Snapshot) bool { return len(s.Webhooks) == 6 && len(s.Errors) > 0 }))
	if failing.EndpointsKnown.Services[inPolicy("more")] {
		t.Error("endpoints that cannot be read are known")
	}
	s.put(endpointSlice("policy", "s1", true, true))
	r.await("a change all the same", stays(func(s *inventory.Snapshot) bool { return len(s.Services[inPolicy("s1")].Endpoints) == 2 }))
	s.heal()
	r.await("the sixth Service", stays(func(s *inventory.Snapshot) bool {
		return s.EndpointsKnown.Services[inPolicy("more")] && len(s.Errors) == 0 && len(s.Services) == 6
	}))
}

// TestWatchShowsNothingTwice: while one of two selectors cannot be read, the
// EndpointSlices of the other belong to a new watch and to one that it replaces.
func TestWatchShowsNothingTwice(t *testing.T) {
	s := startServer(t)
	s.large = true
	var clients []admissionv1.WebhookClientConfig
	for i := range selectedServices + 1 {
		name := fmt.Sprintf("s%03d", i)
		s.put(service("policy", name), endpointSlice("policy", name, true))
		clients = append(clients, kubetest.Client("policy", name))
	}
	s.put(validating("all", clients...))
	r := watching(s, Options{Debounce: time.Millisecond, test: timing{newServiceWait: time.Millisecond}})
	r.await("all Services", func(s *inventory.Snapshot) bool { return len(s.Services) == selectedServices+1 })
	s.refuse(http.StatusInternalServerError, func(r request) bool { return strings.Contains(r.query.Get("labelSelector"), "(first,") })
	s.put(service("policy", "first"), validating("one", kubetest.Client("policy", "first")))
	eventually(t, "the other selector", func() bool {
		return slices.Contains(s.watched(), "endpointslices policy/kubernetes.io/service-name in (s099,s100)")
	})
	s.put(endpointSlice("policy", "s100", false), endpointSlice("policy", "s000", false))
	moved := func(s *inventory.Snapshot) bool {
		for name, service := range s.Services {
			if len(service.Endpoints) > 1 {
				t.Errorf("Service %v has %d endpoints", name, len(service.Endpoints))
			}
		}
		ready := func(name string) bool { return s.Services[inPolicy(name)].Endpoints[0].Ready }
		return len(s.Errors) > 0 && !ready("s100") && !ready("s000") && ready("s050")
	}
	r.await("the change in both watches", moved)
}

// crowdNamespace fills a namespace with Services that no webhook refers to.
func crowdNamespace(s *fakeServer) {
	s.large = true
	for i := range servicePage {
		s.put(service("policy", fmt.Sprintf("unrelated-%d", i)))
	}
}

func TestWatchInACrowdedNamespace(t *testing.T) {
	s := startServer(t)
	crowdNamespace(s)
	s.put(validating("five", fiveServices(s)...))
	r := watching(s, Options{Debounce: time.Millisecond})
	got := r.await("anything", anything)
	if len(got.Services) != 5 || !got.ServicesKnown.Services[inPolicy("s0")] || len(got.Errors) != 0 || watchErrors(got) != 0 {
		t.Errorf("Services %v, errors %v, watch errors %v", got.Services, got.Errors, got.WatchErrors)
	}
	byName := func() bool {
		watched := inNamespace(s.watched())
		return slices.Contains(watched, "services policy/metadata.name=s4") && !slices.Contains(watched, "services policy/")
	}
	eventually(t, "Services watched by name", byName)
	s.put(service("policy", "more"), validating("six", kubetest.Client("policy", "more")))
	r.await("the sixth Service", func(s *inventory.Snapshot) bool { return len(s.Services) == 6 })
	if !byName() {
		t.Errorf("watched are %v", inNamespace(s.watched()))
	}
}

func TestReadInACrowdedNamespace(t *testing.T) {
	s := startServer(t)
	crowdNamespace(s)
	s.put(validating("five", fiveServices(s)...))
	objects := must.Get(Read(t.Context(), s.clients(), Options{}, func(string, int) {}))(t)
	if got := objects.Snapshot(time.Now()); len(got.Services) != 5 || !got.ServicesKnown.Services[inPolicy("s4")] || len(got.Errors) != 0 {
		t.Errorf("Services %v, errors %v", got.Services, got.Errors)
	}
}

// inParts are the streams of what stands behind fiveServices in a large cluster.
var inParts = []string{"endpointslices policy/kubernetes.io/service-name in (s0,s1,s2,s3,s4)", "networkpolicies policy/", "poddisruptionbudgets policy/", "pods policy/", "services policy/"}

// TestWatchWhereTheClusterIsForbidden: what may be read only in namespaces is watched
// there, which is no Error.
func TestWatchWhereTheClusterIsForbidden(t *testing.T) {
	s := startServer(t)
	s.put(validating("five", fiveServices(s)...))
	s.refuse(http.StatusForbidden, request.ofCluster)
	r := watching(s, Options{})
	got := r.await("anything", anything)
	if len(got.Services) != 5 || !got.EndpointsKnown.Services[inPolicy("s0")] || len(got.Errors) != 0 || watchErrors(got) != 0 {
		t.Errorf("Services %v, errors %v, watch errors %v", got.Services, got.Errors, got.WatchErrors)
	}
	eventually(t, "a stream for each kind", func() bool { return slices.Equal(inNamespace(s.watched()), inParts) })

	objects, err := Read(t.Context(), s.clients(), Options{}, func(string, int) {})
	if read := objects.Snapshot(time.Now()); err != nil || len(read.Services) != 5 || len(read.Errors) != 0 {
		t.Errorf("read are Services %v, errors %v, %v", read.Services, read.Errors, err)
	}
}

// TestWatchOfAClusterThatGrows: once there are too many Services to watch all of them,
// they are watched in their namespaces, and what was known stays known meanwhile.
func TestWatchOfAClusterThatGrows(t *testing.T) {
	s := startServer(t)
	s.put(validating("five", fiveServices(s)...))
	r := watching(s, Options{Debounce: time.Millisecond, test: timing{newServiceWait: time.Millisecond}})
	r.await("all Services", func(s *inventory.Snapshot) bool { return len(s.Services) == 5 })
	s.refuse(http.StatusInternalServerError, func(r request) bool { return r.resource == "services" && r.namespace != "" })
	for i := range fewInCluster {
		s.put(service("other", fmt.Sprintf("unrelated-%d", i)))
	}
	stays := func(until func(*inventory.Snapshot) bool) func(*inventory.Snapshot) bool {
		return func(s *inventory.Snapshot) bool {
			if len(s.Services) != 5 || !s.ServicesKnown.Services[inPolicy("s0")] {
				t.Errorf("Services are %v, known %v", s.Services, s.ServicesKnown)
			}
			return until(s)
		}
	}
	r.await("the failure of the new watch", stays(func(s *inventory.Snapshot) bool { return len(s.Errors) > 0 }))
	s.heal()
	r.await("no Error", stays(func(s *inventory.Snapshot) bool { return len(s.Errors) == 0 }))
	eventually(t, "Services watched in their namespace", func() bool {
		watched := s.watched()
		return slices.Contains(watched, "services policy/") && !slices.Contains(watched, "services") && slices.Contains(watched, "endpointslices")
	})
}

// TestSameWants: a webhook that changed in what the scopes depend on is noticed, and
// one that is taken to want the same does.
func TestSameWants(t *testing.T) {
	fail, ignore, exact := admissionv1.Fail, admissionv1.Ignore, admissionv1.Exact
	before := func() *admissionv1.ValidatingWebhookConfiguration {
		c := validating("one", kubetest.Client("policy", "hook"))
		c.Webhooks[0].FailurePolicy = &fail
		c.Webhooks[0].Rules = []admissionv1.RuleWithOperations{kubetest.Rule("", "pods", admissionv1.Create)}
		return c
	}
	wants := func(c *admissionv1.ValidatingWebhookConfiguration) (*inventory.Webhook, map[watchScope]keySet) {
		o := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{c}}
		s := o.Snapshot(time.Now())
		return s.Webhooks[0], wantedScopes(admission.New(s), nil)
	}
	for name, tt := range map[string]struct {
		change func(*admissionv1.ValidatingWebhook)
		same   bool
	}{
		"nothing":   {func(*admissionv1.ValidatingWebhook) {}, true},
		"timeout":   {func(w *admissionv1.ValidatingWebhook) { w.TimeoutSeconds = new(int32(3)) }, true},
		"CA bundle": {func(w *admissionv1.ValidatingWebhook) { w.ClientConfig.CABundle = []byte("x") }, true},
		"Service":   {func(w *admissionv1.ValidatingWebhook) { w.ClientConfig = kubetest.Client("policy", "other") }, false},
		"URL": {func(w *admissionv1.ValidatingWebhook) {
			w.ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://a.example.com/")}
		}, false},
		"failurePolicy":     {func(w *admissionv1.ValidatingWebhook) { w.FailurePolicy = &ignore }, false},
		"matchPolicy":       {func(w *admissionv1.ValidatingWebhook) { w.MatchPolicy = &exact }, false},
		"rules":             {func(w *admissionv1.ValidatingWebhook) { w.Rules[0].Resources = []string{"configmaps"} }, false},
		"namespaceSelector": {func(w *admissionv1.ValidatingWebhook) { w.NamespaceSelector = labeled("a") }, false},
		"objectSelector":    {func(w *admissionv1.ValidatingWebhook) { w.ObjectSelector = labeled("a") }, false},
		"matchConditions": {func(w *admissionv1.ValidatingWebhook) {
			w.MatchConditions = []admissionv1.MatchCondition{{Name: "never", Expression: "false"}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			changed := before()
			tt.change(&changed.Webhooks[0])
			a, scopes := wants(before())
			b, now := wants(changed)
			if got := sameWants(a, b); got != tt.same {
				t.Errorf("wants the same: %v, want %v", got, tt.same)
			}
			if tt.same && !reflect.DeepEqual(scopes, now) {
				t.Errorf("wants %v, before %v", now, scopes)
			}
		})
	}
}

func labeled(value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"policy": value}}
}
