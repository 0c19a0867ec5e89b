package cluster

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// timeout is how long a test waits for what must come. It is not a measure.
const timeout = time.Minute

// recorder keeps the Snapshots that Watch publishes.
type recorder struct {
	t     *testing.T
	mu    sync.Mutex
	news  *sync.Cond
	all   []*inventory.Snapshot
	ended bool
	stop  func() error
}

// watching starts Watch; it ends with the test, or by stop.
func watching(s *fakeServer, options Options) *recorder {
	s.t.Helper()
	return watchingWith(s.clients(), s, options)
}

func watchingWith(clients Clients, s *fakeServer, options Options) *recorder {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &recorder{t: s.t}
	r.news = sync.NewCond(&r.mu)
	done := make(chan error, 1)
	options.test.fetchInterval = time.Millisecond
	options.test.backoff = wait.Backoff{Duration: 5 * time.Millisecond, Factor: 2, Steps: 3, Cap: 20 * time.Millisecond}
	go func() { done <- Watch(ctx, clients, options, r.publish) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	s.t.Cleanup(func() { r.stop() })
	return r
}

func (r *recorder) publish(m *admission.Matcher) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, m.Snapshot)
	r.news.Broadcast()
}

// await returns the first Snapshot, from the one after the last awaited on,
// that is as wanted.
func (r *recorder) await(what string, accepts func(*inventory.Snapshot) bool) *inventory.Snapshot {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	late := time.AfterFunc(timeout, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended = true
		r.news.Broadcast()
	})
	defer late.Stop()
	for i := 0; ; {
		for ; i < len(r.all); i++ {
			if accepts(r.all[i]) {
				found := r.all[i]
				r.all = r.all[i+1:]
				return found
			}
		}
		if r.ended {
			r.t.Fatalf("no Snapshot with %s; the last one was %s", what, r.last())
		}
		r.news.Wait()
	}
}

func (r *recorder) last() string {
	if len(r.all) == 0 {
		return "before"
	}
	s := r.all[len(r.all)-1]
	return fmt.Sprintf("with webhooks %v, Services %v, errors %v", refs(s), slices.Collect(maps.Keys(s.Services)), s.Errors)
}

func refs(s *inventory.Snapshot) []string {
	var out []string
	for _, w := range s.Webhooks {
		out = append(out, fmt.Sprintf("%s %s/%s", w.Type, w.Configuration, w.Name))
	}
	return out
}

func anything(*inventory.Snapshot) bool { return true }

func webhooks(n int) func(*inventory.Snapshot) bool {
	return func(s *inventory.Snapshot) bool { return len(s.Webhooks) == n }
}

func errorAbout(object, text string) func(*inventory.Snapshot) bool {
	return func(s *inventory.Snapshot) bool {
		return slices.ContainsFunc(s.Errors, func(e inventory.Error) bool {
			return e.Object == object && strings.Contains(e.Message, text)
		})
	}
}

func validating(name string, clients ...admissionv1.WebhookClientConfig) *admissionv1.ValidatingWebhookConfiguration {
	c := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i, client := range clients {
		c.Webhooks = append(c.Webhooks, admissionv1.ValidatingWebhook{Name: fmt.Sprintf("w%d.%s.example.com", i, name), ClientConfig: client})
	}
	return c
}

func mutating(name string, client admissionv1.WebhookClientConfig) *admissionv1.MutatingWebhookConfiguration {
	return kubetest.Mutating(name, admissionv1.MutatingWebhook{Name: "w." + name + ".example.com", ClientConfig: client})
}

func convertedCRD(plural, namespace, service string) *apiextensionsv1.CustomResourceDefinition {
	c := kubetest.CRD("example.com", plural, "v1")
	c.Spec.Versions[0].Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}
	c.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{
			Service: &apiextensionsv1.ServiceReference{Namespace: namespace, Name: service},
		}},
	}
	return c
}

func service(namespace, name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: "127.10.0.1", Ports: []corev1.ServicePort{{Port: 443}}},
	}
}

