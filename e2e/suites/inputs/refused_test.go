package inputs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// fields are those that replace fields of an object; nil takes one away.
type fields = map[string]any

var soundRule = fields{"operations": []any{"CREATE"}, "apiGroups": []any{"batch"}, "apiVersions": []any{"v1"}, "resources": []any{"jobs"}}

func with(base, changed fields) fields {
	out := maps.Clone(base)
	for key, value := range changed {
		if out[key] = value; value == nil {
			delete(out, key)
		}
	}
	return out
}

func rules(changed fields) fields { return fields{"rules": []any{with(soundRule, changed)}} }

func constraints(changed fields) fields {
	return fields{"matchConstraints": fields{"resourceRules": []any{with(soundRule, changed)}}}
}

func conditions(all ...any) fields { return fields{"matchConditions": all} }

func client(c fields) fields { return fields{"clientConfig": c} }

// webhooks are changes of a webhook.
var webhooks = []fields{
	{},
	{"name": "two.segments"},
	{"name": "a.b.c"},
	{"name": "Upper.example.com"},
	{"name": ""},
	{"timeoutSeconds": int64(31)},
	{"timeoutSeconds": int64(0)},
	{"timeoutSeconds": int64(30)},
	{"timeoutSeconds": int64(1)},
	{"timeoutSeconds": int64(-1)},
	{"timeoutSecond": int64(1)},
	{"sideEffects": nil},
	{"sideEffects": "Unknown"},
	{"sideEffects": "Some"},
	{"sideEffects": "NoneOnDryRun"},
	{"sideEffects": "none"},
	{"admissionReviewVersions": nil},
	{"admissionReviewVersions": []any{}},
	{"admissionReviewVersions": []any{"v2"}},
	{"admissionReviewVersions": []any{"v2", "v1beta1"}},
	{"admissionReviewVersions": []any{"v1", "v1"}},
	{"failurePolicy": "fail"},
	{"failurePolicy": "Ignore"},
	{"matchPolicy": "exact"},
	{"matchPolicy": "Exact"},
	{"resoures": []any{}},
	{"rules": []any{}},
	rules(fields{"operations": []any{"create"}}), rules(fields{"operations": []any{"*", "CREATE"}}), rules(fields{"operations": []any{}}), rules(fields{"operations": []any{"PATCH"}}), rules(fields{"operations": []any{"*"}}),
	rules(fields{"apiGroups": []any{"*", "batch"}}), rules(fields{"apiGroups": nil}), rules(fields{"apiVersions": []any{"v1", "*"}}), rules(fields{"apiVersions": []any{""}}),
	rules(fields{"resources": []any{"*", "jobs"}}), rules(fields{"resources": []any{"*", "jobs/status"}}), rules(fields{"resources": []any{"*/*", "jobs"}}), rules(fields{"resources": []any{"jobs/*", "jobs/status"}}),
	rules(fields{"resources": []any{"jobs/status", "jobs/*"}}), rules(fields{"resources": []any{"*/scale", "jobs/scale"}}), rules(fields{"resources": nil}), rules(fields{"resources": []any{""}}),
	rules(fields{"scope": "namespaced"}), rules(fields{"scope": "Namespaced"}), rules(fields{"resoures": []any{"jobs"}}),
	client(fields{}), client(fields{"url": "https://a.example.com", "service": fields{"namespace": "a", "name": "b"}}), client(fields{"url": "http://a.example.com"}), client(fields{"url": "https://a.example.com?x=y"}), client(fields{"url": "https:///path"}),
	client(fields{"service": fields{"namespace": "a", "name": ""}}), client(fields{"service": fields{"namespace": "a", "name": "b", "port": int64(70000)}}), client(fields{"service": fields{"namespace": "a", "name": "b", "path": "path"}}),
	client(fields{"service": fields{"namespace": "a", "name": "b", "path": "/a//b"}}), client(fields{"service": fields{"namespace": "a", "name": "b", "path": "/Upper"}}), client(fields{"service": fields{"namespace": "a", "name": "b", "path": "/a/b/"}}),
	client(fields{"url": "https://a.example.com", "caBundle": "Cg=="}), client(fields{"url": "https://user:word@a.example.com/"}), client(fields{"url": "https://a.example.com/#part"}), client(fields{"service": fields{"namespace": "a", "name": "b", "port": int64(0)}}),
	conditions(fields{"name": "a", "expression": "true"}), conditions(fields{"name": "a", "expression": "object.metadata.name =="}), conditions(fields{"name": "a", "expression": "1"}), conditions(fields{"name": "a", "expression": "object.x"}),
	conditions(fields{"name": "a", "expression": "true"}, fields{"name": "a", "expression": "true"}), conditions(fields{"name": "a b", "expression": "true"}), conditions(fields{"expression": "true"}), conditions(fields{"name": "a", "expression": "params != null"}),
	conditions(fields{"name": "a", "expression": "request.userInfo.nam == 'a'"}), conditions(fields{"name": "a", "expression": "authorizer.path('/').check('get').allowed()"}),
	{"namespaceSelector": fields{"matchExpressions": []any{fields{"key": "a", "operator": "in", "values": []any{"b"}}}}},
	{"namespaceSelector": fields{"matchExpressions": []any{fields{"key": "a", "operator": "In"}}}},
	{"objectSelector": fields{"matchLabels": fields{"a": "b c"}}},
	{"objectSelector": fields{"matchLabels": fields{"a/b/c": "d"}}},
}

