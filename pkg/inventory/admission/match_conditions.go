package admission

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// maxCost is what an expression may cost before we stop following it: real
// ones cost some dozens, and each may be evaluated on thousands of requests. The API
// server stops at a hundred times as much, and takes seconds to get there.
const maxCost = 10_000

type outcome struct {
	Match
	// failure is why the API server gets no value either.
	failure error
	// doubt is why Match is Maybe.
	doubt string
}

// matchConditions asks those of a webhook or policy: any that is false skips it; else
// any error refuses the request or, with failurePolicy Ignore, skips it. Source:
// k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions.
func (r Request) matchConditions(w *inventory.Registration, stage stage) Verdict {
	verdict, failed := r.conditions(w, stage)
	if failed != "" {
		return failedConditions(w, verdict, failed)
	}
	return verdict
}

// conditions is matchConditions without regard to errors, and what they say.
func (r Request) conditions(w *inventory.Registration, stage stage) (verdict Verdict, failed string) {
	verdict = Verdict{Match: Yes}
	for _, c := range w.MatchConditions {
		o := r.outcome(stage, c.Expression)
		switch {
		case o.Match == No:
			return Verdict{Match: No, Reason: ReasonMatchConditions, Detail: fmt.Sprintf("matchCondition %q is false", c.Name)}, ""
		case o.failure != nil:
			failed = fmt.Sprintf("matchCondition %q fails: %v", c.Name, o.failure)
		case o.Match == Maybe && verdict.Match == Yes:
			verdict = Verdict{Match: Maybe, Reason: ReasonMatchConditions, Detail: fmt.Sprintf("matchCondition %q %s", c.Name, o.doubt)}
		}
	}
	return verdict, failed
}

// failedConditions is the verdict of an error beside which none is false, yet.
func failedConditions(w *inventory.Registration, rest Verdict, failed string) Verdict {
	switch {
	case !w.FailsClosed():
		return Verdict{Match: No, Reason: ReasonMatchConditions, Detail: failed + " (failurePolicy Ignore)"}
	case rest.Match == Maybe:
		return Verdict{Match: Maybe, Reason: ReasonMatchConditions, Detail: failed + ", which refuses the request unless another one is false"}
	}
	return Verdict{Match: Yes, Refused: true, Reason: ReasonMatchConditions, Detail: failed + ", which refuses the request (failurePolicy Fail)"}
}

func (r Request) outcome(stage stage, expression string) outcome {
	kind := conditionOfWebhook
	if stage.params != webhookParams {
		kind = conditionOfPolicy
	}
	return r.programs.programOf(sourceText{expression, kind}).run(r.activation(stage))
}

// activation is the variables of a request, as far as it has them.
func (r Request) activation(stage stage) cel.PartialActivation {
	return r.activations.getOrCompute(stage, func() cel.PartialActivation {
		return partialVars(r.variables(stage), r.unknowns(stage))
	})
}

func partialVars(values map[string]any, unknowns []*cel.AttributePatternType) cel.PartialActivation {
	vars, err := cel.PartialVars(values, unknowns...)
	utilruntime.Must(err) // it refuses what is no map
	return vars
}

// programs are compiled expressions, which depend on no Snapshot.
type programs struct{ *memo[sourceText, *program] }

type sourceText struct {
	expression string
	kind       expressionKind
}

type expressionKind int

// The matchConditions are bools; other expressions of policies have types of their own.
const (
	conditionOfWebhook expressionKind = iota
	conditionOfPolicy
	expressionOfPolicy
)

func (p programs) programOf(text sourceText) *program {
	return p.getOrCompute(text, func() *program { return compile(text) })
}

// program is a compiled expression, or why it is none.
type program struct {
	cel.Program
	err error
}