func endpointSlice(namespace, service string, ready ...bool) *discoveryv1.EndpointSlice {
	s := kubetest.EndpointSlice(namespace, service)
	s.AddressType, s.Ports[0].Name = discoveryv1.AddressTypeIPv4, new("")
	for _, r := range ready {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{"127.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &r},
		})
	}
	return s
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func apiService(version, group, namespace, service string) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: version + "." + group},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: group, Version: version,
			Service: &apiregistrationv1.ServiceReference{Namespace: namespace, Name: service},
		},
	}
}

// throughAPIServer is a webhook that an aggregated API server serves.
func throughAPIServer(version, group string) admissionv1.WebhookClientConfig {
	path := "/apis/" + group + "/" + version + "/reviews"
	c := kubetest.Client("default", "kubernetes")
	c.Service.Path = &path
	return c
}

// populated returns a server with one webhook of each kind and what is behind it, and as
// much again that no webhook refers to.
func populated(t *testing.T) *fakeServer {
	t.Helper()
	s := startServer(t)
	s.put(
		namespace("policy"), namespace("other"),
		validating("validate", kubetest.Client("policy", "validate")),
		mutating("mutate", kubetest.Client("policy", "mutate")),
		validating("aggregated", throughAPIServer("v1", "hive.example.com")),
		convertedCRD("things", "convert", "convert"),
		apiService("v1", "hive.example.com", "hive", "hive"),
		kubetest.Policy("limits", kubetest.Rule("", "pods")), kubetest.Binding("limits"),
		service("policy", "validate"), endpointSlice("policy", "validate", true, false),
		service("policy", "mutate"), endpointSlice("policy", "mutate"),
		service("hive", "hive"), endpointSlice("hive", "hive", true),
		service("policy", "unrelated"), endpointSlice("policy", "unrelated", true),
		service("default", "kubernetes"), endpointSlice("default", "kubernetes", true),
		service("other", "other"), endpointSlice("other", "other", true),
	)
	return s
}

// watchingAll returns a populated server, and a recorder that has received all of it.
func watchingAll(t *testing.T, options Options) (*fakeServer, *recorder) {
	t.Helper()
	s := populated(t)
	r := watching(s, options)
	r.await("everything", whole)
	return s, r
}

// The Services of populated that tests look at; convert does not exist.
var (
	validate = inventory.Key{Namespace: "policy", Name: "validate"}
	convert  = inventory.Key{Namespace: "convert", Name: "convert"}
)

// whole says that a Snapshot shows all that populated has.
func whole(s *inventory.Snapshot) bool {
	return len(s.Webhooks) == 4 && len(s.Services) == 3 && s.ServicesKnown.Services[convert] && len(s.Errors) == 0 &&
		s.PoliciesKnown && len(s.Policies) == 1 && len(s.Policies[0].Bindings) == 1
}

func TestWatchShowsTheCluster(t *testing.T) {
	s := populated(t)
	finalizes := validating("validate", kubetest.Client("policy", "validate"))
	finalizes.Webhooks[0].Rules = []admissionv1.RuleWithOperations{kubetest.Rule("", "namespaces/finalize")}
	finalizes.Webhooks[0].MatchConditions = []admissionv1.MatchCondition{{Name: "tier", Expression: "object.metadata.labels.tier == 'a'"}}
	s.put(finalizes)
	r := watching(s, Options{})
	got := r.await("anything", anything)
	if !whole(got) {
		t.Errorf("the first Snapshot has webhooks %v, Services %v, errors %v", refs(got), got.Services, got.Errors)
	}
	states := map[string]string{}
	for _, w := range got.Webhooks {
		states[w.Name] = string(got.State(w.Backend).Fault)
	}
	want := map[string]string{
		"w0.validate.example.com":   "",
		"w.mutate.example.com":      "no-ready-endpoints",
		"w0.aggregated.example.com": "",
		"things.example.com":        "service-missing",
	}
	expect.Equal(t, want, states)
	expect.Equal(t, 2, len(got.Services[inventory.Key{Namespace: "policy", Name: "validate"}].Endpoints))
	if !got.NamespacesKnown || len(got.Namespaces) != 2 {
		t.Errorf("namespaces are %v, known %v", got.Namespaces, got.NamespacesKnown)
	}
	if got.Server.String() != "v1.37.1" || !got.ReviewsExcluded || got.OpenShift {
		t.Errorf("server is %v, reviews excluded %v, OpenShift %v", got.Server, got.ReviewsExcluded, got.OpenShift)
	}
	if got.Current.IsZero() || got.Current.After(got.Taken) {
		t.Errorf("current at %v, taken at %v", got.Current, got.Taken)
	}
	labeled := namespace("other")
	labeled.Labels = map[string]string{"tier": "a"} // which a condition reads on a subresource alone
	s.put(labeled)
	r.await("the label of a Namespace", func(s *inventory.Snapshot) bool { return s.Namespaces["other"].Labels["tier"] == "a" })
}

