package admission

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// RefusedPolicy is what the API server refuses of the policy that a file holds, and
// RefusedBinding the same of a binding.
func (m *Matcher) RefusedPolicy(p *inventory.AdmissionPolicy) field.ErrorList {
	if p.Object.Applied == nil {
		return nil
	}
	v, spec := m.newValidator(p.Type, &p.Object), field.NewPath("spec")
	switch o := p.Object.Applied.Object.(type) {
	case *admissionv1.ValidatingAdmissionPolicy:
		v.policy(p, o.Spec.MatchConstraints, allOfOperations, m.libraries())
		v.validations(spec, o)
	case *admissionv1.MutatingAdmissionPolicy:
		v.policy(p, o.Spec.MatchConstraints, mutatingOperations, m.libraries())
		v.required(spec.Child("mutations"), "mutations must contain at least one item", len(o.Spec.Mutations) == 0)
		for i := range o.Spec.Mutations {
			v.mutation(spec.Child("mutations").Index(i), &o.Spec.Mutations[i], declared{params: o.Spec.ParamKind != nil})
		}
		oneOf(v, spec.Child("reinvocationPolicy"), o.Spec.ReinvocationPolicy, reinvocationPolicies)
	}
	return v.errors
}

// RefusedBinding is RefusedPolicy of a binding.
func (m *Matcher) RefusedBinding(b *inventory.PolicyBinding) field.ErrorList {
	if b.Object.Applied == nil {
		return nil
	}
	v, spec := m.newValidator(b.Policy.Type, &b.Object), field.NewPath("spec")
	v.binding(spec, b.Policy.Name, b.ParamRef)
	switch o := b.Object.Applied.Object.(type) {
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		v.matchResources(spec.Child("matchResources"), o.Spec.MatchResources, allOfOperations)
		v.actions(spec.Child("validationActions"), o.Spec.ValidationActions)
	case *admissionv1.MutatingAdmissionPolicyBinding:
		v.matchResources(spec.Child("matchResources"), o.Spec.MatchResources, mutatingOperations)
	}
	return v.errors
}

// newValidator begins with what is refused of policies and bindings of the type alike.
func (m *Matcher) newValidator(t inventory.Type, o *inventory.Object) *validator {
	v := &validator{compile: m.compiler()}
	v.served(t, o.Applied.Object.(runtime.Object).GetObjectKind().GroupVersionKind().GroupVersion(), m.Snapshot.Server)
	v.metadata(o.Applied.Object.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta), 0)
	for _, path := range o.Applied.Unknown {
		v.unknown(path)
	}
	return v
}

func (v *validator) policy(p *inventory.AdmissionPolicy, constraints *admissionv1.MatchResources,
	operations []admissionv1.OperationType, libraries int,
) {
	spec, d := field.NewPath("spec"), declared{params: p.ParamKind != nil}
	oneOf(v, spec.Child("failurePolicy"), p.FailurePolicy, failurePolicies)
	if p.ParamKind != nil {
		v.paramKind(spec.Child("paramKind"), *p.ParamKind)
	}
	v.required(spec.Child("matchConstraints"), "", constraints == nil)
	if constraints != nil {
		v.required(spec.Child("matchConstraints", "resourceRules"), "", len(constraints.ResourceRules) == 0)
		v.matchResources(spec.Child("matchConstraints"), constraints, operations)
	}
	v.conditions(spec.Child("matchConditions"), p.MatchConditions, d)
	v.variables(spec.Child("variables"), p.Variables, d, libraries)
}

func (v *validator) paramKind(fieldPath *field.Path, k admissionv1.ParamKind) {
	v.required(fieldPath.Child("kind"), "", k.Kind == "")
	v.required(fieldPath.Child("apiVersion"), "", k.APIVersion == "")
	gv, err := schema.ParseGroupVersion(k.APIVersion)
	if err != nil || k.APIVersion != "" && len(validation.IsDNS1035Label(gv.Version)) > 0 ||
		gv.Group != "" && len(validation.IsDNS1123Subdomain(gv.Group)) > 0 {
		v.invalid(fieldPath.Child("apiVersion"), k.APIVersion, "must be GROUP/VERSION, or v1")
	}
	if k.Kind != "" {
		v.invalid(fieldPath.Child("kind"), k.Kind, validation.IsDNS1035Label(strings.ToLower(k.Kind))...)
	}
}

func (v *validator) matchResources(fieldPath *field.Path, m *admissionv1.MatchResources,
	operations []admissionv1.OperationType,
) {
	if m == nil {
		return
	}
	oneOf(v, fieldPath.Child("matchPolicy"), ptr.Deref(m.MatchPolicy, admissionv1.Equivalent), matchPolicies)
	v.selector(fieldPath.Child("namespaceSelector"), m.NamespaceSelector)
	v.selector(fieldPath.Child("objectSelector"), m.ObjectSelector)
	v.namedRules(fieldPath.Child("resourceRules"), m.ResourceRules, operations)
	v.namedRules(fieldPath.Child("excludeResourceRules"), m.ExcludeResourceRules, allOfOperations)
}

