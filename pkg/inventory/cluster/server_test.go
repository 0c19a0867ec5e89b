package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// fakeServer is as much of an API server as reading one needs: lists with
// pages, watches with bookmarks, discovery, /version and
// /metrics, over real HTTP. It can fail in the ways real ones do.
type fakeServer struct {
	t    *testing.T
	addr string

	mu      sync.Mutex
	http    *http.Server
	objects []*unstructured.Unstructured
	// history is all that ever happened, for streams that resume.
	history  []happening
	oldest   int
	streams  map[*openStream]bool
	requests []request

	// goneByStatus says that a stream that is too old to resume is refused with
	// the status 410, instead of an event.
	goneByStatus bool
	// lagging says that nothing of what the server stores reaches a watch, listsLag that
	// lists fail as well: it has lost etcd.
	lagging, listsLag bool
	// tokensExpired is how many continue tokens are yet to expire.
	tokensExpired int
	// fault returns the status to fail a request with, or 0.
	fault func(request) int
	// documents are served by their path.
	documents map[string]string
	groups    map[schema.GroupVersion][]string
	stale     map[schema.GroupVersion]bool
}

type happening struct {
	kind   watch.EventType
	object *unstructured.Unstructured
}

// request is what a client asked for.
type request struct {
	resource, namespace string
	path                string
	query               url.Values
	accept              string
}

func (r request) verb() string {
	switch {
	case r.resource == "":
		return "get"
	case r.query.Get("watch") != "":
		return "watch"
	}
	return "list"
}

type openStream struct {
	request
	wake, ended chan struct{}
}

