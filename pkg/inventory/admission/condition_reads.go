package admission

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// reads are the parts of a request that an expression reads. Requests that are alike in
// these share its outcome: most expressions read who makes a request, or its resource,
// and no object.
type reads struct {
	user, name, namespace, operation, resource, kind bool
	// all says that it reads an object, or the request as a whole.
	all bool
}

// readsOf returns what the expression may read.
func readsOf(checked *cel.Ast) reads {
	var out reads
	whole := 0
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			switch e.AsIdent() {
			case plugincel.RequestVarName:
				whole++
			case plugincel.ObjectVarName, plugincel.OldObjectVarName:
				out.all = true
			case plugincel.AuthorizerVarName:
				out.user = true
			}
		case ast.SelectKind:
			if operand := e.AsSelect().Operand(); operand.Kind() == ast.IdentKind && operand.AsIdent() == plugincel.RequestVarName {
				whole--
				out.field(e.AsSelect().FieldName())
			}
		}
	}))
	out.all = out.all || whole > 0
	return out
}

// field adds a field of the variable request.
func (r *reads) field(name string) {
	switch name {
	case "userInfo":
		r.user = true
	case "name":
		r.name = true
	case "namespace":
		r.namespace = true
	case "operation":
		r.operation = true
	case "resource", "requestResource", "subResource", "requestSubResource":
		r.resource = true
	case "kind", "requestKind":
		r.kind = true
	case "dryRun", "options": // never known
	default:
		r.all = true
	}
}

// readKey is what an expression reads of a request at a stage; all else is empty.
type readKey struct {
	user             *User
	name, namespace  string
	namespaceUnknown bool
	operation        Operation
	resource         inventory.Resource
	version          string
	kind, sent       Kind
	params           paramsKnown
}

// of returns what is read of the request. The cost that an expression may have depends
// on whether its namespace is known.
func (d reads) of(r Request, at stage) readKey {
	out := readKey{namespaceUnknown: r.namespaceUnknown, params: at.params}
	if d.user {
		out.user = r.user
	}
	if d.name {
		out.name = r.Name
	}
	if d.namespace {
		out.namespace = r.Namespace
	}
	if d.operation {
		out.operation = r.Operation
	}
	if d.resource {
		out.resource, out.version = r.Resource, r.Version
	}
	if d.kind {
		out.kind, out.sent = r.Kind, at.Kind
	}
	return out
}

// readsOf returns what the matchConditions may read.
func (m *Matcher) readsOf(w *inventory.Registration) reads {
	var out reads
	for _, c := range w.MatchConditions {
		d := m.index.programs.of(sourceText{c.Expression, w.Type.IsPolicy()}).reads
		out.all = out.all || d.all || d.resource || d.kind
		out.operation = out.operation || d.operation
	}
	return out
}

// alike are open requests of which matchConditions read the same.
type alike struct {
	inventory.Resource
	namespaced bool
	operation  Operation
}

// alike returns those that the request of which no more is known belongs to.
func (d reads) alike(r MatchedResource, op Operation) alike {
	if d.all {
		return alike{r.Resource, r.Namespaced, op}
	}
	out := alike{namespaced: r.Namespaced || isNamespaces(r.Resource)}
	if d.operation {
		out.operation = op
	}
	return out
}