// openWatches has one for each kind: besides, four documents are read.
var openWatches = (len(expectedRequests()) - 4) / 2

func TestWatchAsksForNothingElse(t *testing.T) {
	s := populated(t)
	for i := range 100 {
		ns := fmt.Sprintf("crowd-%d", i)
		s.put(namespace(ns), service(ns, "s"), endpointSlice(ns, "s", true), daemonSet(ns, "d"), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"}})
	}
	r := watching(s, Options{test: timing{discoveryDelay: time.Hour}})
	r.await("everything", whole)
	eventually(t, "all watches open", func() bool { return len(s.watched()) == openWatches })
	r.stop()
	expect.Equal(t, expectedRequests(), countRequests(s))
}

// countRequests counts the requests by verb, path and selector.
func countRequests(s *fakeServer) map[string]int {
	counts := map[string]int{}
	for _, ask := range s.recorded() {
		if ask.resource == "" {
			counts[ask.path]++
			continue
		}
		if !strings.HasPrefix(ask.accept, "application/vnd.kubernetes.protobuf") {
			s.t.Errorf("%s %s accepts %q, want protobuf first", ask.verb(), ask.path, ask.accept)
		}
		counts[ask.verb()+" "+ask.path+" "+ask.query.Get("fieldSelector")+ask.query.Get("labelSelector")]++
	}
	return counts
}

// expectedRequests are all that a cluster takes: of each resource a list and a watch.
func expectedRequests() map[string]int {
	out := map[string]int{"/version": 2, "/api": 1, "/apis": 1, "/metrics": 1}
	for resource, kind := range resources {
		path := fmt.Sprintf("/apis/%s/v1/%s ", kind.Group, resource)
		switch {
		case resource == "configmaps":
			continue
		case resource == "deployments":
			path += "k8s-app in (kube-dns,coredns)"
		case kind.Group == "":
			path = "/api/v1/" + resource + " "
		}
		out["list "+path], out["watch "+path] = 1, 1
	}
	return out
}

func daemonSet(namespace, name string) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Template.Spec.PriorityClassName = "system-node-critical"
	return d
}

// TestWatchFollowsWhatNodesNeed: the DaemonSets and the DNS of the system namespaces are
// shown, and no other workload that makes Pods.
func TestWatchFollowsWhatNodesNeed(t *testing.T) {
	dns := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns", Labels: map[string]string{"k8s-app": "kube-dns"}}}
	dns.Spec.Template.Labels = dns.Labels
	other := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "other"}}
	s := startServer(t)
	s.put(daemonSet("kube-system", "proxy"), daemonSet("calico-system", "network"), daemonSet("policy", "scanner"), dns, other)
	r := watching(s, Options{Debounce: time.Millisecond})
	shows := func(want ...string) func(*inventory.Snapshot) bool {
		return func(s *inventory.Snapshot) bool {
			var have []string
			for _, w := range s.Workloads {
				have = append(have, w.String())
			}
			return slices.Equal(have, want)
		}
	}
	r.await("what nodes need", shows("DaemonSet calico-system/network", "DaemonSet kube-system/proxy", "Deployment kube-system/coredns"))
	s.put(daemonSet("kube-system", "storage"))
	r.await("another DaemonSet", shows("DaemonSet calico-system/network", "DaemonSet kube-system/proxy", "DaemonSet kube-system/storage", "Deployment kube-system/coredns"))
}

