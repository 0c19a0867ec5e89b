package explain

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	mergeschema "sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// appliedPath leads to a field of a kind: the fields around it, the first of all last.
type appliedPath struct {
	around *appliedPath
	field  string
	isList bool
}

// typeName is that of the struct which the field holds, as expressions write it.
func (p *appliedPath) typeName() string {
	if p == nil {
		return "Object"
	}
	return p.around.typeName() + "." + p.field
}

func (p *appliedPath) expression(value string) string {
	if p.isList {
		value = "[" + value + "]"
	}
	value = fmt.Sprintf("%s{%s: %s}", p.around.typeName(), p.field, value)
	if p.around == nil {
		return value
	}
	return p.around.expression(value)
}

// schemaWalk visits each field in each kind of field once: that decides whether it is atomic.
type schemaWalk struct {
	schema  *mergeschema.Schema
	visited map[string]bool
	visit   func(path *appliedPath, atomic bool)
}

func (w schemaWalk) fields(t mergeschema.TypeRef, around *appliedPath) {
	a, ok := w.schema.Resolve(t)
	if !ok || a.Map == nil {
		return
	}
	for _, f := range a.Map.Fields {
		path := &appliedPath{around: around, field: f.Name}
		name := path.typeName()
		parts := strings.Split(name, ".")
		pair := strings.Join(parts[len(parts)-2:], ".")
		if w.visited[pair] || slices.Contains([]string{"status", "metadata", "namespace", "apiVersion", "kind"}, f.Name) {
			continue
		}
		w.visited[pair] = true
		held, ok := w.schema.Resolve(f.Type)
		inner, atomic := f.Type, ok && held.Map != nil && held.Map.ElementRelationship == mergeschema.Atomic
		if held.List != nil {
			inner, atomic = held.List.ElementType, held.List.ElementRelationship == mergeschema.Atomic
		}
		w.visit(path, atomic)
		if path.isList = held.List != nil; !atomic {
			w.fields(inner, path)
		}
	}
}

// TestAtomicFields: of each field of the kinds that applyConfigurations mostly write, a policy
// that sets it has a finding where the schema of the API server makes it atomic, and none else.
func TestAtomicFields(t *testing.T) {
	t.Parallel()
	converter := applyconfigurations.NewTypeConverter(scheme.Scheme)
	var files []string
	atomic := map[string]string{}
	for kind := range strings.FieldsSeq("Pod Service ServiceAccount PersistentVolumeClaim PersistentVolume Node Namespace " +
		"ResourceQuota LimitRange ConfigMap Secret Deployment.apps DaemonSet.apps StatefulSet.apps Job.batch CronJob.batch") {
		gvk := schema.ParseGroupKind(kind).WithVersion("v1")
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		object := testenv.Get(scheme.Scheme.New(gvk))(t)
		object.GetObjectKind().SetGroupVersionKind(gvk)
		typed := testenv.Get(converter.ObjectToTyped(object))(t)
		walk := schemaWalk{schema: typed.Schema(), visited: map[string]bool{}}
		walk.visit = func(path *appliedPath, isAtomic bool) {
			name := fmt.Sprintf("%s-%d.example.com", strings.ToLower(gvk.Kind), len(walk.visited))
			if atomic[name] = ""; isAtomic {
				atomic[name] = path.typeName()
			}
			files = append(files, appliedPolicy(t, name, testenv.Rule(gvk.Group, plural.Resource), path.expression("dyn(null)"))...)
		}
		walk.fields(typed.TypeRef(), nil)
	}
	file := filepath.Join(t.TempDir(), "policies.json")
	testenv.Must(t, os.WriteFile(file, []byte(strings.Join(files, "\n---\n")), 0o600))
	document, _ := testenv.Report(t, file)
	for _, f := range document.Findings {
		if f.Check != "policy-expression" || !strings.Contains(f.Message, "atomic") {
			continue
		}
		if atomic[f.Name] == "" {
			t.Errorf("%s: %s", f.Name, f.Message)
		}
		delete(atomic, f.Name)
	}
	fields := 0
	for name, path := range atomic {
		if fields++; path != "" {
			t.Errorf("%s: nothing says that %s is atomic", name, path)
		}
	}
	if fields < 200 || len(document.Errors) > 0 {
		t.Errorf("%d fields that are not atomic, %v", fields, document.Errors)
	}
}

// appliedPolicy are a mutating policy with the applyConfiguration, and its binding.
func appliedPolicy(t *testing.T, name string, rule admissionv1.RuleWithOperations, expression string) []string {
	t.Helper()
	p := policy{name: name, mutating: true, failure: admissionv1.Fail, reinvocation: admissionv1.NeverReinvocationPolicy, bindings: []policyBinding{{name: name}}}
	p.match.ResourceRules = []admissionv1.NamedRuleWithOperations{{RuleWithOperations: rule}}
	p.match.NamespaceSelector, p.match.ObjectSelector = &metav1.LabelSelector{}, &metav1.LabelSelector{}
	objects := p.objects()
	objects[0].(*admissionv1.MutatingAdmissionPolicy).Spec.Mutations[0] = admissionv1.Mutation{
		PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: expression},
	}
	var out []string
	for _, o := range objects {
		out = append(out, string(testenv.Get(json.Marshal(o))(t)))
	}
	return out
}