func compile(text sourceText) *program {
	env := conditionEnv()
	if text.kind != conditionOfWebhook {
		env = policyEnv()
	}
	ast, issues := env.Compile(text.expression)
	if issues.Err() != nil {
		return &program{err: issue(issues)}
	}
	isOpen := text.kind == conditionOfPolicy && ast.OutputType().IsExactType(cel.DynType) // as a variable is here
	if text.kind != expressionOfPolicy && !isOpen && !ast.OutputType().IsExactType(cel.BoolType) {
		return &program{err: fmt.Errorf("must evaluate to bool, not %v", ast.OutputType())}
	}
	p := &program{}
	p.Program, p.err = env.Program(ast, cel.EvalOptions(cel.OptPartialEval), cel.CostLimit(maxCost),
		cel.CustomDecorator(decoratePartial))
	return p
}

func issue(issues *cel.Issues) error {
	all := issues.Errors()
	if len(all) == 0 {
		return issues.Err()
	}
	message, _, _ := strings.Cut(all[0].Message, "\n")
	return fmt.Errorf("line %d, column %d: %s", all[0].Location.Line(), all[0].Location.Column()+1, message)
}

// errCostly is why an expression has no value here that it may have on an API server, which
// counts each question to its authorizer as more than we follow.
var errCostly = errors.New("asks the authorizer what the user may do, or costs too much to be evaluated here")

// run evaluates the expression as far as the request goes.
func (p *program) run(vars cel.PartialActivation) outcome {
	switch value, err := p.value(vars); {
	case p.err != nil:
		return outcome{Match: Maybe, doubt: "does not compile: " + p.err.Error()}
	case errors.Is(err, errCostly):
		return outcome{Match: Maybe, doubt: err.Error()}
	default:
		return outcomeOf(value, err)
	}
}

// value is unknown where more than is known decides.
func (p *program) value(vars cel.PartialActivation) (ref.Val, error) {
	if p.err != nil {
		return unknown, nil
	}
	value, details, err := p.Eval(vars)
	if cost := details.ActualCost(); cost != nil && *cost > maxCost {
		return unknown, errCostly
	}
	return value, err
}

func outcomeOf(value ref.Val, err error) outcome {
	switch {
	case err != nil:
		return outcome{Match: Maybe, failure: err}
	case value == types.True:
		return outcome{Match: Yes}
	case value == types.False:
		return outcome{Match: No}
	}
	if unknown, ok := value.(*types.Unknown); ok && strings.Contains(unknown.String(), "userInfo") {
		return outcome{Match: Maybe, doubt: "depends on who asks"}
	}
	return outcome{Match: Maybe, doubt: "needs more than is known of the request"}
}

// variables are what an expression may read, in the API's own JSON: empty
// fields that it omits are missing, and reading them is an error. Source:
// k8s.io/apiserver/pkg/admission/plugin/cel.
func (r Request) variables(stage stage) map[string]any {
	resource := map[string]any{"group": r.Resource.Group, "version": r.Version, "resource": r.Resource.Name}
	request := map[string]any{
		"kind":            map[string]any{"group": stage.Group, "version": stage.Version, "kind": stage.Kind.Kind},
		"resource":        resource,
		"requestKind":     map[string]any{"group": r.Kind.Group, "version": r.Kind.Version, "kind": r.Kind.Kind},
		"requestResource": resource,
		"operation":       string(r.Operation),
	}
	for key, value := range map[string]string{
		"subResource":        r.Resource.Subresource,
		"requestSubResource": r.Resource.Subresource,
		"namespace":          r.Namespace,
		"name":               r.Name,
	} {
		if value != "" {
			request[key] = value
		}
	}
	if r.user != nil {
		request["userInfo"] = map[string]any{"username": r.user.Name, "groups": r.user.Groups}
	}
	return map[string]any{
		"request": request, "object": r.newObject(stage), "oldObject": r.oldObject(stage), "namespaceObject": r.namespaceOf(stage), "params": stage.params.value(),
	}
}

