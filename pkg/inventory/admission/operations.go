package admission

import (
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

type Operation string

const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// connects are the subresources that the API server serves by a Connecter: any
// verb on them is the admission operation CONNECT. Source:
// k8s.io/kubernetes/pkg/registry (rest.Connecter) and, for OpenShift's, the
// registries of openshift-apiserver.
var connects = inventory.ResourcesNamed(`pods/exec pods/attach pods/portforward pods/proxy nodes/proxy services/proxy
	buildconfigs.build.openshift.io/webhooks buildconfigs.build.openshift.io/instantiatebinary`)

// OperationsOn returns the admission operations that the server can meet on the
// resource. Reading is never admitted, so a read-only resource has none.
func OperationsOn(s inventory.Served) []Operation {
	if slices.Contains(connects, s.Resource) {
		return []Operation{Connect}
	}
	var ops []Operation
	for _, o := range []struct {
		op    Operation
		verbs []string
	}{
		{Create, []string{"create"}},
		{Update, []string{"update", "patch"}},
		{Delete, []string{"delete", "deletecollection"}},
	} {
		if slices.ContainsFunc(o.verbs, func(v string) bool { return slices.Contains(s.Verbs, v) }) {
			ops = append(ops, o.op)
		}
	}
	return ops
}

type Operations uint8

var operationBits = map[Operation]Operations{Create: 1, Update: 2, Delete: 4, Connect: 8}

const allOperations Operations = 15

func operationsOf(ops ...Operation) Operations {
	var set Operations
	for _, op := range ops {
		set |= operationBits[op]
	}
	return set
}

func (o Operations) Has(op Operation) bool { return o&operationBits[op] != 0 }

// List returns the operations in the order CREATE, UPDATE, DELETE, CONNECT.
func (o Operations) List() []Operation {
	var out []Operation
	for _, op := range []Operation{Create, Update, Delete, Connect} {
		if o.Has(op) {
			out = append(out, op)
		}
	}
	return out
}
