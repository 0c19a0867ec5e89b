package classify

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// TestKindsAreServed: each kind of a class is that of a resource, and each name is one.
func TestKindsAreServed(t *testing.T) {
	served := inventory.Builtins(inventory.Newest, true)
	for class, kinds := range classKinds {
		for kind := range strings.FieldsSeq(kinds) {
			if !slices.ContainsFunc(served, func(s inventory.Served) bool { return s.Kind == kind }) {
				t.Errorf("%s: no resource is of kind %s", class, kind)
			}
		}
	}
	for namespace, names := range controlPlaneParts {
		for _, r := range inventory.ResourcesNamed(names) {
			if !slices.ContainsFunc(served, func(s inventory.Served) bool { return s.Resource == r }) {
				t.Errorf("in %q: no resource is named %s", namespace, r)
			}
		}
	}
}

// TestReviewsAreVirtual: every kind that ends in Review is, and no purpose is
// missing for one.
func TestReviewsAreVirtual(t *testing.T) {
	for _, s := range inventory.Builtins(inventory.Newest, true) {
		if strings.HasSuffix(s.Kind, "Review") && !slices.Contains(defaultClasses()[ClassVirtual], s.Resource) {
			t.Errorf("%s is not virtual", s.Resource)
		}
	}
}

// TestMembersAreMatched: a rule that names a member matches it as one of its
// class, unless the API server calls no webhook for it.
func TestMembersAreMatched(t *testing.T) {
	for class, members := range defaultClasses() {
		for _, r := range members {
			s := files(t, registering(fmt.Sprintf(`{operations: ["*"], apiGroups: [%q], apiVersions: ["*"], resources: [%q]}`, r.Group, r.Path()))+openshiftCRD)
			matched := slices.Contains(evaluate(t, DefaultPolicy(), s).Profiles[0].ByClass[class], r)
			if never := slices.Contains(admission.NeverSent(s, inventory.Ref{Type: inventory.Validating}), r.Parent()); matched == never {
				t.Errorf("%s: %s: matched: %t, want %t", class, r, matched, !never)
			}
		}
	}
}

// openshiftCRD shows that the input is of OpenShift.
const openshiftCRD = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterversions.config.openshift.io}
spec: {group: config.openshift.io, scope: Cluster, names: {plural: clusterversions, kind: ClusterVersion}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}
`

// notCore are the groups that are registered but are no resources of a stock
// cluster, each with its reason.
var notCore = map[string]string{
	"example.openshift.io":                      "an example for developers of the API, never installed",
	"kubecontrolplane.config.openshift.io":      "kinds of a configuration file, never served",
	"openshiftcontrolplane.config.openshift.io": "kinds of a configuration file, never served",
	"osin.config.openshift.io":                  "kinds of a configuration file, never served",
	"servicecertsigner.config.openshift.io":     "kinds of a configuration file, never served",
	"sharedresource.openshift.io":               "the Shared Resource CSI driver, an optional add-on",
	"testextension.redhat.io":                   "of OpenShift's own tests",
	"unidling.openshift.io":                     "fields of annotations, never served",
}

// TestCoreIsComplete: every group that a real API server serves, that OpenShift's
// API registers, that its documentation lists or that the stock webhooks are
// called for is core or an exception; and nothing else is either.
func TestCoreIsComplete(t *testing.T) {
	want := map[string]bool{}
	for _, s := range inventory.Builtins(inventory.Newest, false) {
		want[s.Group] = true
	}
	for _, group := range openshiftGroups(t) {
		want[group] = true
	}
	for line := range strings.Lines(source(t, "testdata/stock/groups.txt")) {
		if group, _, listed := strings.Cut(line, " "); listed && group != "#" {
			want[group] = true
		}
	}
	stock := fixture(t, stockFile)
	for _, crd := range stock.CRDs {
		want[crd.Resource.Group] = true
	}
	for _, w := range stock.Webhooks {
		for _, rule := range w.Rules {
			for _, group := range rule.APIGroups {
				if group != "*" {
					want[group] = true
				}
			}
		}
	}
	have := map[string]bool{}
	for _, group := range coreGroups() {
		have[group] = true
	}
	for group := range notCore {
		if have[group] {
			t.Errorf("group %q is both core and an exception", group)
		}
		have[group] = true
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("groups that exist (-) and groups that are core or an exception (+):\n%s", diff)
	}
}

// openshiftGroups reads the groups out of the source of github.com/openshift/api:
// all constants named GroupName or groupName. Its packages cannot all be
// imported, some need API versions that Kubernetes has removed.
func openshiftGroups(t *testing.T) []string {
	t.Helper()
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/openshift/api")
	list.Dir = filepath.Join("..", "..", "e2e") // whose module requires it
	dir, err := list.Output()
	if err != nil {
		t.Fatalf("finding github.com/openshift/api: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*", "*", "*register.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("finding the sources of github.com/openshift/api: %d files, %v", len(files), err)
	}
	name := regexp.MustCompile(`(?im)^\s*(?:var |const )?groupname +(?:string )?= "([^"]*)"`)
	var out []string
	for _, file := range files {
		for _, m := range name.FindAllStringSubmatch(source(t, file), -1) {
			out = append(out, m[1])
		}
	}
	return out
}