// eventually waits for what happens in the server, which the test polls.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	end := time.Now().Add(timeout)
	for !holds() {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		runtime.Gosched()
	}
}

func TestWatchShowsWhatItMayRead(t *testing.T) {
	for _, tt := range []struct {
		resource, object string
		shows            func(*inventory.Snapshot) bool
	}{
		{"validatingwebhookconfigurations", "validatingwebhookconfigurations.admissionregistration.k8s.io", webhooks(2)},
		{"mutatingwebhookconfigurations", "mutatingwebhookconfigurations.admissionregistration.k8s.io", webhooks(3)},
		{"customresourcedefinitions", "customresourcedefinitions.apiextensions.k8s.io", webhooks(3)},
		{"validatingadmissionpolicies", "validatingadmissionpolicies.admissionregistration.k8s.io", func(s *inventory.Snapshot) bool {
			return len(s.Webhooks) == 4 && len(s.Policies) == 0 && len(s.Unbound) == 1 && !s.PoliciesKnown
		}},
		{"mutatingadmissionpolicybindings", "mutatingadmissionpolicybindings.admissionregistration.k8s.io", func(s *inventory.Snapshot) bool {
			return len(s.Webhooks) == 4 && len(s.Policies) == 1 && !s.PoliciesKnown
		}},
		{"apiservices", "apiservices.apiregistration.k8s.io", func(s *inventory.Snapshot) bool {
			return len(s.Webhooks) == 4 && len(s.Services) == 2 && len(s.APIServices) == 0
		}},
		{"namespaces", "namespaces", func(s *inventory.Snapshot) bool {
			return len(s.Webhooks) == 4 && !s.NamespacesKnown && len(s.Namespaces) == 0
		}},
		{"services", "services", func(s *inventory.Snapshot) bool {
			return len(s.Webhooks) == 4 && len(s.Services) == 0 && !s.ServicesKnown.Services[validate] && s.EndpointsKnown.Services[validate]
		}},
		{"endpointslices", "endpointslices.discovery.k8s.io", func(s *inventory.Snapshot) bool {
			return len(s.Webhooks) == 4 && len(s.Services) == 3 && s.ServicesKnown.Services[validate] && !s.EndpointsKnown.Services[validate]
		}},
	} {
		t.Run(tt.resource, func(t *testing.T) {
			s := populated(t)
			s.refuse(http.StatusForbidden, func(r request) bool { return r.resource == tt.resource })
			r := watching(s, Options{})
			want := "list " + tt.object + " is forbidden"
			got := r.await("an Error", errorAbout(tt.object, want))
			if !tt.shows(got) || len(got.Errors) != 1 {
				t.Errorf("webhooks %v, Services %v, errors %v", refs(got), got.Services, got.Errors)
			}
			cure := "grant the verbs list and watch on " + tt.object + " to auditor"
			if !errorAbout(tt.object, cure)(got) {
				t.Errorf("the error is %v, want the cure %q", got.Errors, cure)
			}
			if r := schema.ParseGroupResource(tt.object); got.WatchErrors[inventory.Resource{Group: r.Group, Name: r.Resource}] == 0 {
				t.Errorf("watch errors are %v", got.WatchErrors)
			}
			s.heal()
			r.await("everything", whole)
		})
	}
}