func (v *validator) namedRules(fieldPath *field.Path, rules []admissionv1.NamedRuleWithOperations,
	operations []admissionv1.OperationType,
) {
	for i := range rules {
		v.rule(fieldPath.Index(i), &rules[i].RuleWithOperations, operations)
		for n, name := range rules[i].ResourceNames {
			v.unique(fieldPath.Index(i).Child("resourceNames").Index(n), name, slices.Contains(rules[i].ResourceNames[:n], name))
		}
	}
}

func (v *validator) validations(spec *field.Path, p *admissionv1.ValidatingAdmissionPolicy) {
	d := declared{params: p.Spec.ParamKind != nil}
	v.required(spec.Child("validations"), "validations or auditAnnotations must contain at least one item", len(p.Spec.Validations)+len(p.Spec.AuditAnnotations) == 0)
	text := d
	text.unauthorized, text.types = true, []*cel.Type{cel.StringType}
	for i, one := range p.Spec.Validations {
		item := spec.Child("validations").Index(i)
		v.expression(item.Child("expression"), one.Expression, d)
		if one.MessageExpression != "" {
			v.expression(item.Child("messageExpression"), one.MessageExpression, text)
		}
		if strings.ContainsAny(strings.TrimSpace(one.Message), "\n\r") {
			v.invalid(item.Child("message"), one.Message, "must not contain line breaks")
		}
		if one.Message != "" && strings.TrimSpace(one.Message) == "" {
			v.invalid(item.Child("message"), one.Message, "must be non-empty if specified")
		}
		if one.Reason != nil {
			oneOf(v, item.Child("reason"), string(*one.Reason), []string{"Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"})
		}
	}
	text.unauthorized, text.types = false, []*cel.Type{cel.StringType, cel.NullType}
	for i, a := range p.Spec.AuditAnnotations {
		item := spec.Child("auditAnnotations").Index(i)
		v.invalid(item.Child("key"), a.Key, validation.IsQualifiedName(p.Name+"/"+a.Key)...)
		v.unique(item.Child("key"), a.Key,
			slices.ContainsFunc(p.Spec.AuditAnnotations[:i],
				func(o admissionv1.AuditAnnotation) bool { return o.Key == a.Key }))
		v.expression(item.Child("valueExpression"), strings.TrimSpace(a.ValueExpression), text)
	}
}

func (v *validator) mutation(fieldPath *field.Path, m *admissionv1.Mutation, d declared) {
	oneOf(v, fieldPath.Child("patchType"), m.PatchType,
		[]admissionv1.PatchType{admissionv1.PatchTypeApplyConfiguration, admissionv1.PatchTypeJSONPatch})
	isJSON := m.PatchType == admissionv1.PatchTypeJSONPatch
	v.required(fieldPath.Child("jsonPatch"), "must be specified when patchType is JSONPatch", isJSON && m.JSONPatch == nil)
	v.required(fieldPath.Child("applyConfiguration"), "must be specified when patchType is ApplyConfiguration",
		m.PatchType == admissionv1.PatchTypeApplyConfiguration && m.ApplyConfiguration == nil)
	if m.JSONPatch != nil && m.ApplyConfiguration != nil {
		v.invalid(fieldPath, m.PatchType, "must not have both jsonPatch and applyConfiguration")
	}
	d.patches = true
	switch {
	case isJSON && m.JSONPatch != nil:
		d.types = []*cel.Type{cel.ListType(cel.ObjectType("JSONPatch"))}
		v.expression(fieldPath.Child("jsonPatch", "expression"), strings.TrimSpace(m.JSONPatch.Expression), d)
	case !isJSON && m.ApplyConfiguration != nil:
		d.types = []*cel.Type{cel.ObjectType("Object")}
		v.expression(fieldPath.Child("applyConfiguration", "expression"), strings.TrimSpace(m.ApplyConfiguration.Expression), d)
	}
}

func (v *validator) binding(spec *field.Path, policy string, ref *admissionv1.ParamRef) {
	v.required(spec.Child("policyName"), "", policy == "")
	if policy != "" {
		v.invalid(spec.Child("policyName"), policy, apivalidation.NameIsDNSSubdomain(policy, false)...)
	}
	if ref == nil {
		return
	}
	refPath := spec.Child("paramRef")
	v.invalid(refPath.Child("name"), ref.Name, content.IsPathSegmentName(ref.Name)...)
	if ref.Name != "" && ref.Selector != nil {
		v.errors = append(v.errors, field.Forbidden(refPath.Child("name"), "name and selector are mutually exclusive"))
	}
	v.required(refPath, "one of name or selector must be specified", ref.Name == "" && ref.Selector == nil)
	v.selector(refPath.Child("selector"), ref.Selector)
	action := ptr.Deref(ref.ParameterNotFoundAction, "")
	v.required(refPath.Child("parameterNotFoundAction"), "", action == "")
	if action != "" {
		oneOf(v, refPath.Child("parameterNotFoundAction"), action,
			[]admissionv1.ParameterNotFoundActionType{admissionv1.AllowAction, admissionv1.DenyAction})
	}
}

