package admission

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// widgets serves two versions, declares a third, and has both subresources.
func widgets() *apiextensionsv1.CustomResourceDefinition {
	subresources := &apiextensionsv1.CustomResourceSubresources{
		Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
		Scale:  &apiextensionsv1.CustomResourceSubresourceScale{},
	}
	crd := kubetest.CRD("example.com", "widgets", "v1alpha1", "v1beta1", "v1")
	crd.Spec.Versions[0].Served = false
	crd.Spec.Versions[0].Subresources, crd.Spec.Versions[2].Subresources = subresources, subresources
	return crd
}

// oracle answers as the API server does: one request at a time, through the
// upstream matcher and registry.
type oracle struct {
	snapshot *inventory.Snapshot
	registry runtime.EquivalentResourceRegistry
}

func newOracle(s *inventory.Snapshot) oracle {
	registry := runtime.NewEquivalentResourceRegistryWithIdentity(func(gr schema.GroupResource) string {
		stored := storedAs(inventory.Resource{Group: gr.Group, Name: gr.Resource})
		return stored.Group + "/" + stored.Name
	})
	for _, served := range s.Served {
		registry.RegisterKindFor(gvr(served.Resource, served.Version), served.Subresource, gvk(served))
	}
	for _, c := range s.CRDs {
		for _, v := range c.Versions {
			for _, r := range v.Resources {
				registry.RegisterKindFor(gvr(c.Resource, v.Name), r.Subresource, schema.GroupVersionKind{Group: c.Resource.Group, Version: v.Name, Kind: c.CustomKind})
			}
		}
	}
	return oracle{s, registry}
}

func gvr(r inventory.Resource, version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: version, Resource: r.Name}
}

func gvk(s inventory.Served) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: s.Group, Version: s.Version, Kind: s.Kind}
}

func (o oracle) called(w *inventory.Webhook, served inventory.Served, op Operation) bool {
	attr := attributes(served, gvr(served.Resource, served.Version), op)
	if rules.IsExemptAdmissionConfigurationResource(attr) || o.snapshot.ReviewsExcluded && slices.Contains(excludedReviews, served.Resource) {
		return false
	}
	if matches(w.Rules, attr) {
		return true
	}
	if w.MatchPolicy == admissionv1.Exact {
		return false
	}
	return slices.ContainsFunc(o.registry.EquivalentResourcesFor(attr.GetResource(), served.Subresource), func(other schema.GroupVersionResource) bool {
		return matches(w.Rules, attributes(served, other, op))
	})
}

func attributes(served inventory.Served, resource schema.GroupVersionResource, op Operation) admission.Attributes {
	namespace := ""
	if served.Namespaced || served.Name == "namespaces" {
		namespace = "default"
	}
	return admission.NewAttributesRecord(nil, nil, gvk(served), namespace, "name", resource, served.Subresource, admission.Operation(op), nil, false, nil)
}

func matches(list []admissionv1.RuleWithOperations, attr admission.Attributes) bool {
	return slices.ContainsFunc(list, func(rule admissionv1.RuleWithOperations) bool {
		matcher := rules.Matcher{Rule: rule, Attr: attr}
		return matcher.Matches()
	})
}

// want asks the oracle for every request that the server can serve.
func (o oracle) want(w *inventory.Webhook) map[string]string {
	out := map[inventory.Resource]Operations{}
	for _, served := range o.snapshot.Served {
		ops := OperationsOn(served)
		if createdByUpdate.Has(served.Resource) && !slices.Contains(ops, Create) {
			ops = append(ops, Create)
		}
		for _, op := range ops {
			if o.called(w, served, op) {
				out[served.Resource] |= operationsOf(op)
			}
		}
	}
	return readable(out)
}

func readable(reach map[inventory.Resource]Operations) map[string]string {
	out := map[string]string{}
	for r, ops := range reach {
		out[r.String()] = fmt.Sprint(ops.List())
	}
	return out
}

func got(m *Matcher, w *inventory.Webhook) map[string]string {
	out := map[inventory.Resource]Operations{}
	for _, r := range m.MatchedResources(w) {
		out[r.Resource] = r.Operations
	}
	return readable(out)
}

// vocabulary is what generated rules are made of: names that exist, names that
// do not, and all the wildcards.
var vocabulary = struct {
	groups, versions, resources []string
	operations                  []admissionv1.OperationType
	scopes                      []admissionv1.ScopeType
}{
	groups:     []string{"*", "", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "admissionregistration.k8s.io", "autoscaling", "example.com", "extensions", "gone.example.com"},
	versions:   []string{"*", "v1", "v1beta1", "v1alpha1", "v2"},
	resources:  []string{"*", "*/*", "*/status", "*/scale", "pods", "pods/*", "pods/exec", "pods/binding", "bindings", "events", "deployments", "deployments/scale", "namespaces", "namespaces/finalize", "nodes", "nodes/proxy", "tokenreviews", "subjectaccessreviews", "localsubjectaccessreviews", "validatingwebhookconfigurations", "validatingadmissionpolicies/status", "horizontalpodautoscalers", "widgets", "widgets/status", "widgets/*", "componentstatuses"},
	operations: []admissionv1.OperationType{"*", "CREATE", "UPDATE", "DELETE", "CONNECT"},
	scopes:     []admissionv1.ScopeType{"*", "Namespaced", "Cluster"},
}

func some[T any](r *rand.Rand, list []T) []T {
	out := make([]T, 1+r.IntN(3))
	for i := range out {
		out[i] = list[r.IntN(len(list))]
	}
	return out
}

func generated(r *rand.Rand) *inventory.Webhook {
	w := &inventory.Webhook{Registration: inventory.Registration{
		Ref:            inventory.Ref{Type: inventory.Validating, Configuration: "generated", Name: "generated.example.com"},
		MatchResources: inventory.MatchResources{MatchPolicy: admissionv1.Equivalent},
	}}
	if r.IntN(3) == 0 {
		w.MatchPolicy = admissionv1.Exact
	}
	for range 1 + r.IntN(3) {
		rule := admissionv1.RuleWithOperations{Operations: some(r, vocabulary.operations)}
		rule.APIGroups, rule.APIVersions, rule.Resources = some(r, vocabulary.groups), some(r, vocabulary.versions), some(r, vocabulary.resources)
		if r.IntN(2) == 0 {
			scope := vocabulary.scopes[r.IntN(3)]
			rule.Scope = &scope
		}
		w.Rules = append(w.Rules, rule)
	}
	return w
}

// FuzzReachAgreesWithTheAPIServer holds the set question against the upstream
// matcher, asked for every request one by one.
func FuzzReachAgreesWithTheAPIServer(f *testing.F) {
	for seed := range uint64(400) {
		f.Add(seed)
	}
	var matchers []*Matcher
	for _, minor := range []int{36, 37} {
		o := inventory.Objects{Cluster: inventory.Cluster{Server: inventory.Version{Major: 1, Minor: minor}}, CRDs: []*apiextensionsv1.CustomResourceDefinition{widgets()}}
		matchers = append(matchers, New(o.Snapshot(time.Time{})))
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		w := generated(rand.New(rand.NewPCG(seed, 0)))
		for _, m := range matchers {
			if diff := cmp.Diff(newOracle(m.Snapshot).want(w), got(m, w)); diff != "" {
				t.Errorf("server %s, policy %s, rules %+v: -upstream +ours\n%s", m.Snapshot.Server, w.MatchPolicy, w.Rules, diff)
			}
		}
	})
}
