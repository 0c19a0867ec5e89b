package admission

import (
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// PatchedField is a field that a JSON patch of a mutating policy adds to a resource whose
// kind does not have it.
type PatchedField struct {
	inventory.Resource
	// Path is the path of the patch.
	Path string
}

// patchedTypes are the types of built-in resources that mutating policies are written for
// most. Those of custom resources drop what they do not have.
var patchedTypes = map[inventory.Resource]reflect.Type{
	{Name: "configmaps"}:                  reflect.TypeFor[corev1.ConfigMap](),
	{Name: "namespaces"}:                  reflect.TypeFor[corev1.Namespace](),
	{Name: "persistentvolumeclaims"}:      reflect.TypeFor[corev1.PersistentVolumeClaim](),
	{Name: "pods"}:                        reflect.TypeFor[corev1.Pod](),
	{Name: "secrets"}:                     reflect.TypeFor[corev1.Secret](),
	{Name: "serviceaccounts"}:             reflect.TypeFor[corev1.ServiceAccount](),
	{Name: "services"}:                    reflect.TypeFor[corev1.Service](),
	{Group: "apps", Name: "daemonsets"}:   reflect.TypeFor[appsv1.DaemonSet](),
	{Group: "apps", Name: "deployments"}:  reflect.TypeFor[appsv1.Deployment](),
	{Group: "apps", Name: "statefulsets"}: reflect.TypeFor[appsv1.StatefulSet](),
	{Group: "batch", Name: "cronjobs"}:    reflect.TypeFor[batchv1.CronJob](),
	{Group: "batch", Name: "jobs"}:        reflect.TypeFor[batchv1.Job](),
}

// UnknownPatchedFields are the fields that JSON patches of the policy always add and the
// kinds of its resources do not have: the API server cannot decode the result, and refuses
// the request whatever the failurePolicy. Fields below what an object need not have are
// left out: the patch itself fails there, which the failurePolicy decides. Source:
// k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/json_patch.go.
func (m *Matcher) UnknownPatchedFields(p *inventory.AdmissionPolicy) []PatchedField {
	var paths []string
	for _, mutation := range p.Mutations {
		if mutation.PatchType == admissionv1.PatchTypeJSONPatch && mutation.JSONPatch != nil {
			paths = append(paths, addedPaths(mutation.JSONPatch.Expression)...)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	var out []PatchedField
	for _, r := range m.PolicyResources(p) {
		for _, path := range paths {
			if of := patchedTypes[r.Resource]; of != nil && !hasField(of, path) {
				out = append(out, PatchedField{r.Resource, path})
			}
		}
	}
	return out
}

// addedPaths are the paths that an expression adds in any case: those that are written out
// in a list that is.
func addedPaths(expression string) []string {
	env, err := policyEnv()
	if err != nil {
		return nil
	}
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil || parsed.NativeRep().Expr().Kind() != ast.ListKind {
		return nil
	}
	var out []string
	for _, element := range parsed.NativeRep().Expr().AsList().Elements() {
		if element.Kind() != ast.StructKind {
			continue
		}
		fields := map[string]string{}
		for _, f := range element.AsStruct().Fields() {
			if value := f.AsStructField().Value(); value.Kind() == ast.LiteralKind {
				fields[f.AsStructField().Name()], _ = value.AsLiteral().Value().(string)
			}
		}
		if fields["op"] == "add" {
			out = append(out, fields["path"])
		}
	}
	return out
}

// hasField reports whether objects of the type have the field of the path, or may: only
// fields of the object and those directly below its metadata and spec, which are always
// there, are known not to be.
func hasField(of reflect.Type, path string) bool {
	steps := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for n, step := range steps[:min(len(steps), 2)] {
		fields := reflect.VisibleFields(of)
		i := slices.IndexFunc(fields, func(f reflect.StructField) bool {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return name == step
		})
		if i < 0 {
			return path == "" || n < len(steps)-1
		}
		if of = fields[i].Type; of.Kind() != reflect.Struct {
			return true
		}
	}
	return true
}
