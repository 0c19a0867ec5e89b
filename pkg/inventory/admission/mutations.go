package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"google.golang.org/protobuf/types/known/structpb"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/cel/mutation"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// WithObject is the request with all of the object as admission has it, and of the object
// that is stored, nil where there is none: what either lacks, it has not.
func (r Request) WithObject(object, stored map[string]any) Request {
	context := *r.By(r.user).requestContext
	context.whole, context.storedWhole, context.created = true, stored, nil
	context.objectLabels = withNameLabel(labelSet{values: labelsOf(object), complete: true}, namespaceName(r))
	context.oldLabels = context.objectLabels
	if stored != nil {
		context.oldLabels = withNameLabel(labelSet{values: labelsOf(stored), complete: true}, namespaceName(r))
	}
	r.Object, r.requestContext = object, &context
	if r.Resource.IsNamespaces() {
		r.namespaceLabels = context.objectLabels
	}
	return r
}

// KindFor is the kind in which the webhook gets the object.
func (r Request) KindFor(w *inventory.Webhook) Kind {
	kind, _ := r.covers(w.Type, &w.MatchResources)
	return kind
}

// Mutations are what a mutating policy changes of the object of the request, and the object
// after that. The error says why that is unknown.
func (r Request) Mutations(step PolicyStep) ([]inventory.Change, map[string]any, error) {
	kind, verdict := r.covers(step.Policy.Type, &step.Policy.MatchResources)
	switch {
	case step.Match != Yes || step.Refused || verdict.Match != Yes:
		return nil, nil, errors.New("whether it is evaluated is not known")
	case r.Object == nil:
		return nil, nil, errors.New("the object is not known")
	}
	stage := r.stageOf(step.Policy.Type, kind)
	stage.ofPolicy, stage.params = true, r.paramsBy(step.Policy, step.Binding)
	object, out := r.Object, []inventory.Change{}
	for _, m := range step.Policy.Mutations {
		patch, err := r.mutated(m, r.withVariables(step.Policy.Variables, stage))
		if err != nil {
			return nil, nil, err
		}
		var changes []inventory.Change
		if object, changes, err = inventory.ApplyPatch(object, patch); err != nil {
			return nil, nil, fmt.Errorf("its patch does not apply to the object as it is sent: %w", err)
		}
		r.Object = object
		r.requestContext = r.By(r.user).requestContext // without what was read of the object before
		r.objectLabels = labelSet{values: labelsOf(object), complete: r.objectLabels.complete}
		out = append(out, changes...)
	}
	return out, object, nil
}

// mutated is the JSON patch that the expression of a mutation evaluates to.
func (r Request) mutated(m admissionv1.Mutation, vars cel.PartialActivation) ([]byte, error) {
	if m.JSONPatch == nil {
		return nil, errors.New("apply configurations are merged by the schema of the API server")
	}
	program := r.programs.programOf(sourceText{m.JSONPatch.Expression, expressionOfPolicy})
	if program.err != nil {
		return nil, program.err
	}
	value, err := program.value(vars)
	if err == nil && types.IsUnknown(value) {
		err = errors.New("they depend on more than is known of the request")
	}
	if err != nil {
		return nil, err
	}
	list, err := value.ConvertToNative(reflect.TypeFor[[]*mutation.JSONPatchVal]())
	if err != nil {
		return nil, err
	}
	var out []map[string]any
	for _, p := range list.([]*mutation.JSONPatchVal) {
		operation := map[string]any{"op": p.Op, "path": p.Path}
		if p.From != "" {
			operation["from"] = p.From
		}
		if p.Val != nil {
			if operation["value"], err = p.Val.ConvertToNative(reflect.TypeFor[*structpb.Value]()); err != nil {
				return nil, err
			}
		}
		out = append(out, operation)
	}
	return json.Marshal(out)
}