// TestVirtualDecisions: every resource of the class says what it decides, and
// nothing else does.
func TestVirtualDecisions(t *testing.T) {
	var want, got []inventory.Resource
	want = slices.Clone(defaultClasses()[ClassVirtual])
	for _, d := range virtualDecisions {
		got = append(got, d.resource)
	}
	slices.SortFunc(want, inventory.Resource.Compare)
	slices.SortFunc(got, inventory.Resource.Compare)
	expect.Equal(t, want, got) // the class, and what is decided
}

// TestVirtualMessages: only what the scheduler writes stops it in the message, and
// only what the Policy adds has no such sentence.
func TestVirtualMessages(t *testing.T) {
	bindings := decidedBy([]inventory.Resource{legacyBindings}, true)
	if strings.Contains(bindings, "no new Pod") || !strings.Contains(bindings, "kube-scheduler does not use") {
		t.Errorf("bindings: %s", bindings)
	}
	both := []inventory.Resource{legacyBindings, placement}
	if got := decidedBy(both, true); !strings.HasPrefix(got, "pods/binding: ") || !strings.Contains(got, "no new Pod") {
		t.Errorf("pods/binding, refused: %s", got)
	}
	if got := decidedBy(both, false); strings.Contains(got, "no new Pod") {
		t.Errorf("pods/binding, delayed: %s", got)
	}
	expect.Equal(t, "pods/eviction", decidedBy([]inventory.Resource{{Name: "pods", Subresource: "eviction"}}, true)) // of the Policy
	if got := decidedBy(defaultClasses()[ClassVirtual], true); strings.Count(got, ";") != maxListed || !strings.HasSuffix(got, "and 13 more") {
		t.Errorf("all: %s", got)
	}
}

// TestRequestsTo: excluding pods/binding must not exclude
// Pods; a resource that is excluded takes its subresources along.
func TestRequestsTo(t *testing.T) {
	pods, binding := inventory.Resource{Name: "pods"}, inventory.Resource{Name: "pods", Subresource: "binding"}
	for _, test := range []struct {
		exclude, left, gone []inventory.Resource
	}{
		{[]inventory.Resource{binding}, []inventory.Resource{pods, {Name: "pods", Subresource: "status"}, {Name: "services"}}, []inventory.Resource{binding}},
		{[]inventory.Resource{pods, binding}, []inventory.Resource{{Name: "services"}}, []inventory.Resource{pods, binding, {Name: "pods", Subresource: "status"}}},
		{[]inventory.Resource{legacyBindings, binding}, []inventory.Resource{pods}, []inventory.Resource{legacyBindings, binding}},
	} {
		s := files(t, registering(`{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: ["*/*"]}`)+
			"  matchConditions: [{name: exclude, expression: '!("+requestsTo(test.exclude)+")'}]\n")
		matched := resourceNames(admission.New(s).MatchedResources(s.Webhooks[0]))
		for _, r := range test.left {
			if !slices.Contains(matched, r) {
				t.Errorf("%s excludes %s", requestsTo(test.exclude), r)
			}
		}
		for _, r := range test.gone {
			if slices.Contains(matched, r) {
				t.Errorf("%s does not exclude %s", requestsTo(test.exclude), r)
			}
		}
	}
}

// registering is a configuration whose only webhook has the rule; more fields of
// the webhook may follow.
func registering(rule string) string {
	return `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: one}
webhooks:
- name: one.example.com
  clientConfig: {url: "https://hooks.example.com/"}
  rules: [` + rule + `]
  sideEffects: None
  admissionReviewVersions: [v1]
`
}