func TestWatchThatMayListButNotWatch(t *testing.T) {
	s := populated(t)
	s.refuse(http.StatusForbidden, func(r request) bool { return r.resource == "namespaces" && r.verb() == "watch" })
	r := watching(s, Options{})
	got := r.await("the verb", errorAbout("namespaces", "watch namespaces is forbidden"))
	if !got.NamespacesKnown || len(got.Namespaces) != 2 {
		t.Errorf("namespaces are %v, known %v", got.Namespaces, got.NamespacesKnown)
	}
	s.put(namespace("third"))
	r.await("the third namespace", func(s *inventory.Snapshot) bool { return len(s.Namespaces) == 3 })
}

// TestWatchOfOlderServers: admission policies that the API server does not serve are
// none, which is no failed call; those that it serves in an older version are unknown.
func TestWatchOfOlderServers(t *testing.T) {
	s := populated(t)
	s.refuse(http.StatusNotFound, func(r request) bool { return strings.HasPrefix(r.resource, "mutatingadmissionpolic") })
	none := watching(s, Options{}).await("anything", anything)
	if !whole(none) || none.WatchErrors[inventory.Resource{Group: admissionv1.GroupName, Name: "mutatingadmissionpolicies"}] != 0 {
		t.Errorf("policies %v, known %v, errors %v, watch errors %v", none.Policies, none.PoliciesKnown, none.Errors, none.WatchErrors)
	}
	s.change(func() {
		s.groups[schema.GroupVersion{Group: admissionv1.GroupName, Version: "v1beta1"}] = []string{"mutatingadmissionpolicies"}
	})
	once := must.Get(Read(t.Context(), s.clients(), Options{}, func(Progress) {}))(t)
	for name, got := range map[string]*inventory.Snapshot{
		"watch": watching(s, Options{}).await("anything", anything),
		"read":  once.Snapshot(time.Now()),
	} {
		if got.PoliciesKnown || len(got.Errors) != 0 || len(got.Policies) != 1 {
			t.Errorf("%s: policies %v, known %v, errors %v", name, got.Policies, got.PoliciesKnown, got.Errors)
		}
	}
}

func TestWatchSurvivesTheAPIServer(t *testing.T) {
	s := populated(t)
	r := watching(s, Options{test: timing{resync: 20 * time.Millisecond}})
	r.await("everything", whole)

	s.end()
	failing := func(s *inventory.Snapshot) bool {
		return errorAbout("API server", "its last known state, of ")(s) && watchErrors(s) > 0
	}
	// A watch may break while the first such Snapshot is being made.
	r.await("an Error", failing)
	away := r.await("an Error", failing)
	if len(away.Webhooks) != 4 || len(away.Services) != 3 || !away.ServicesKnown.Services[convert] {
		t.Errorf("webhooks %v, Services %v", refs(away), away.Services)
	}
	later := r.await("the same Error later", func(s *inventory.Snapshot) bool { return s.Taken.After(away.Taken) })
	// It may be before that of the last good Snapshot, as a watch may have ended unnoticed.
	if !later.Current.Equal(away.Current) || later.Current.IsZero() {
		t.Errorf("current at %v, then %v: want it to stand still", away.Current, later.Current)
	}

	s.put(validating("meanwhile", kubetest.Client("policy", "validate")))
	s.remove(mutating("mutate", admissionv1.WebhookClientConfig{}))
	s.begin()
	// A watch whose stream ended and that was not opened again since has no Error, and
	// is not current.
	r.await("what happened meanwhile", func(s *inventory.Snapshot) bool {
		return len(s.Errors) == 0 && len(s.Webhooks) == 4 && len(s.Services) == 2 && s.Current.After(later.Current)
	})
}

func watchErrors(s *inventory.Snapshot) int64 {
	total := int64(0)
	for _, n := range s.WatchErrors {
		total += n
	}
	return total
}

