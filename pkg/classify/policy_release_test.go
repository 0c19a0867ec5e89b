package classify

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/api/admissionregistration/v1alpha1"
	"k8s.io/api/admissionregistration/v1beta1"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// ofRelease are the findings about policies of the files on an API server, as text.
func ofRelease(t *testing.T, files, server string) string {
	t.Helper()
	o, _ := manifest.Read([]string{"-"}, manifest.Options{Stdin: strings.NewReader(files)})
	if server != "" {
		o.Server = must.Get(inventory.ParseVersion(server))(t)
	}
	var out strings.Builder
	for _, f := range evaluate(t, DefaultPolicy(), o.Snapshot(time.Time{})).Findings {
		fmt.Fprintln(&out, f.Check.Name, f.Severity, f.Message)
	}
	return out.String()
}

// TestPolicyVersions: which versions of policies and bindings API servers of a release
// serve.
func TestPolicyVersions(t *testing.T) {
	const validating = "apiVersion: admissionregistration.k8s.io/%s\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p.example.com}\nspec: {matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}, validations: [{expression: 'true'}]}\n"
	const binding = "apiVersion: admissionregistration.k8s.io/%s\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: b}\nspec: {policyName: p.example.com, validationActions: [Deny]}\n"
	const mutating = "apiVersion: admissionregistration.k8s.io/%s\nkind: MutatingAdmissionPolicy\nmetadata: {name: p.example.com}\nspec: {reinvocationPolicy: Never, matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}, mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[]'}}]}\n"
	for _, test := range []struct{ object, version, server, want string }{
		{validating, "v1beta1", "v1.34.0", "v1beta1 is not served from v1.34 on: write"},
		{validating, "v1beta1", "v1.33.2", "v1beta1 is off by default (--runtime-config=admissionregistration.k8s.io/v1beta1=true), and gone from v1.34 on"},
		{validating, "v1beta1", "v1.29.0", "off by default (--runtime-config=admissionregistration.k8s.io/v1beta1=true)"},
		{validating, "v1alpha1", "v1.36.0", "v1alpha1 is not served from v1.32 on"},
		{validating, "v1", "v1.29.0", "v1 is served from v1.30 on"},
		{validating + "---\n" + strings.Replace(binding, "%s", "v1beta1", 1), "v1", "v1.35.0", "when validatingadmissionpolicybinding b is applied: apiVersion: Forbidden"},
		{mutating, "v1", "v1.35.0", "v1 is served from v1.36 on"},
		{mutating, "v1beta1", "v1.36.0", "gone from v1.40 on"},
		{mutating, "v1alpha1", "v1.38.0", "v1alpha1 is not served from v1.38 on"},
		{mutating, "v1beta1", "v1.33.0", "v1beta1 is served from v1.34 on"},
		{validating, "v1", "v1.34.0", ""},
	} {
		got := ofRelease(t, fmt.Sprintf(test.object, test.version), test.server)
		if refused := strings.Contains(got, "apiVersion"); refused != (test.want != "") || !strings.Contains(strings.ReplaceAll(got, "Forbidden: ", ""), strings.ReplaceAll(test.want, "Forbidden", "")) {
			t.Errorf("%.60q in %s on %s: want %q in\n%s", test.object, test.version, test.server, test.want, got)
		}
	}
	for _, life := range []struct {
		upstream interface{ APILifecycleRemoved() (int, int) }
		kind     string
		gone     int
	}{
		{&v1alpha1.ValidatingAdmissionPolicy{}, "v1alpha1", 32},
		{&v1beta1.ValidatingAdmissionPolicyBinding{}, "v1beta1", 34},
		{&v1alpha1.MutatingAdmissionPolicyBinding{}, "v1alpha1", 38},
		{&v1beta1.MutatingAdmissionPolicy{}, "v1beta1", 40},
	} {
		if _, minor := life.upstream.APILifecycleRemoved(); minor != life.gone {
			t.Errorf("%T in %s is gone from v1.%d on, not v1.%d", life.upstream, life.kind, minor, life.gone)
		}
	}
}

// TestObjectsInLists: what of a JSON patch API servers before v1.37 panic at.
func TestObjectsInLists(t *testing.T) {
	const policy = "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingAdmissionPolicy\nmetadata: {name: p.example.com}\nspec:\n  reinvocationPolicy: Never\n  failurePolicy: Ignore\n  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}\n  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: \"add\", path: \"/spec/x\", value: %s}]'}}]\n"
	for value, panics := range map[string]bool{
		`[Object.spec.tolerations{key: "spot"}]`:                                       true,
		`{"a": Object.metadata{name: "x"}}`:                                            true,
		`["a", "b"].map(k, Object.spec.tolerations{key: k})`:                           true,
		`object.spec.containers.size() > 1 ? [Object.spec.tolerations{key: "a"}] : []`: true,
		`[[Object.spec.tolerations{key: "a"}]]`:                                        true,
		`object.spec.tolerations + [Object.spec.tolerations{key: "a"}]`:                true,
		`[{"key": "spot"}]`:                                             false,
		`Object.spec.tolerations{key: "spot"}`:                          false,
		`Object.spec{tolerations: [Object.spec.tolerations{key: "a"}]}`: false,
	} {
		for server, before := range map[string]bool{"v1.36.3": true, "v1.37.0": false, "": true} {
			got := ofRelease(t, fmt.Sprintf(policy, value), server)
			if strings.Contains(got, "policy-expression") != (panics && before) || panics && server == "" && !strings.Contains(got, "policy-expression info") {
				t.Errorf("%s on %q: %s", value, server, got)
			}
		}
	}
}
