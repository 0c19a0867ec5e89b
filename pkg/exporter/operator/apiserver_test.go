package operator

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// The paths of what a Writer writes.
const (
	clusterOperatorPath = "/apis/config.openshift.io/v1/clusteroperators/webhook-auditor"
	webhookAuditPath    = "/apis/webhook-auditor.io/v1alpha1/webhookaudits/cluster"
	leasesPath          = "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases"
	eventsPath          = "/api/v1/namespaces/default/events"
	namespacesPath      = "/api/v1/namespaces"
)

// apiServer keeps objects by their paths, as far as a Writer needs one.
type apiServer struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string]map[string]any
	// calls counts "METHOD path", a 409 as "conflict path".
	calls map[string]int
	// refuse, if any, answers in the API server's place where its code is not 0.
	refuse func(method, path string) (code int, message string)
}

func newAPIServer(t *testing.T) *apiServer {
	a := &apiServer{objects: map[string]map[string]any{}, calls: map[string]int{}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	a.objects[namespacesPath] = map[string]any{
		"kind": "NamespaceList", "apiVersion": "v1",
		"items": []any{map[string]any{"metadata": map[string]any{"name": namespace, "uid": "1234"}}},
	}
	for _, t := range targets {
		a.objects[discoveryPath(t)] = map[string]any{"kind": "APIResourceList"}
	}
	return a
}

// discoveryPath is where the API server says what it serves of the target's API.
func discoveryPath(t target) string { return "/apis/" + t.GroupVersion().String() }

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls[r.Method+" "+r.URL.Path]++
	w.Header().Set("Content-Type", "application/json")
	if a.refuse != nil {
		if code, message := a.refuse(r.Method, r.URL.Path); code != 0 {
			answer(w, code, message)
			return
		}
	}
	var sent map[string]any
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			answer(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	path, isStatus := strings.CutSuffix(r.URL.Path, "/status")
	if r.Method == http.MethodPost {
		path += "/" + sent["metadata"].(map[string]any)["name"].(string)
	}
	kept := a.objects[path]
	switch {
	case r.Method == http.MethodPost && kept != nil:
		a.calls["conflict "+r.URL.Path]++
		answer(w, http.StatusConflict, "exists")
		return
	case kept == nil && (r.Method == http.MethodGet || isStatus):
		answer(w, http.StatusNotFound, "missing")
		return
	case r.Method == http.MethodGet:
	case isStatus:
		kept["status"] = sent["status"]
	case kept == nil:
		kept = sent
		a.objects[path] = kept
	default:
		delete(sent, "status")
		maps.Copy(kept, sent)
	}
	_ = json.NewEncoder(w).Encode(kept) // an error is a client that went away
}

func (a *apiServer) events() []any {
	out := []any{}
	for path, object := range a.objects {
		if strings.HasPrefix(path, eventsPath) {
			out = append(out, object)
		}
	}
	return out
}

func answer(w http.ResponseWriter, code int, message string) {
	reason := map[int]metav1.StatusReason{
		http.StatusConflict:  metav1.StatusReasonAlreadyExists,
		http.StatusNotFound:  metav1.StatusReasonNotFound,
		http.StatusForbidden: metav1.StatusReasonForbidden,
	}[code]
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

// count is how often the calls "METHOD path" came.
func (a *apiServer) count(calls ...string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, c := range calls {
		n += a.calls[c]
	}
	return n
}

func (a *apiServer) conditions(t *testing.T, path string) []metav1.Condition {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	text := must.Get(json.Marshal(a.objects[path]["status"]))(t)
	var status struct{ Conditions []metav1.Condition }
	must.Succeed(t, json.Unmarshal(text, &status))
	return status.Conditions
}

func (a *apiServer) owners(path string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	owners, _, _ := unstructured.NestedSlice(a.objects[path], "metadata", "ownerReferences")
	return len(owners)
}

// write has the API server keep an object with a status.
func (a *apiServer) write(path, version string, conditions ...metav1.Condition) {
	var list []any
	for _, c := range conditions {
		list = append(list, map[string]any{
			"type": c.Type, "status": string(c.Status), "reason": c.Reason, "message": c.Message,
			"lastTransitionTime": c.LastTransitionTime.UTC().Format("2006-01-02T15:04:05Z"),
		})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects[path] = map[string]any{
		"apiVersion": "v1", "kind": "Any", "metadata": map[string]any{"name": path[strings.LastIndex(path, "/")+1:]},
		"status": map[string]any{"conditions": list, "versions": versions(version)},
	}
}

// forbid refuses calls as RBAC does.
func forbid(calls ...string) func(method, path string) (int, string) {
	return func(method, path string) (int, string) {
		if slices.Contains(calls, method+" "+path) {
			return http.StatusForbidden, fmt.Sprintf("%s is forbidden", path)
		}
		return 0, ""
	}
}
