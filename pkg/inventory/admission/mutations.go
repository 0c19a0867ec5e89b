package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"google.golang.org/protobuf/types/known/structpb"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	celcommon "k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// mutationEnv is that in which the API server evaluates the mutations of policies, whose
// variables are not kept.
var mutationEnv = sync.OnceValues(func() (*cel.Env, error) {
	env, err := policyEnv()
	if err != nil {
		return nil, err
	}
	return env.Extend(celcommon.ResolverEnvOption(&mutation.DynamicTypeResolver{}), library.JSONPatch())
})

// Mutations are what a mutating policy changes of the object of the request. The error
// says why that is not known.
func (r Request) Mutations(step PolicyStep) ([]inventory.Change, error) {
	kind, verdict := r.covers(step.Policy.Type, &step.Policy.MatchResources)
	switch {
	case step.Match != Yes || step.Refused || verdict.Match != Yes:
		return nil, errors.New("whether it is evaluated is not known")
	case r.Object == nil:
		return nil, errors.New("the object is not known")
	}
	at := r.stageOf(step.Policy.Type, kind)
	at.params = openParams
	if step.Policy.ParamKind == nil || step.Binding == nil || step.Binding.ParamRef == nil {
		at.params = nullParams
	}
	object, out := r.Object, []inventory.Change{}
	for _, m := range step.Policy.Mutations {
		value, err := r.mutated(m, at)
		if err != nil {
			return nil, err
		}
		operations := value
		if m.PatchType == admissionv1.PatchTypeApplyConfiguration {
			operations = applied(object, "", value)
		}
		patch, err := json.Marshal(operations)
		if err != nil {
			return nil, err
		}
		var changes []inventory.Change
		if object, changes, err = inventory.ApplyPatch(object, patch); err != nil {
			return nil, fmt.Errorf("its patch does not apply to the object as it is sent: %w", err)
		}
		r.Object = object
		r.requestContext = r.By(r.user).requestContext // without what was read of the object before
		r.objectLabels = labelSet{known: labelsOf(object), complete: r.objectLabels.complete}
		out = append(out, changes...)
	}
	return out, nil
}

// mutated is what the expression of a mutation evaluates to, as JSON.
func (r Request) mutated(m admissionv1.Mutation, at stage) (any, error) {
	expression := ""
	switch {
	case m.JSONPatch != nil:
		expression = m.JSONPatch.Expression
	case m.ApplyConfiguration != nil:
		expression = m.ApplyConfiguration.Expression
	default:
		return nil, errors.New("the expressions of its apply configurations are not read from a cluster; name its file with --from")
	}
	env, err := mutationEnv()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, issue(issues)
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptPartialEval), cel.CostLimit(maxCost))
	if err != nil {
		return nil, err
	}
	vars := r.activation(at)
	if vars.err != nil {
		return nil, vars.err
	}
	value, _, err := program.Eval(vars.PartialActivation)
	switch {
	case err != nil:
		return nil, err
	case types.IsUnknown(value):
		return nil, errors.New("they depend on more than is known of the request")
	}
	return plain(value)
}

// plain is a value as JSON has it.
func plain(value ref.Val) (any, error) {
	list, err := value.ConvertToNative(reflect.TypeFor[[]*mutation.JSONPatchVal]())
	if err != nil {
		native, err := value.ConvertToNative(reflect.TypeFor[*structpb.Value]())
		if err != nil {
			return nil, err
		}
		return native.(*structpb.Value).AsInterface(), nil
	}
	out := []map[string]any{}
	for _, p := range list.([]*mutation.JSONPatchVal) {
		operation := map[string]any{"op": p.Op, "path": p.Path}
		if p.From != "" {
			operation["from"] = p.From
		}
		if p.Val != nil {
			native, err := p.Val.ConvertToNative(reflect.TypeFor[*structpb.Value]())
			if err != nil {
				return nil, err
			}
			operation["value"] = native.(*structpb.Value).AsInterface()
		}
		out = append(out, operation)
	}
	return out, nil
}

// applied is a configuration as a JSON patch of the object: maps are merged, and lists by
// the names of their elements.
func applied(before any, path string, value any) []map[string]any {
	switch value := value.(type) {
	case map[string]any:
		old, ok := before.(map[string]any)
		if !ok {
			break
		}
		var out []map[string]any
		for _, key := range slices.Sorted(maps.Keys(value)) {
			out = append(out, applied(old[key], path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), value[key])...)
		}
		return out
	case []any:
		old, ok := before.([]any)
		if !ok {
			break
		}
		var out []map[string]any
		for _, element := range value {
			out = append(out, appliedElement(old, path, element)...)
		}
		return out
	}
	return []map[string]any{{"op": "add", "path": path, "value": value}}
}

// appliedElement is an element of a list, which its name, or its value, finds.
func appliedElement(old []any, path string, element any) []map[string]any {
	named, _ := element.(map[string]any)
	for i, o := range old {
		had, _ := o.(map[string]any)
		if named != nil && had != nil && named["name"] != nil && named["name"] == had["name"] {
			return applied(had, fmt.Sprintf("%s/%d", path, i), element)
		}
		if named == nil && reflect.DeepEqual(o, element) {
			return nil
		}
	}
	return []map[string]any{{"op": "add", "path": path + "/-", "value": element}}
}
