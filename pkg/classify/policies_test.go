package classify

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/api/admissionregistration/v1alpha1"
	"k8s.io/api/admissionregistration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// TestFailingExpressions: an expression that fails whatever the object holds is found
// wherever it stands, and no other. The same policies meet an API server in
// e2e/suites/explain.
func TestFailingExpressions(t *testing.T) {
	validates := func(expression string) *admissionv1.ValidatingAdmissionPolicy {
		p := kubetest.Policy("p", kubetest.Rule("", "configmaps", admissionv1.Create))
		p.Spec.Validations = []admissionv1.Validation{{Expression: expression}}
		return p
	}
	for name, test := range map[string]struct {
		expression, variable, condition string
		want                            string // "" for no finding
		severity                        Severity
	}{
		"subResource":       {`request.subResource == "x"`, "", "", `for every CREATE of configmaps that it is evaluated for: validations[0] does (no such key: subResource), which refuses the request (failurePolicy Fail)`, Warning},
		"division":          {`1/0 == 1`, "", "", "validations[0] does (division by zero)", Warning},
		"oldObject":         {`oldObject.metadata.name == "x"`, "", "", "validations[0] does (", Warning},
		"variable":          {`variables.v == "x"`, `request.subResource`, "", "validations[0] does (no such key: subResource)", Warning},
		"variable unread":   {`true`, `request.subResource`, "", "", Info},
		"variable unknown":  {`variables.v == "x"`, `object.data.x`, "", "", Info},
		"asks first":        {`!has(request.subResource)`, "", "", "", Info},
		"namespace":         {`namespaceObject.metadata.name == "x"`, "", "", "", Info},
		"authorizer":        {`authorizer.requestResource.check("create").allowed()`, "", "", "", Info},
		"may be skipped":    {`1/0 == 1`, "", `request.userInfo.username == "bob"`, "unless another matchCondition is false", Info},
		"skipped":           {`1/0 == 1`, "", `request.operation == "DELETE"`, "", Info},
		"audit annotation":  {"", `request.subResource`, "", "auditAnnotations[0] does (no such key: subResource), which refuses the request", Warning},
		"failing condition": {`true`, "", `request.subResource == "x"`, `matchCondition "c" does`, Warning},
	} {
		t.Run(name, func(t *testing.T) {
			p := validates(cmp.Or(test.expression, "true"))
			if test.variable != "" {
				p.Spec.Variables = []admissionv1.Variable{{Name: "v", Expression: test.variable}}
			}
			if test.condition != "" {
				p.Spec.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: test.condition}}
			}
			b := kubetest.Binding("p")
			b.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
			if test.expression == "" { // refuses whatever the actions are
				p.Spec.AuditAnnotations = []admissionv1.AuditAnnotation{{Key: "k", ValueExpression: "variables.v"}}
				b.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit}
			}
			o := inventory.Objects{ValidatingPolicies: []*admissionv1.ValidatingAdmissionPolicy{p}, ValidatingPolicyBindings: []*admissionv1.ValidatingAdmissionPolicyBinding{b}}
			checkFailing(t, o, test.want, test.severity)
		})
	}
	for expression, want := range map[string]string{
		`[JSONPatch{op: "add", path: "/metadata/labels/x", value: request.subResource}]`:             "mutations[0].jsonPatch does (no such key: subResource)",
		`[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("a/b"), value: "x"}]`: "",
		`has(object.data) ? [JSONPatch{op: "remove", path: "/data"}] : []`:                           "",
	} {
		p := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: validates("true").Spec.MatchConstraints,
			Mutations:        []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: expression}}},
		}}
		b := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "p"}}
		checkFailing(t, inventory.Objects{MutatingPolicies: []*admissionv1.MutatingAdmissionPolicy{p}, MutatingPolicyBindings: []*admissionv1.MutatingAdmissionPolicyBinding{b}}, want, Warning)
	}
}

func checkFailing(t *testing.T, o inventory.Objects, want string, severity Severity) {
	t.Helper()
	f := findingOf(evaluate(t, DefaultPolicy(), o.Snapshot(taken)), policyExpression)
	if !strings.Contains(f.Message, want) || (f.Message == "") != (want == "") || want != "" && f.Severity != severity {
		t.Errorf("%s %q, want %s %q", f.Severity, f.Message, severity, want)
	}
}

// TestApplyWithoutTypeClaims: what narrows a policy narrows what the check says of it. The
// same policies meet an API server in e2e/suites/explain.
func TestApplyWithoutTypeClaims(t *testing.T) {
	type policy = admissionv1.MutatingAdmissionPolicySpec
	const all = "all requests to nodes/proxy"
	condition := func(expression string) func(*policy) {
		return func(p *policy) { p.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: expression}} }
	}
	for name, test := range map[string]struct {
		narrow   func(*policy)
		bound    map[string]string
		severity Severity
		want     []string
	}{
		"nothing":    {func(*policy) {}, nil, Critical, []string{all, "node drains stop and Pods"}},
		"user":       {condition(`request.userInfo.username == "bob"`), nil, Warning, []string{"those requests to", "that its matchConditions let through"}},
		"other user": {condition(`request.userInfo.username != "bob"`), nil, Critical, []string{"those requests to", "so that Pods get no tokens"}},
		"labels":     {condition(`has(object.metadata.labels)`), nil, Warning, []string{"matchConditions let through"}},
		"namespace":  {condition(`request.namespace == "shop"`), nil, Critical, []string{"in namespace shop those to", "node drains stop in namespace shop"}},
		"objectSelector": {func(p *policy) {
			p.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
		}, nil, Info, []string{"that its objectSelectors let through"}},
		"names":        {func(p *policy) { p.MatchConstraints.ResourceRules[0].ResourceNames = []string{"other"} }, nil, Info, []string{"that its rules let through"}},
		"params":       {func(p *policy) { p.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"} }, nil, Info, []string{"that its params let through"}},
		"binding":      {func(*policy) {}, map[string]string{"team": "a"}, Critical, []string{all, "in namespace shop those to", "tokens and do not start in namespace shop"}},
		"no namespace": {func(*policy) {}, map[string]string{"team": "none"}, Warning, []string{all, "that its namespaceSelectors let through"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: policy{
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.OperationAll}, Rule: admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
				}}}},
				Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: "Object{}"}}},
			}}
			test.narrow(&p.Spec)
			b := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "p"}}
			if p.Spec.ParamKind != nil {
				b.Spec.ParamRef = &admissionv1.ParamRef{Name: "x", Namespace: "shop", ParameterNotFoundAction: new(admissionv1.AllowAction)}
			}
			if test.bound != nil {
				b.Spec.MatchResources = &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: test.bound}}
			}
			o := inventory.Objects{
				MutatingPolicies: []*admissionv1.MutatingAdmissionPolicy{p}, MutatingPolicyBindings: []*admissionv1.MutatingAdmissionPolicyBinding{b},
				Namespaces: []*metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}}, {ObjectMeta: metav1.ObjectMeta{Name: "other"}}},
			}
			o.NamespacesKnown = true
			f := findingOf(evaluate(t, DefaultPolicy(), o.Snapshot(taken)), applyWithoutType)
			expect.Equal(t, test.severity, f.Severity)
			expect.Contains(t, f.Message, test.want...)
		})
	}
}

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
