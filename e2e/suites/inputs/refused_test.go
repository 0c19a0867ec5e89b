package inputs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// fields are those that replace fields of an object; nil takes one away.
type fields = map[string]any

var soundRule = fields{"operations": []any{"CREATE"}, "apiGroups": []any{"batch"}, "apiVersions": []any{"v1"}, "resources": []any{"jobs"}}

func replaceFields(base, changed fields) fields {
	out := maps.Clone(base)
	for key, value := range changed {
		if out[key] = value; value == nil {
			delete(out, key)
		}
	}
	return out
}

func constraints(changed fields) fields {
	return fields{"matchConstraints": fields{"resourceRules": []any{replaceFields(soundRule, changed)}}}
}

// variants are those of testdata/refused.yaml of one kind.
func variants(t *testing.T, kind string) []fields {
	t.Helper()
	text := testenv.Get(os.ReadFile("testdata/refused.yaml"))(t)
	var all fields
	testenv.Must(t, yaml.Unmarshal(text, &all))
	var out []fields
	for _, one := range all[kind].([]any) {
		out = append(out, one.(fields))
	}
	return out
}

// converted is a custom resource with the conversion.
func converted(n int, conversion fields) fields {
	version := func(name string, stored bool) fields {
		return fields{"name": name, "served": true, "storage": stored, "schema": fields{"openAPIV3Schema": fields{"type": "object"}}}
	}
	plural := fmt.Sprintf("refused%ds", n)
	return fields{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": fields{"name": plural + ".refused.example.com"},
		"spec": fields{
			"group": "refused.example.com", "scope": "Namespaced", "names": fields{"plural": plural, "kind": fmt.Sprintf("Refused%d", n)},
			"versions":   []any{version("v1", true), version("v2", false)},
			"conversion": conversion,
		},
	}
}

// mangled are the object with each of its texts in turn null, empty, and padded.
func mangled(o *unstructured.Unstructured) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	var walk func(path []any, value any)
	walk = func(path []any, value any) {
		switch v := value.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(append(slices.Clip(path), key), v[key])
			}
		case []any:
			for i := range v {
				walk(append(slices.Clip(path), i), v[i])
			}
		case string:
			for i, other := range []any{nil, "", " " + v, v + " "} {
				c := o.DeepCopy()
				c.SetName(fmt.Sprintf("%s-%d-%d", o.GetName(), len(out), i))
				set(c.Object, path, other)
				out = append(out, c)
			}
		}
	}
	walk([]any{"spec"}, o.Object["spec"])
	walk([]any{"webhooks"}, o.Object["webhooks"])
	return out
}

func set(parent any, path []any, value any) {
	switch key := path[0].(type) {
	case string:
		if len(path) == 1 {
			parent.(map[string]any)[key] = value
			return
		}
		set(parent.(map[string]any)[key], path[1:], value)
	case int:
		if len(path) == 1 {
			parent.([]any)[key] = value
			return
		}
		set(parent.([]any)[key], path[1:], value)
	}
}

// written are the objects of all changes, named by their kind and number.
func written(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	add := func(kind, prefix string, n int, content fields) {
		object := replaceFields(fields{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": fields{"name": fmt.Sprintf("refused-%s-%d", prefix, n)}}, content)
		out = append(out, &unstructured.Unstructured{Object: object})
	}
	hook := fields{"name": "one.refused.example.com", "clientConfig": fields{"url": "https://hooks.example.com/"}, "sideEffects": "None", "admissionReviewVersions": []any{"v1"}, "rules": []any{soundRule}}
	for n, changed := range variants(t, "webhooks") {
		add("ValidatingWebhookConfiguration", "v", n, fields{"webhooks": []any{replaceFields(hook, changed)}})
	}
	add("MutatingWebhookConfiguration", "m", 0, fields{"webhooks": []any{replaceFields(hook, fields{"reinvocationPolicy": "Always"})}})
	add("MutatingWebhookConfiguration", "m", 1, fields{"webhooks": []any{hook, hook}})
	for n, changed := range variants(t, "metadata") {
		add("ValidatingWebhookConfiguration", "n", n, fields{"metadata": replaceFields(fields{"name": fmt.Sprintf("refused-n-%d", n)}, changed), "webhooks": []any{hook}})
	}
	policy := replaceFields(constraints(nil), fields{"validations": []any{fields{"expression": "true"}}})
	for n, changed := range variants(t, "policies") {
		add("ValidatingAdmissionPolicy", "p", n, fields{"spec": replaceFields(policy, changed)})
	}
	mutation := replaceFields(constraints(nil), fields{"reinvocationPolicy": "Never", "mutations": []any{fields{"patchType": "ApplyConfiguration", "applyConfiguration": fields{"expression": "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}}})
	for n, changed := range variants(t, "mutations") {
		add("MutatingAdmissionPolicy", "q", n, fields{"spec": replaceFields(mutation, changed)})
	}
	webhook := fields{"conversionReviewVersions": []any{"v1"}, "clientConfig": fields{"service": fields{"namespace": "a", "name": "b"}}}
	var conversions []fields
	for _, changed := range variants(t, "conversions") {
		conversions = append(conversions, fields{"strategy": "Webhook", "webhook": replaceFields(webhook, changed)})
	}
	for n, conversion := range append(conversions, variants(t, "strategies")...) {
		out = append(out, &unstructured.Unstructured{Object: converted(n, conversion)})
	}
	for n, changed := range variants(t, "bindings") {
		add("ValidatingAdmissionPolicyBinding", "b", n, fields{"spec": replaceFields(fields{"policyName": "elsewhere.example.com", "validationActions": []any{"Deny"}}, changed)})
	}
	return out
}

// TestRefusedByAPI holds the check against what the API server takes and refuses: of a table of
// changes, and of each text null, empty or padded.
func TestRefusedByAPI(t *testing.T) {
	t.Parallel()
	objects := written(t)
	bases := map[string]int{}
	for _, o := range slices.Clone(objects) {
		if n := bases[o.GetKind()]; n < 2 && o.GetKind() != "CustomResourceDefinition" {
			bases[o.GetKind()]++
			objects = append(objects, mangled(o)...)
		}
	}
	conversion := fields{"strategy": "Webhook", "webhook": fields{"conversionReviewVersions": []any{"v1"}, "clientConfig": fields{"service": fields{"namespace": "a", "name": "b", "path": "/c"}}}}
	for i, o := range mangled(&unstructured.Unstructured{Object: fields{"spec": fields{"conversion": conversion}}}) {
		objects = append(objects, &unstructured.Unstructured{Object: converted(1000+i, o.Object["spec"].(fields)["conversion"].(fields))})
	}
	w := environment{stock.Use(t)}
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
	text := testenv.Get(list.MarshalJSON())(t)
	file := filepath.Join(t.TempDir(), "objects.json")
	testenv.Must(t, os.WriteFile(file, text, 0o600))
	document, _ := testenv.Report(t, file)
	out := map[string]string{}
	for _, e := range document.Errors { // an unknown strategy is that of no webhook
		object, message, _ := strings.Cut(e.Message, ": ")
		_, name, _ := strings.Cut(object, "/")
		out[name] = message
	}
	for _, f := range document.Findings {
		if f.Check != "refused-by-api" {
			continue
		}
		out[f.Configuration] = f.Message
		if m := applied.FindStringSubmatch(f.Message); m != nil {
			out[m[1]] = f.Message // a finding about a binding has the name of its policy
		}
	}
	return out
}

var applied = regexp.MustCompile(`when \S+ (\S+) is applied`)