// resources are the kinds that the server knows, by resource.
var resources = map[string]schema.GroupVersionKind{
	"validatingwebhookconfigurations":   {Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	"mutatingwebhookconfigurations":     {Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
	"validatingadmissionpolicies":       {Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"},
	"validatingadmissionpolicybindings": {Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding"},
	"mutatingadmissionpolicies":         {Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicy"},
	"mutatingadmissionpolicybindings":   {Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicyBinding"},
	"customresourcedefinitions":         {Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	"apiservices":                       {Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
	"namespaces":                        {Version: "v1", Kind: "Namespace"},
	"services":                          {Version: "v1", Kind: "Service"},
	"endpointslices":                    {Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"},
	"pods":                              {Version: "v1", Kind: "Pod"},
	"daemonsets":                        {Group: "apps", Version: "v1", Kind: "DaemonSet"},
	"poddisruptionbudgets":              {Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	"networkpolicies":                   {Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	"deployments":                       {Group: "apps", Version: "v1", Kind: "Deployment"},
	"configmaps":                        {Version: "v1", Kind: "ConfigMap"},
}

func startServer(t *testing.T) *fakeServer {
	t.Helper()
	s := &fakeServer{
		t:       t,
		addr:    "127.0.0.1:0",
		streams: map[*openStream]bool{},
		fault:   func(request) int { return 0 },
		documents: map[string]string{
			"/version": `{"major":"1","minor":"37","gitVersion":"v1.37.1","emulationMajor":"1","emulationMinor":"37"}`,
			"/metrics": "# HELP kubernetes_feature_enabled gates\n" + reviewsGate + `,stage="BETA"} 1` + "\n",
		},
		groups: map[schema.GroupVersion][]string{{Version: "v1"}: {"pods", "pods/exec"}},
		stale:  map[schema.GroupVersion]bool{},
	}
	s.begin()
	t.Cleanup(s.end)
	return s
}

// begin listens, again on the same port after end.
func (s *fakeServer) begin() {
	s.t.Helper()
	listener, err := net.Listen("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addr = listener.Addr().String()
	s.http = &http.Server{Handler: s}
	go s.http.Serve(listener)
}

// end closes the listener and all connections, as a killed server does.
func (s *fakeServer) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.http.Close()
}

func (s *fakeServer) clients() Clients {
	s.t.Helper()
	c, err := NewClients(&rest.Config{Host: "http://" + s.addr})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// change changes the server's behavior while it runs.
func (s *fakeServer) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// refuse fails each request that matches with the status.
func (s *fakeServer) refuse(status int, match func(request) bool) {
	s.change(func() {
		s.fault = func(r request) int {
			if match(r) {
				return status
			}
			return 0
		}
	})
}

func (s *fakeServer) heal() { s.change(func() { s.fault = func(request) int { return 0 } }) }

func (s *fakeServer) recorded() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *fakeServer) put(objects ...runtime.Object) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, object := range objects {
		s.store(s.convert(object))
	}
}

func (s *fakeServer) convert(object runtime.Object) *unstructured.Unstructured {
	s.t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		s.t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	for _, gvk := range resources {
		if strings.HasSuffix(fmt.Sprintf("%T", object), "."+gvk.Kind) {
			u.SetGroupVersionKind(gvk)
		}
	}
	return u
}

func (s *fakeServer) store(u *unstructured.Unstructured) {
	kind := watch.Added
	i := slices.IndexFunc(s.objects, func(o *unstructured.Unstructured) bool { return sameObject(o, u) })
	u.SetResourceVersion(strconv.Itoa(len(s.history) + 1))
	if i < 0 {
		s.objects = append(s.objects, u)
	} else {
		s.objects[i], kind = u, watch.Modified
	}
	s.happen(kind, u)
}

func sameObject(a, b *unstructured.Unstructured) bool {
	return a.GetKind() == b.GetKind() && a.GetNamespace() == b.GetNamespace() && a.GetName() == b.GetName()
}

func (s *fakeServer) happen(kind watch.EventType, u *unstructured.Unstructured) {
	s.history = append(s.history, happening{kind, u})
	for stream := range s.streams {
		select {
		case stream.wake <- struct{}{}:
		default:
		}
	}
}

// remove deletes objects, of which only kind and name count.
func (s *fakeServer) remove(objects ...runtime.Object) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, object := range objects {
		u := s.convert(object)
		s.objects = slices.DeleteFunc(s.objects, func(o *unstructured.Unstructured) bool { return sameObject(o, u) })
		u.SetResourceVersion(strconv.Itoa(len(s.history) + 1))
		s.happen(watch.Deleted, u)
	}
}

// dropStreams ends all watches, as their timeout does: with a bookmark, so that
// client-go does not take them for failed attempts and lists anew.
func (s *fakeServer) dropStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for stream := range s.streams {
		close(stream.ended)
		delete(s.streams, stream)
	}
}

// version returns the resource version of the newest state.
func (s *fakeServer) version() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.history)
}

// restore takes the server back to a version, as a restore of etcd from a backup
// does, stores the objects, and ends all watches.
func (s *fakeServer) restore(version int, objects ...runtime.Object) {
	s.t.Helper()
	s.change(func() {
		kept := s.history[:version]
		s.history, s.objects = nil, nil
		for _, h := range kept {
			s.objects = slices.DeleteFunc(s.objects, func(o *unstructured.Unstructured) bool { return sameObject(o, h.object) })
			if h.kind != watch.Deleted {
				s.objects = append(s.objects, h.object)
			}
		}
		s.history = slices.Clone(kept)
		for _, object := range objects {
			s.store(s.convert(object))
		}
	})
	s.dropStreams()
}

// forget makes all resource versions so far too old to resume from.
func (s *fakeServer) forget() { s.change(func() { s.oldest = len(s.history) + 1 }) }

// watched returns what is being watched, as "resource" or
// "resource namespace/selector".
func (s *fakeServer) watched() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for stream := range s.streams {
		what := stream.resource
		if stream.namespace != "" {
			what += " " + stream.namespace + "/" + cmp.Or(stream.query.Get("fieldSelector"), stream.query.Get("labelSelector"))
		}
		out = append(out, what)
	}
	slices.Sort(out)
	return out
}

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ask := parseRequest(r)
	s.mu.Lock()
	s.requests = append(s.requests, ask)
	status, document := s.fault(ask), s.documents[ask.path]
	if ask.verb() == "list" && s.listsLag {
		status = http.StatusGatewayTimeout
	}
	s.mu.Unlock()
	switch {
	case status != 0:
		s.fail(w, ask, status)
	case document != "":
		fmt.Fprint(w, document)
	case ask.path == "/api" || ask.path == "/apis":
		s.discover(w, ask)
	case ask.resource == "":
		s.fail(w, ask, http.StatusNotFound)
	case ask.verb() == "watch":
		s.watch(w, r, ask)
	default:
		s.list(w, ask)
	}
}

// parseRequest reads /api/v1/…, /apis/GROUP/VERSION/… with or without a
// namespace.
func parseRequest(r *http.Request) request {
	ask := request{path: r.URL.Path, query: r.URL.Query(), accept: r.Header.Get("Accept")}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch parts[0] {
	case "api":
		parts = parts[min(2, len(parts)):]
	case "apis":
		parts = parts[min(3, len(parts)):]
	default:
		return ask
	}
	if len(parts) == 3 && parts[0] == "namespaces" {
		ask.namespace, parts = parts[1], parts[2:]
	}
	if len(parts) == 1 {
		ask.resource = parts[0]
	}
	return ask
}

func (s *fakeServer) fail(w http.ResponseWriter, ask request, status int) {
	gvk := resources[ask.resource]
	gr := schema.GroupResource{Group: gvk.Group, Resource: ask.resource}
	answer := apierrors.NewGenericServerResponse(status, ask.verb(), gr, "", "the test wants it so", 0, true)
	if status == http.StatusForbidden {
		answer = apierrors.NewForbidden(gr, "", fmt.Errorf("User %q cannot %s resource %q", "auditor", ask.verb(), ask.resource))
	}
	s.answer(w, status, answer.ErrStatus)
}

func (s *fakeServer) answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if st, ok := body.(metav1.Status); ok {
		st.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		body = st
	}
	json.NewEncoder(w).Encode(body)
}

func (s *fakeServer) list(w http.ResponseWriter, ask request) {
	s.mu.Lock()
	items := s.selected(ask)
	list := map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(len(s.history))}}
	start, _ := strconv.Atoi(ask.query.Get("continue"))
	gone := start > 0 && s.tokensExpired > 0
	if gone {
		s.tokensExpired--
	}
	s.mu.Unlock()
	if gone {
		s.answer(w, http.StatusGone, apierrors.NewResourceExpired("the continue token is too old").ErrStatus)
		return
	}
	for i, item := range items {
		if !ask.metadataOnly() {
			item := maps.Clone(item.(map[string]any))
			delete(item, "kind")
			delete(item, "apiVersion")
			items[i] = item
		}
	}
	end := len(items)
	if limit, _ := strconv.Atoi(ask.query.Get("limit")); limit > 0 && start+limit < end {
		end = start + limit
		list["metadata"].(map[string]any)["continue"] = strconv.Itoa(end)
	}
	list["items"] = items[start:end]
	gvk := resources[ask.resource]
	list["apiVersion"], list["kind"] = gvk.GroupVersion().String(), gvk.Kind+"List"
	if ask.metadataOnly() {
		list["apiVersion"], list["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	s.answer(w, http.StatusOK, list)
}

func (r request) metadataOnly() bool { return strings.Contains(r.accept, "as=PartialObjectMetadata") }

// selected returns the objects that the request is about, as it wants them.
func (s *fakeServer) selected(ask request) []any {
	out := []any{}
	for _, o := range s.objects {
		if ask.selects(o) {
			out = append(out, ask.shape(o))
		}
	}
	return out
}

func (r request) selects(o *unstructured.Unstructured) bool {
	byName, err1 := fields.ParseSelector(r.query.Get("fieldSelector"))
	byLabel, err2 := labels.Parse(r.query.Get("labelSelector"))
	if err1 != nil || err2 != nil {
		return false
	}
	return o.GetKind() == resources[r.resource].Kind &&
		(r.namespace == "" || o.GetNamespace() == r.namespace) &&
		byName.Matches(fields.Set{"metadata.name": o.GetName()}) &&
		byLabel.Matches(labels.Set(o.GetLabels()))
}

func (r request) shape(o *unstructured.Unstructured) any {
	if !r.metadataOnly() {
		return o.Object
	}
	return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": o.Object["metadata"]}
}

func (s *fakeServer) watch(w http.ResponseWriter, r *http.Request, ask request) {
	s.mu.Lock()
	cursor, _ := strconv.Atoi(ask.query.Get("resourceVersion"))
	gone := cursor < s.oldest
	if gone && s.goneByStatus {
		s.mu.Unlock()
		refusal := apierrors.NewResourceExpired("too old resource version")
		s.answer(w, int(refusal.ErrStatus.Code), refusal.ErrStatus)
		return
	}
	stream := &openStream{ask, make(chan struct{}, 1), make(chan struct{})}
	s.streams[stream] = true
	s.mu.Unlock()
	defer s.change(func() { delete(s.streams, stream) })

	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	if gone {
		out.Encode(map[string]any{"type": "ERROR", "object": apierrors.NewResourceExpired("too old resource version").ErrStatus})
		return
	}
	s.follow(w, r, stream, cursor)
}

func (s *fakeServer) bookmark(ask request, version int) map[string]any {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(resources[ask.resource])
	u.SetResourceVersion(strconv.Itoa(version))
	return map[string]any{"type": "BOOKMARK", "object": ask.shape(u)}
}

// follow sends what happens until the stream ends.
func (s *fakeServer) follow(w http.ResponseWriter, r *http.Request, stream *openStream, cursor int) {
	out := json.NewEncoder(w)
	for {
		s.mu.Lock()
		news := s.history[min(cursor, len(s.history)):]
		if s.lagging {
			news = nil
		}
		cursor += len(news)
		s.mu.Unlock()
		for _, h := range news {
			if stream.selects(h.object) {
				out.Encode(map[string]any{"type": h.kind, "object": stream.shape(h.object)})
			}
		}
		w.(http.Flusher).Flush()
		select {
		case <-stream.wake:
		case <-stream.ended:
			out.Encode(s.bookmark(stream.request, cursor))
			return
		case <-r.Context().Done():
			return
		}
	}
}

// discover answers in the aggregated form; the group "" belongs to /api.
func (s *fakeServer) discover(w http.ResponseWriter, ask request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := apidiscoveryv2.APIGroupDiscoveryList{}
	for gv, names := range s.groups {
		if (ask.path == "/api") != (gv.Group == "") {
			continue
		}
		list.Items = append(list.Items, s.group(gv, names))
	}
	w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	json.NewEncoder(w).Encode(list)
}

func (s *fakeServer) group(gv schema.GroupVersion, names []string) apidiscoveryv2.APIGroupDiscovery {
	version := apidiscoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	if s.stale[gv] {
		version.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
		names = nil
	}
	for _, name := range names {
		kind := &metav1.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: "Kind"}
		parent, sub, ok := strings.Cut(name, "/")
		verbs := []string{"create", "get"}
		if name == "configmaps" { // params of policies
			kind.Kind, verbs = resources[name].Kind, append(verbs, "list")
		}
		if !ok {
			version.Resources = append(version.Resources, apidiscoveryv2.APIResourceDiscovery{
				Resource: parent, ResponseKind: kind, Scope: apidiscoveryv2.ScopeNamespace, Verbs: verbs,
			})
			continue
		}
		last := &version.Resources[len(version.Resources)-1]
		last.Subresources = append(last.Subresources, apidiscoveryv2.APISubresourceDiscovery{
			Subresource: sub, ResponseKind: kind, Verbs: []string{"create"},
		})
	}
	return apidiscoveryv2.APIGroupDiscovery{
		ObjectMeta: metav1.ObjectMeta{Name: gv.Group},
		Versions:   []apidiscoveryv2.APIVersionDiscovery{version},
	}
}
