package admission

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// apiLife are the minor releases in which API servers serve a version: from Since on, and
// not from Gone on; 0 is never.
type apiLife struct{ since, gone int }

// policyLives are those of admission policies and their bindings. A test compares them with
// k8s.io/api admissionregistration, zz_generated.prerelease-lifecycle.go.
var policyLives = map[inventory.Type]map[string]apiLife{
	inventory.ValidatingPolicy: {"v1alpha1": {26, 32}, "v1beta1": {28, 34}, "v1": {30, 0}},
	inventory.MutatingPolicy:   {"v1alpha1": {32, 38}, "v1beta1": {34, 40}, "v1": {36, 0}},
}

// served refuses the apiVersion of a policy or binding of the type which API servers of the
// release do not serve. Versions before v1 are off by default.
func (v *validator) served(t inventory.Type, apiVersion string, server inventory.Version) {
	gv, _ := schema.ParseGroupVersion(apiVersion)
	version := gv.Version
	life, ok := policyLives[t][version]
	fault := ""
	switch write := "write " + admissionv1.SchemeGroupVersion.String(); {
	case !server.Known() || !ok || server.Major != 1:
	case server.Minor < life.since:
		fault = fmt.Sprintf("served from v1.%d on", life.since)
	case life.gone > 0 && server.Minor >= life.gone:
		fault = fmt.Sprintf("not served from v1.%d on: %s", life.gone, write)
	case version != "v1" && server.Minor >= policyLives[t]["v1"].since:
		fault = fmt.Sprintf("off by default (--runtime-config=%s=true), and gone from v1.%d on: %s", apiVersion, life.gone, write)
	case version != "v1":
		fault = fmt.Sprintf("off by default (--runtime-config=%s=true)", apiVersion)
	}
	if fault != "" {
		v.errors = append(v.errors, field.Forbidden(field.NewPath("apiVersion"), apiVersion+" is "+fault))
	}
}

// PanicsBefore is the minor release before which API servers panic at an Object in a list
// or map that a JSON patch sets, whatever the failurePolicy. Patch releases of v1.35 and
// v1.36 from August 2026 on have it as well. Source: kubernetes/kubernetes#142181, #139032.
const PanicsBefore = 37

// ObjectsInLists are the indices of the policy's mutations that set a list or map with an
// Object in it by a JSON patch.
func ObjectsInLists(p *inventory.AdmissionPolicy) []int {
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.EnableMacroCallTracking())
	if err != nil { // unreachable: its options are constants
		return nil
	}
	parse := func(text string) ast.Expr {
		if parsed, issues := env.Parse(text); issues.Err() == nil {
			return parsed.NativeRep().Expr()
		}
		return ast.NewExprFactory().NewUnspecifiedExpr(0) // one that does not parse is refused
	}
	w := patchWalk{variables: map[string]ast.Expr{}}
	if p.Object.Applied != nil {
		if o, ok := p.Object.Applied.Object.(*admissionv1.MutatingAdmissionPolicy); ok {
			for _, v := range o.Spec.Variables {
				w.variables[v.Name] = parse(v.Expression)
			}
		}
	}
	var out []int
	for i, m := range p.Mutations {
		if m.JSONPatch == nil {
			continue
		}
		w.found = false
		w.patches(parse(m.JSONPatch.Expression), 0)
		if w.found {
			out = append(out, i)
		}
	}
	return out
}

// patchWalk walks through the expression of a JSON patch.
type patchWalk struct {
	variables map[string]ast.Expr
	found     bool
}

// maxWalk bounds how deep expressions are followed, through variables as well.
const maxWalk = 200

// patches looks for JSONPatch{value: …}.
func (w *patchWalk) patches(e ast.Expr, depth int) {
	if depth > maxWalk {
		return
	}
	if e.Kind() == ast.StructKind && e.AsStruct().TypeName() == "JSONPatch" {
		for _, f := range e.AsStruct().Fields() {
			if f.AsStructField().Name() == "value" {
				w.value(f.AsStructField().Value(), depth+1, false)
			}
		}
	}
	for _, part := range w.parts(e) {
		w.patches(part, depth+1)
	}
}

// value looks for an Object within a list or map.
func (w *patchWalk) value(e ast.Expr, depth int, isInside bool) {
	switch {
	case depth > maxWalk:
		return
	case e.Kind() == ast.StructKind: // what is in an Object is converted otherwise
		w.found = w.found || isInside
		return
	}
	isInside = isInside || e.Kind() == ast.ListKind || e.Kind() == ast.MapKind
	for _, part := range w.parts(e) {
		w.value(part, depth+1, isInside)
	}
}

// parts are the expressions of which one consists.
func (w *patchWalk) parts(e ast.Expr) []ast.Expr {
	var out []ast.Expr
	switch e.Kind() {
	case ast.ListKind:
		return e.AsList().Elements()
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			out = append(out, entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			out = append(out, f.AsStructField().Value())
		}
	case ast.CallKind:
		if e.AsCall().IsMemberFunction() {
			out = append(out, e.AsCall().Target())
		}
		out = append(out, e.AsCall().Args()...)
	case ast.ComprehensionKind:
		return []ast.Expr{e.AsComprehension().LoopStep(), e.AsComprehension().Result()}
	case ast.SelectKind:
		s := e.AsSelect()
		if v, ok := w.variables[s.FieldName()]; ok && s.Operand().Kind() == ast.IdentKind && s.Operand().AsIdent() == "variables" {
			return []ast.Expr{v}
		}
	}
	return out
}