// namespaceOf is the variable namespaceObject: matchConditions meet null, policies what the
// input has of the namespace.
func (r Request) namespaceOf(stage stage) any {
	if !stage.ofPolicy || !r.namespaced || r.namespaceUnknown || r.Resource.IsNamespaces() {
		return nil
	}
	metadata := map[string]any{"name": r.Namespace, "labels": nativeLabels(r.namespaceLabels)}
	return knowledge{kind: "Namespace", labeled: r.namespaceLabels.complete}.value("", map[string]any{"metadata": metadata})
}

func (r Request) unknowns(stage stage) []*cel.AttributePatternType {
	request := func(fields ...string) *cel.AttributePatternType {
		p := cel.AttributePattern("request")
		for _, f := range fields {
			p = p.QualString(f)
		}
		return p
	}
	out := []*cel.AttributePatternType{
		cel.AttributePattern(plugincel.RequestResourceAuthorizerVarName),
		cel.AttributePattern(plugincel.AuthorizerVarName), request("dryRun"), request("options"),
	}
	switch {
	case r.user == nil:
		out = append(out, request("userInfo"))
	case r.user.Groups == nil:
		out = append(out, request("userInfo", "groups"), request("userInfo", "uid"), request("userInfo", "extra"))
	default:
		out = append(out, request("userInfo", "uid"), request("userInfo", "extra"))
	}
	if r.Name == "" {
		out = append(out, request("name"))
	}
	if r.namespaceUnknown {
		out = append(out, request("namespace"))
	}
	if stage.Unsure {
		out = append(out, request("kind", "group"), request("kind", "version"))
	}
	if stage.Kind.Kind == "" {
		out = append(out, request("kind", "kind"), request("requestKind", "kind"))
	}
	if stage.params != webhookParams && !stage.ofPolicy {
		out = append(out, cel.AttributePattern(plugincel.VariableVarName))
	}
	if stage.ofPolicy && r.namespaceUnknown && !r.Resource.IsNamespaces() {
		out = append(out, cel.AttributePattern(plugincel.NamespaceVarName))
	}
	if stage.params == openParams {
		out = append(out, cel.AttributePattern(plugincel.ParamsVarName))
	}
	if r.Kind.Unsure {
		out = append(out, request("requestKind", "group"), request("requestKind", "version"))
	}
	return out
}

// conditionEnv is the environment in which the API server evaluates
// matchConditions, with the libraries of its newest version: what an older one
// does not know, it does not store. Source: NewMutatingWebhook and
// NewValidatingAdmissionWebhook of k8s.io/apiserver/pkg/admission/plugin/webhook.
var conditionEnv = sync.OnceValue(func() *cel.Env { return newEnv() })

// policyEnv is the same for policies, with what mutations are made of.
var policyEnv = sync.OnceValue(func() *cel.Env {
	return newEnv(
		cel.Variable(plugincel.ParamsVarName, cel.DynType),
		cel.Variable(plugincel.VariableVarName, cel.MapType(cel.StringType, cel.DynType)),
		common.ResolverEnvOption(&mutation.DynamicTypeResolver{}),
		environment.UnversionedLib(library.JSONPatch),
	)
})

func newEnv(more ...cel.EnvOption) *cel.Env {
	request, namespace := plugincel.BuildRequestType(), plugincel.BuildNamespaceType()
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	set, err := base.Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable(plugincel.ObjectVarName, cel.DynType),
			cel.Variable(plugincel.OldObjectVarName, cel.DynType),
			cel.Variable(plugincel.NamespaceVarName, namespace.CelType()), // declared, but always null
			cel.Variable(plugincel.RequestVarName, request.CelType()),
			cel.Variable(plugincel.AuthorizerVarName, library.AuthorizerType),
			cel.Variable(plugincel.RequestResourceAuthorizerVarName, library.ResourceCheckType),
		},
		DeclTypes: []*apiservercel.DeclType{request, namespace},
	}, environment.StrictCostOpt)
	utilruntime.Must(err) // its options are constants
	// Types are declared before any is looked up.
	set, err = set.Extend(environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: more})
	utilruntime.Must(err)
	return set.StoredExpressionsEnv()
}