// policies are changes of the spec of a validating policy, and mutations those of a mutating one.
var (
	policies = []fields{
		{},
		{"validations": nil},
		{"validations": []any{fields{"expression": "!exists(object.spec.containers, c, c.name == 'a')"}}},
		{"validations": []any{fields{"expression": "object.spec.x"}}},
		{"validations": []any{fields{"expression": "variables.a"}}},
		{"variables": []any{fields{"name": "a", "expression": "true"}}, "validations": []any{fields{"expression": "variables.a"}}},
		{"variables": []any{fields{"name": "a", "expression": "1"}}, "validations": []any{fields{"expression": "variables.a"}}},
		{"variables": []any{fields{"name": "a-b", "expression": "1"}}},
		{"validations": []any{fields{"expression": "true", "messageExpression": "1"}}},
		{"validations": []any{fields{"expression": "true", "messageExpression": "'a'"}}},
		{"validations": []any{fields{"expression": "true", "message": "a\nb"}}},
		{"validations": []any{fields{"expression": "true", "reason": "Nope"}}},
		{"validations": []any{fields{"expression": "params.a == 1"}}},
		{"paramKind": fields{"apiVersion": "v1", "kind": "ConfigMap"}, "validations": []any{fields{"expression": "params.a == 1"}}},
		{"paramKind": fields{"apiVersion": "v1"}},
		{"paramKind": fields{"apiVersion": "a/b/c", "kind": "X"}},
		{"failurePolicy": "fail"},
		{"matchConstraints": nil},
		{"matchConstraints": fields{}},
		constraints(fields{"operations": []any{"delete"}}), constraints(fields{"resourceNames": []any{"a", "a"}}), constraints(fields{"resources": []any{"*", "jobs"}}),
		{"auditAnnotations": []any{fields{"key": "a", "valueExpression": "'a'"}}},
		{"auditAnnotations": []any{fields{"key": "a", "valueExpression": "1"}}},
		{"auditAnnotations": []any{fields{"key": "a b", "valueExpression": "'a'"}}},
		conditions(fields{"name": "a", "expression": "object.x"}),
		{"validation": []any{}},
	}
	mutations = []fields{
		{},
		{"mutations": nil},
		constraints(fields{"operations": []any{"CONNECT"}}), constraints(fields{"operations": []any{"DELETE"}}), constraints(fields{"operations": []any{"*"}}),
		{"reinvocationPolicy": nil},
		{"reinvocationPolicy": "Always"},
		{"mutations": []any{fields{"patchType": "JSONPatch"}}},
		{"mutations": []any{fields{"patchType": "Merge"}}},
		{"mutations": []any{fields{"patchType": "JSONPatch", "jsonPatch": fields{"expression": "[]"}}}},
		{"mutations": []any{fields{"patchType": "JSONPatch", "jsonPatch": fields{"expression": `[JSONPatch{op: "add", path: "/a", value: "b"}]`}}}},
		{"mutations": []any{fields{"patchType": "ApplyConfiguration", "applyConfiguration": fields{"expression": "Object{spec: 1}"}}}},
		{"mutations": []any{fields{"patchType": "ApplyConfiguration", "applyConfiguration": fields{"expression": "1"}}}},
	}
)

// conversions are changes of the webhook that converts a custom resource.
var conversions = []fields{
	{},
	{"conversionReviewVersions": nil},
	{"conversionReviewVersions": []any{}},
	{"conversionReviewVersions": []any{"v2"}},
	{"conversionReviewVersions": []any{"v2", "v1"}},
	{"conversionReviewVersions": []any{"v1", "v1"}},
	{"conversionReviewVersions": []any{"1"}},
	{"clientConfig": nil},
	client(fields{}), client(fields{"url": "https://a.example.com", "service": fields{"namespace": "a", "name": "b"}}), client(fields{"url": "http://a.example.com"}), client(fields{"url": "https://a.example.com/convert"}),
	client(fields{"service": fields{"namespace": "a", "name": "b", "path": "convert"}}), client(fields{"service": fields{"namespace": "a", "name": "b", "port": int64(0)}}), client(fields{"service": fields{"namespace": "", "name": "b"}}), client(fields{"service": fields{"namespace": "a", "name": "b", "path": "/convert"}}),
}