func TestWatchSurvivesAnsweringBadly(t *testing.T) {
	for _, status := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusUnauthorized} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			s, r := watchingAll(t, Options{test: timing{resync: 20 * time.Millisecond}})
			s.refuse(status, func(request) bool { return true })
			s.dropStreams()
			bad := r.await("errors", func(s *inventory.Snapshot) bool { return len(s.Errors) > 0 })
			if len(bad.Webhooks) != 4 || len(bad.Services) != 3 {
				t.Errorf("webhooks %v, Services %v", refs(bad), bad.Services)
			}
			s.put(validating("meanwhile"))
			s.remove(validating("validate"))
			s.heal()
			r.await("what happened meanwhile", func(s *inventory.Snapshot) bool { return len(s.Webhooks) == 3 && len(s.Errors) == 0 })
		})
	}
}

func TestWatchResumesWithoutAnError(t *testing.T) {
	for _, tt := range []struct {
		name   string
		happen func(*fakeServer)
	}{
		{"the stream ends", func(s *fakeServer) { s.dropStreams() }},
		{"410 Gone", func(s *fakeServer) {
			s.put(namespace("compacted"))
			s.forget()
			s.dropStreams()
		}},
		{"410 Gone by status", func(s *fakeServer) {
			s.change(func() { s.goneByStatus = true })
			s.put(namespace("compacted"))
			s.forget()
			s.dropStreams()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, r := watchingAll(t, Options{})
			tt.happen(s)
			s.put(validating("next", kubetest.Client("policy", "validate")))
			got := r.await("the next webhook", webhooks(5))
			if len(got.Errors) != 0 {
				t.Errorf("errors: %v", got.Errors)
			}
			if watchErrors(got) != 0 {
				t.Errorf("watch errors: %v", got.WatchErrors)
			}
		})
	}
}

// TestWatchAfterAnUnseenRestore: the API server has passed the resource version
// of the watches again before anything could be compared.
func TestWatchAfterAnUnseenRestore(t *testing.T) {
	s := populated(t)
	backup := s.version()
	s.put(validating("lost", kubetest.Client("policy", "validate")))
	r := watching(s, Options{test: timing{relistAge: time.Nanosecond}})
	r.await("the state after the backup", webhooks(5))
	eventually(t, "all watches open", func() bool { return len(s.watched()) == openWatches })

	s.restore(backup, namespace("third"), namespace("fourth"))
	got := r.await("the restored state", func(s *inventory.Snapshot) bool { return len(s.Webhooks) == 4 && len(s.Namespaces) == 4 })
	if got.Regressions != 0 {
		t.Errorf("%d regressions, want none: the versions had grown past", got.Regressions)
	}
}

// TestWatchAfterARestoreDuringAnOutage: the outage is the only sign of the
// restore.
func TestWatchAfterARestoreDuringAnOutage(t *testing.T) {
	s := populated(t)
	backup := s.version()
	s.put(validating("lost", kubetest.Client("policy", "validate")))
	r := watching(s, Options{})
	r.await("the state after the backup", webhooks(5))
	eventually(t, "all watches open", func() bool { return len(s.watched()) == openWatches })

	s.end()
	r.await("an Error", func(s *inventory.Snapshot) bool { return len(s.Errors) > 0 })
	s.restore(backup, namespace("third"), namespace("fourth"))
	s.begin()
	r.await("the restored state", func(s *inventory.Snapshot) bool { return len(s.Webhooks) == 4 && len(s.Namespaces) == 4 })
}

func TestWatchListsInPages(t *testing.T) {
	s := startServer(t)
	s.tokensExpired = 2
	for i := range 101 {
		s.put(convertedCRD(fmt.Sprintf("things%d", i), "convert", "convert"))
	}
	got := watching(s, Options{}).await("anything", anything)
	if len(got.CRDs) != 101 || len(got.Errors) != 0 {
		t.Errorf("%d CRDs, errors %v", len(got.CRDs), got.Errors)
	}
	pages := 0
	for _, ask := range s.recorded() {
		if ask.resource == "customresourcedefinitions" && ask.verb() == "list" {
			pages++
			if ask.query.Get("limit") != "20" {
				t.Errorf("a list without a limit: %v", ask.query)
			}
		}
	}
	expect.Equal(t, 2+2+6, pages) // two lists that lose their token and one of six pages
}