func (v *validator) actions(fieldPath *field.Path, actions []admissionv1.ValidationAction) {
	v.required(fieldPath, "at least one validation action is required", len(actions) == 0)
	for i, action := range actions {
		oneOf(v, fieldPath.Index(i), action,
			[]admissionv1.ValidationAction{admissionv1.Deny, admissionv1.Warn, admissionv1.Audit})
		v.unique(fieldPath.Index(i), string(action), slices.Contains(actions[:i], action))
	}
	if slices.Contains(actions, admissionv1.Deny) && slices.Contains(actions, admissionv1.Warn) {
		v.invalid(fieldPath, actions, "must not contain both Deny and Warn")
	}
}

// declared is what an expression may read beside the request, and the types that it may
// have.
type declared struct {
	params, patches, unauthorized bool
	types                         []*cel.Type
}

func (d declared) options() plugincel.OptionalVariableDeclarations {
	return plugincel.OptionalVariableDeclarations{
		HasParams: d.params, HasAuthorizer: !d.unauthorized, HasPatchTypes: d.patches,
	}
}

// The API server's own compilers, by the minor version of its libraries: each is constant, and
// costs more to make than most expressions to compile. composites know of variables, too, and
// none: one that is to hold any is made for its policy alone.
var (
	compilers  = newMemo[int, plugincel.Compiler]()
	composites = newMemo[int, *plugincel.CompositedCompiler]()
)

func newComposite(libraries int) *plugincel.CompositedCompiler {
	composed, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, uint(libraries))))
	utilruntime.Must(err) // its environment is a constant
	return composed
}

// compiler is what the API server compiles expressions with that are new to it: it knows
// the libraries that the release before has, too.
func (m *Matcher) compiler() func() plugincel.Compiler {
	minor := m.libraries()
	return func() plugincel.Compiler {
		return compilers.getOrCompute(minor, func() plugincel.Compiler {
			return plugincel.NewCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, uint(minor))))
		})
	}
}

// libraries is the minor version of which an API server has the libraries; of an unknown
// one, the newest.
func (m *Matcher) libraries() int {
	v := m.Snapshot.Server
	if !v.Known() {
		v = inventory.Newest
	}
	return v.Recorded().Minor - 1
}

func (v *validator) variables(fieldPath *field.Path, variables []admissionv1.Variable, d declared, libraries int) {
	newCompiler := func() *plugincel.CompositedCompiler { return newComposite(libraries) }
	composed := composites.getOrCompute(libraries, newCompiler)
	if len(variables) > 0 {
		composed = newCompiler()
	}
	v.compile = func() plugincel.Compiler { return composed }
	for i, variable := range variables {
		one := fieldPath.Index(i)
		if !isIdentifier(variable.Name) {
			v.invalid(one.Child("name"), variable.Name, "must be a valid CEL identifier")
		}
		v.required(one.Child("expression"), "", strings.TrimSpace(variable.Expression) == "")
		v.compiled(one.Child("expression"),
			composed.CompileAndStoreVariable(accessor{
				variable.Name, variable.Expression, []*cel.Type{cel.AnyType, cel.DynType},
			}, d.options(), environment.NewExpressions))
	}
}

// accessor is an expression, of a variable with its name, and the types that it may have:
// without any, a bool.
type accessor struct {
	name, text string
	types      []*cel.Type
}

func (a accessor) GetName() string       { return a.name }
func (a accessor) GetExpression() string { return a.text }
func (a accessor) ReturnTypes() []*cel.Type {
	if len(a.types) == 0 {
		return []*cel.Type{cel.BoolType}
	}
	return a.types
}

var position = regexp.MustCompile(`<input>:(\d+):(\d+): ([^\n]*)`)

// compiled refuses an expression, whose text is too long to be repeated, if it does not
// compile.
func (v *validator) compiled(fieldPath *field.Path, result plugincel.CompilationResult) {
	if result.Error == nil {
		return
	}
	fault := result.Error.Detail
	if found := position.FindStringSubmatch(fault); found != nil {
		fault = fmt.Sprintf("line %s, column %s: %s", found[1], found[2], found[3])
	}
	v.errors = append(v.errors, field.Forbidden(fieldPath, fault))
}