// converted is the custom resource that the webhook converts.
func converted(n int, webhook fields) fields {
	version := func(name string, stored bool) fields {
		return fields{"name": name, "served": true, "storage": stored, "schema": fields{"openAPIV3Schema": fields{"type": "object"}}}
	}
	plural := fmt.Sprintf("refused%ds", n)
	return fields{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": fields{"name": plural + ".refused.example.com"},
		"spec": fields{
			"group": "refused.example.com", "scope": "Namespaced", "names": fields{"plural": plural, "kind": fmt.Sprintf("Refused%d", n)},
			"versions":   []any{version("v1", true), version("v2", false)},
			"conversion": fields{"strategy": "Webhook", "webhook": webhook},
		},
	}
}

// written are the objects of all changes, named by their kind and number.
func written() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	add := func(kind, prefix string, n int, content fields) {
		object := with(fields{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": fields{"name": fmt.Sprintf("refused-%s-%d", prefix, n)}}, content)
		out = append(out, &unstructured.Unstructured{Object: object})
	}
	hook := fields{"name": "one.refused.example.com", "clientConfig": fields{"url": "https://hooks.example.com/"}, "sideEffects": "None", "admissionReviewVersions": []any{"v1"}, "rules": []any{soundRule}}
	for n, changed := range webhooks {
		add("ValidatingWebhookConfiguration", "v", n, fields{"webhooks": []any{with(hook, changed)}})
	}
	add("MutatingWebhookConfiguration", "m", 0, fields{"webhooks": []any{with(hook, fields{"reinvocationPolicy": "Always"})}})
	add("MutatingWebhookConfiguration", "m", 1, fields{"webhooks": []any{hook, hook}})
	policy := with(constraints(nil), fields{"validations": []any{fields{"expression": "true"}}})
	for n, changed := range policies {
		add("ValidatingAdmissionPolicy", "p", n, fields{"spec": with(policy, changed)})
	}
	mutation := with(constraints(nil), fields{"reinvocationPolicy": "Never", "mutations": []any{fields{"patchType": "ApplyConfiguration", "applyConfiguration": fields{"expression": "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}}})
	for n, changed := range mutations {
		add("MutatingAdmissionPolicy", "q", n, fields{"spec": with(mutation, changed)})
	}
	conversion := fields{"conversionReviewVersions": []any{"v1"}, "clientConfig": fields{"service": fields{"namespace": "a", "name": "b"}}}
	for n, changed := range conversions {
		out = append(out, &unstructured.Unstructured{Object: converted(n, with(conversion, changed))})
	}
	return out
}

// TestRefusedByAPI holds the check against what the API server takes and refuses.
func TestRefusedByAPI(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	objects := written()
	found := refusals(t, objects)
	refused := 0
	for _, o := range objects {
		resource := o.GroupVersionKind().GroupVersion().WithResource(strings.Replace(strings.ToLower(o.GetKind())+"s", "policys", "policies", 1))
		_, err := w.Dynamic.Resource(resource).Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
		if message := found[o.GetName()]; (err != nil) != (message != "") {
			t.Errorf("%v\nAPI server: %v\naudit: %s", o.Object, err, message)
		}
		if err != nil {
			refused++
		}
	}
	if refused < 60 || len(objects)-refused < 20 {
		t.Errorf("%d of %d objects are refused: want more of both", refused, len(objects))
	}
}

// refusals are the findings of refused-by-api in a file with the objects, by their names.
func refusals(t *testing.T, objects []*unstructured.Unstructured) map[string]string {
	t.Helper()
	list := unstructured.UnstructuredList{Object: fields{"apiVersion": "v1", "kind": "List"}}
	for _, o := range objects {
		list.Items = append(list.Items, *o)
	}
	text, err := list.MarshalJSON()
	testenv.Must(t, err)
	file := filepath.Join(t.TempDir(), "objects.json")
	testenv.Must(t, os.WriteFile(file, text, 0o600))
	document, _ := testenv.Report(t, file)
	out := map[string]string{}
	for _, f := range document.Findings {
		if f.Check == "refused-by-api" {
			out[f.Configuration] = f.Message
		}
	}
	return out
}