func TestWatchReportsStartupErrors(t *testing.T) {
	s := populated(t)
	s.end()
	reported := make(chan []inventory.Error, 100)
	r := watching(s, Options{OnStartupErrors: func(errs []inventory.Error) { reported <- errs }})
	for errs := range reported {
		if slices.ContainsFunc(errs, func(e inventory.Error) bool { return e.Object == "API server" }) {
			break
		}
	}
	s.begin()
	if got := r.await("anything", anything); !whole(got) {
		t.Errorf("the first Snapshot has webhooks %v, Services %v, errors %v", refs(got), got.Services, got.Errors)
	}
}

func TestWatchComesUpWithWhatCanBeRead(t *testing.T) {
	s := populated(t)
	s.refuse(http.StatusInternalServerError, func(r request) bool { return r.resource == "apiservices" })
	r := watching(s, Options{test: timing{startupWait: time.Millisecond}})
	failing := errorAbout("apiservices.apiregistration.k8s.io", "the test wants it so")
	r.await("all but the APIService", func(s *inventory.Snapshot) bool { return failing(s) && len(s.Webhooks) == 4 && len(s.Services) == 2 })
	s.heal()
	r.await("everything", whole)
}

func TestWatchAsksAgainWhatIsServed(t *testing.T) {
	s := populated(t)
	gv := schema.GroupVersion{Group: "hive.example.com", Version: "v1"}
	r := watching(s, Options{test: timing{discoveryDelay: time.Millisecond}})
	serves := func(name string) func(*inventory.Snapshot) bool {
		return func(s *inventory.Snapshot) bool {
			return slices.ContainsFunc(s.Served, func(r inventory.Served) bool { return r.Resource.String() == name })
		}
	}
	if first := r.await("everything", whole); !serves("things.example.com")(first) || !serves("pods/exec")(first) || serves("bees.hive.example.com")(first) {
		t.Errorf("served: %v", first.Served)
	}
	s.change(func() { s.groups[gv] = []string{"bees"} })
	s.put(apiService("v2", "hive.example.com", "hive", "hive"))
	r.await("the aggregated resource", serves("bees.hive.example.com"))

	s.change(func() { s.stale[gv] = true })
	s.put(apiService("v3", "hive.example.com", "hive", "hive"))
	stale := r.await("an Error", errorAbout("hive.example.com/v1", "stale"))
	if !serves("bees.hive.example.com")(stale) {
		t.Errorf("what the group served is forgotten")
	}
	s.change(func() {
		s.groups[schema.GroupVersion{Group: openShiftGroup, Version: "v1"}] = []string{"infrastructures"}
	})
	s.put(convertedCRD("others", "convert", "convert"))
	openShift := r.await("OpenShift", func(s *inventory.Snapshot) bool { return s.OpenShift })
	if openShift.Routing != inventory.RoutingEndpoints {
		t.Errorf("routing is %q", openShift.Routing)
	}
}

func TestWatchLeavesNothingBehind(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*fakeServer)
	}{
		{"healthy", func(*fakeServer) {}},
		{"away", func(s *fakeServer) { s.end() }},
		{"throttling", func(s *fakeServer) {
			s.refuse(http.StatusTooManyRequests, func(request) bool { return true })
			s.dropStreams()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, r := watchingAll(t, Options{})
			tt.spoil(s)
			if err := r.stop(); err != context.Canceled {
				t.Errorf("Watch returned %v, want %v", err, context.Canceled)
			}
			// The last request ends a little later.
			eventually(t, "the end of all goroutines", func() bool { return len(goroutines()) == 0 })
		})
	}
}

// goroutines returns the stacks of all goroutines that work for Watch.
func goroutines() []string {
	buffer := make([]byte, 1<<20)
	stacks := strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n")
	return slices.DeleteFunc(stacks, func(stack string) bool {
		return !strings.Contains(stack, "client-go/") && !strings.Contains(stack, "cluster.(*watcher)") && !strings.Contains(stack, "cluster.(*objectWatch)")
	})
}
