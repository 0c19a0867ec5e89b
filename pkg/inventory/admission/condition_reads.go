package admission

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// reads are the parts of a request that an expression reads. Requests that are alike in
// these share its outcome: there are many more requests than ways in which they differ
// to an expression.
type reads struct {
	user, name, namespace, operation, resource, kind, objects bool
	// all says that it reads the request as a whole.
	all bool
}

// readsOf returns what the expression may read.
func readsOf(checked *cel.Ast) reads {
	var out reads
	whole := map[string]int{} // how often a variable is read without naming a field of it
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			whole[e.AsIdent()]++
		case ast.SelectKind:
			if operand := e.AsSelect().Operand(); operand.Kind() == ast.IdentKind {
				whole[operand.AsIdent()]--
				out.field(operand.AsIdent(), e.AsSelect().FieldName())
			}
		}
	}))
	for variable, n := range whole {
		if n > 0 {
			out.field(variable, "")
		}
	}
	return out
}

// field adds a field of a variable, "" for all fields.
func (d *reads) field(variable, name string) {
	switch variable {
	case plugincel.RequestVarName:
		d.requestField(name)
	case plugincel.ObjectVarName, plugincel.OldObjectVarName:
		d.objects, d.operation, d.name, d.namespace = true, true, true, true
		d.kind = d.kind || name == "" || name == "kind" || name == "apiVersion"
	case plugincel.AuthorizerVarName, plugincel.RequestResourceAuthorizerVarName:
		d.user = true
	}
}

// requestField adds a field of the variable request.
func (d *reads) requestField(name string) {
	switch name {
	case "userInfo":
		d.user = true
	case "name":
		d.name = true
	case "namespace":
		d.namespace = true
	case "operation":
		d.operation = true
	case "resource", "requestResource", "subResource", "requestSubResource":
		d.resource = true
	case "kind", "requestKind":
		d.kind = true
	case "dryRun", "options": // never known
	default:
		d.all = true
	}
}

// readKey is what an expression reads of a request at a stage; all else is empty.
type readKey struct {
	user             *User
	name, namespace  string
	namespaceUnknown bool
	namespaced       bool
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
	if d.objects {
		out.namespaced = r.namespaced
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

// shared reports whether all that the expression reads of the request is in its readKey:
// of the objects nothing but their scope is known.
func (d reads) shared(r Request) bool {
	known := r.foreign || r.Object != nil || r.stored != nil || !r.objectLabels.unknown() || !r.oldLabels.unknown()
	return !d.all && (!d.objects || !known)
}

// readsOf returns what the matchConditions may read.
func (m *Matcher) readsOf(w *inventory.Registration) reads {
	var out reads
	for _, c := range w.MatchConditions {
		d := m.index.programs.of(sourceText{c.Expression, w.Type.IsPolicy()}).reads
		out.all = out.all || d.all
		out.resource = out.resource || d.resource || d.kind
		out.operation = out.operation || d.operation
		out.objects = out.objects || d.objects
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
	if d.all || d.objects && (r.Subresource != "" || r.Resource.IsNamespaces()) { // a Scale has no labels
		return alike{r.Resource, r.Namespaced, op}
	}
	out := alike{namespaced: r.Namespaced || r.Resource.IsNamespaces()}
	if d.resource {
		out.Resource = r.Resource
	}
	if d.operation {
		out.operation = op
	}
	return out
}
