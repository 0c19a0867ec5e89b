package admission

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestSharedOutcomes: an expression says the same of each request as if that were the
// only one.
func TestSharedOutcomes(t *testing.T) {
	atoms := slices.Concat(decided, open, broken, []string{
		`true`, `request != null`, `[1, 2].exists(request, request > 1)`, `request.resource == request.requestResource`,
		`request.requestKind.kind == "Pod"`, `request.kind.group == "apps"`, `object == null || oldObject == null`,
		`object.kind == "Pod"`, `object["kind"] == "Pod"`, `object.apiVersion == "v1"`, `object.metadata.namespace == "team-a"`,
		`oldObject.metadata.labels["app"] == "a"`, `has(object.metadata.labels)`, `"kubernetes.io/metadata.name" in object.metadata.labels`,
		`object.metadata.labels.exists(l, l == "app")`, `has(object.spec)`, `has(object.status)`, `has(object.metadata.deletionTimestamp)`,
		`authorizer.group("apps").resource("deployments").check("create").allowed()`, `namespaceObject == null`,
		`request.name == "pod" && object.metadata.name == "pod"`, `[object, oldObject].exists(o, o != null && o.kind == "Pod")`,
	})
	r := rand.New(rand.NewPCG(1, 1))
	for range 40 {
		atoms = append(atoms, someExpression(r, atoms, 2))
	}
	for _, m := range worlds() {
		var requests []Request
		for _, target := range m.index.targets {
			for _, op := range target.operations.List() {
				for _, v := range m.index.servedVersions(target.Resource) {
					requests = append(requests, m.cachedRequest(v, op, Subject{}), m.cachedRequest(v, op, Subject{Name: "pod"}))
				}
			}
		}
		for range 200 {
			request, _ := someRequest(r, m)
			requests = append(requests, request)
			request.requestContext = new(*request.requestContext)
			request.user = NewUser(pick(r, "alice", "admin"), []string{pick(r, "devs", "system:masters")})
			request.cached = newConditionCache(m.index.programs)
			requests = append(requests, request)
		}
		for _, expression := range atoms {
			for _, request := range requests {
				at := request.stageOf(pick(r, inventory.Mutating, inventory.Validating), request.unresolvedKind())
				alone := request
				alone.requestContext = new(*request.requestContext)
				alone.cached = newConditionCache(m.index.programs)
				p := alone.cached.programs.of(sourceText{expression, false})
				got, want := request.cached.outcome(request, at, expression), p.run(alone, at)
				if want.doubt == p.tooLong() { // it was too long for another request, and is not evaluated again
					continue
				}
				if got.Match != want.Match || got.doubt != want.doubt || fmt.Sprint(got.failure) != fmt.Sprint(want.failure) {
					t.Fatalf("%s of %s %s %+v in %q, named %q: %v, alone %v", expression, request.Operation, request.Resource, at, request.Namespace, request.Name, got, want)
				}
			}
		}
	}
}

// TestAlikeRequests: what matchConditions let through, and where they always fail, is
// that of each request asked alone.
func TestAlikeRequests(t *testing.T) {
	atoms := slices.Concat(decided, open, broken)
	r := rand.New(rand.NewPCG(2, 2))
	all := []admissionv1.RuleWithOperations{kubetest.Rule("*", "*/*")}
	for _, m := range worlds() {
		for range 100 {
			w := someWebhook(r)
			w.Rules, w.ObjectSelector, w.NamespaceSelector = all, inventory.Selector{}, inventory.Selector{}
			w.MatchConditions = append(someConditions(r, atoms), admissionv1.MatchCondition{Name: "one", Expression: pick(r, atoms...)})
			matched, failing := matchedOf(m, w), failingOf(m, w)
			for _, covered := range m.covered(w, selectable(w)) {
				for _, op := range covered.Operations.List() {
					if possible := m.possible(w, covered.Resource, op); possible != matched[covered.Resource].Has(op) {
						t.Fatalf("%s %s: matched %v, alone %v: %s", op, covered.Resource, !possible, possible, describe(w))
					}
					if _, fails := m.alwaysFails(&w.Registration, webhookParams, covered.Resource, op); fails != failing[covered.Resource].Has(op) {
						t.Fatalf("%s %s: always fails %v, alone %v: %s", op, covered.Resource, !fails, fails, describe(w))
					}
				}
			}
		}
	}
}
