package admission

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// The functions in this file say what the API server refuses when it is created. Source:
// k8s.io/kubernetes/pkg/apis/admissionregistration/validation.

// RefusedWebhook is what the API server refuses of the webhook, which a file holds; nil of
// one that an API server has stored.
func (m *Matcher) RefusedWebhook(w *inventory.Webhook) field.ErrorList {
	v := validator{compile: m.compiler()}
	hook := field.NewPath("webhooks").Index(w.Index)
	applied := ptr.Deref(w.Object.Applied, inventory.Applied{})
	hooks := inventory.WebhooksOf(applied.Object)
	switch c := applied.Object.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		v.metadata(&c.ObjectMeta, w.Index)
	case *admissionv1.MutatingWebhookConfiguration:
		v.metadata(&c.ObjectMeta, w.Index)
		oneOf(&v, hook.Child("reinvocationPolicy"), ptr.Deref(c.Webhooks[w.Index].ReinvocationPolicy, admissionv1.NeverReinvocationPolicy),
			reinvocationPolicies)
	case *apiextensionsv1.CustomResourceDefinition:
		v.metadata(&c.ObjectMeta, 0)
		if c.Spec.Conversion != nil {
			v.conversion(field.NewPath("spec", "conversion"), c.Spec.Conversion)
		}
		for _, path := range applied.Misspelt() {
			v.unknown(path)
		}
		return v.errors
	default:
		return nil
	}
	v.webhook(hook, &hooks[w.Index])
	v.unique(hook.Child("name"), w.Name,
		slices.ContainsFunc(hooks[:w.Index], func(o admissionv1.ValidatingWebhook) bool { return o.Name == w.Name }))
	for _, path := range applied.Unknown {
		if strings.HasPrefix(path, hook.String()+".") || w.Index == 0 && !strings.HasPrefix(path, "webhooks[") {
			v.unknown(path)
		}
	}
	return v.errors
}

// conversion is that of a CRD, by k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation.
func (v *validator) conversion(fieldPath *field.Path, c *apiextensionsv1.CustomResourceConversion) {
	oneOf(v, fieldPath.Child("strategy"), c.Strategy,
		[]apiextensionsv1.ConversionStrategyType{apiextensionsv1.NoneConverter, apiextensionsv1.WebhookConverter})
	fieldPath = fieldPath.Child("webhook")
	switch {
	case c.Strategy != apiextensionsv1.WebhookConverter:
		if c.Webhook != nil {
			v.errors = append(v.errors, field.Forbidden(fieldPath, "must not be set unless strategy is Webhook"))
		}
		return
	case c.Webhook == nil || c.Webhook.ClientConfig == nil:
		v.required(fieldPath.Child("clientConfig"), "required when strategy is set to Webhook", true)
		return
	}
	client := c.Webhook.ClientConfig
	v.client(fieldPath.Child("clientConfig"),
		admissionv1.WebhookClientConfig{URL: client.URL, Service: (*admissionv1.ServiceReference)(client.Service)})
	v.reviewVersions(fieldPath.Child("conversionReviewVersions"), c.Webhook.ConversionReviewVersions)
}

// The values of the fields that have but a few.
var (
	failurePolicies      = []admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore}
	matchPolicies        = []admissionv1.MatchPolicyType{admissionv1.Equivalent, admissionv1.Exact}
	reinvocationPolicies = []admissionv1.ReinvocationPolicyType{
		admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy,
	}
	sideEffects = []admissionv1.SideEffectClass{
		admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun,
	}
	scopes = []admissionv1.ScopeType{
		admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope,
	}
	allOfOperations = []admissionv1.OperationType{
		admissionv1.OperationAll, admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect,
	}
	mutatingOperations = []admissionv1.OperationType{
		admissionv1.OperationAll, admissionv1.Create, admissionv1.Update, admissionv1.Connect,
	}
	reviewVersions = []string{"v1", "v1beta1"}
)

type validator struct {
	errors field.ErrorList
	// compile is what the server compiles expressions with, from that of a policy on with
	// its variables.
	compile func() plugincel.Compiler
}

func (v *validator) invalid(fieldPath *field.Path, value any, messages ...string) {
	for _, message := range messages {
		v.errors = append(v.errors, field.Invalid(fieldPath, value, message))
	}
}

func (v *validator) required(fieldPath *field.Path, detail string, missing bool) {
	if missing {
		v.errors = append(v.errors, field.Required(fieldPath, detail))
	}
}

func (v *validator) unique(fieldPath *field.Path, value string, isRepeated bool) {
	if isRepeated && value != "" {
		v.errors = append(v.errors, field.Duplicate(fieldPath, value))
	}
}

// unknown comes first: a field that is missing is often one that is misspelt.
func (v *validator) unknown(path string) {
	v.errors = slices.Insert(v.errors, 0, field.Forbidden(field.NewPath(path), "there is no such field"))
}

// metadata checks those of a cluster-scoped object, once for all of its webhooks.
func (v *validator) metadata(m *metav1.ObjectMeta, index int) {
	if index > 0 {
		return
	}
	checked := *m
	checked.Namespace, checked.ManagedFields = "", nil // as the API server does, which writes the fields itself
	v.errors = append(v.errors,
		apivalidation.ValidateObjectMeta(&checked, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
}

func oneOf[T ~string](v *validator, fieldPath *field.Path, value T, all []T) {
	if !slices.Contains(all, value) {
		v.errors = append(v.errors, field.NotSupported(fieldPath, value, all))
	}
}

func (v *validator) webhook(fieldPath *field.Path, h *admissionv1.ValidatingWebhook) {
	v.errors = append(v.errors, validation.IsFullyQualifiedName(fieldPath.Child("name"), h.Name)...)
	for i := range h.Rules {
		v.rule(fieldPath.Child("rules").Index(i), &h.Rules[i], allOfOperations)
	}
	oneOf(v, fieldPath.Child("failurePolicy"), ptr.Deref(h.FailurePolicy, admissionv1.Fail), failurePolicies)
	oneOf(v, fieldPath.Child("matchPolicy"), ptr.Deref(h.MatchPolicy, admissionv1.Equivalent), matchPolicies)
	if h.SideEffects == nil {
		v.required(fieldPath.Child("sideEffects"), "must specify one of None, NoneOnDryRun", true)
	} else {
		oneOf(v, fieldPath.Child("sideEffects"), *h.SideEffects, sideEffects)
	}
	if seconds := ptr.Deref(h.TimeoutSeconds, 10); seconds < 1 || seconds > 30 {
		v.invalid(fieldPath.Child("timeoutSeconds"), seconds, "must be between 1 and 30 seconds")
	}
	v.selector(fieldPath.Child("namespaceSelector"), h.NamespaceSelector)
	v.selector(fieldPath.Child("objectSelector"), h.ObjectSelector)
	v.client(fieldPath.Child("clientConfig"), h.ClientConfig)
	v.reviewVersions(fieldPath.Child("admissionReviewVersions"), h.AdmissionReviewVersions)
	v.conditions(fieldPath.Child("matchConditions"), h.MatchConditions, declared{})
}

func (v *validator) selector(fieldPath *field.Path, s *metav1.LabelSelector) {
	v.errors = append(v.errors,
		metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, fieldPath)...)
}

func (v *validator) client(fieldPath *field.Path, c admissionv1.WebhookClientConfig) {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		v.required(fieldPath, "exactly one of url or service is required", true)
	case c.Service != nil:
		fieldPath = fieldPath.Child("service")
		v.required(fieldPath.Child("name"), "", c.Service.Name == "")
		v.required(fieldPath.Child("namespace"), "", c.Service.Namespace == "")
		port := ptr.Deref(c.Service.Port, 443)
		v.invalid(fieldPath.Child("port"), port, validation.IsValidPortNum(int(port))...)
		v.path(fieldPath.Child("path"), ptr.Deref(c.Service.Path, ""))
	default:
		if fault := inventory.URLFault(*c.URL); fault != "" {
			v.errors = append(v.errors, field.Forbidden(fieldPath.Child("url"), fault)) // which may hold a token
		}
	}
}

func (v *validator) path(parent *field.Path, path string) {
	if path == "" || path == "/" {
		return
	}
	if !strings.HasPrefix(path, "/") {
		v.invalid(parent, path, "must start with a '/'")
		return
	}
	for step := range strings.SplitSeq(strings.TrimSuffix(path[1:], "/"), "/") {
		switch faults := validation.IsDNS1123Subdomain(step); {
		case step == "":
			v.invalid(parent, path, "must have no empty segment")
		default:
			v.invalid(parent, path, faults...)
		}
	}
}

func (v *validator) reviewVersions(fieldPath *field.Path, versions []string) {
	v.required(fieldPath, "must specify one of v1, v1beta1", len(versions) == 0)
	for i, version := range versions {
		if slices.Contains(versions[:i], version) {
			v.invalid(fieldPath.Index(i), version, "duplicate version")
			continue
		}
		v.invalid(fieldPath.Index(i), version, validation.IsDNS1035Label(version)...)
	}
	if len(versions) > 0 && !slices.ContainsFunc(versions,
		func(s string) bool { return slices.Contains(reviewVersions, s) }) {
		v.invalid(fieldPath, versions, "must include at least one of v1, v1beta1")
	}
}

func (v *validator) rule(fieldPath *field.Path, r *admissionv1.RuleWithOperations,
	operations []admissionv1.OperationType,
) {
	v.required(fieldPath.Child("operations"), "", len(r.Operations) == 0)
	for i, op := range r.Operations {
		oneOf(v, fieldPath.Child("operations").Index(i), op, operations)
	}
	if len(r.Operations) > 1 && slices.Contains(r.Operations, admissionv1.OperationAll) {
		v.invalid(fieldPath.Child("operations"), r.Operations, "if '*' is present, must not specify other operations")
	}
	v.list(fieldPath.Child("apiGroups"), r.APIGroups)
	v.list(fieldPath.Child("apiVersions"), r.APIVersions)
	for i, version := range r.APIVersions {
		v.required(fieldPath.Child("apiVersions").Index(i), "", version == "")
	}
	v.resources(fieldPath.Child("resources"), r.Resources)
	oneOf(v, fieldPath.Child("scope"), ptr.Deref(r.Scope, admissionv1.AllScopes), scopes)
}

// list refuses an empty one, and names beside a wildcard.
func (v *validator) list(fieldPath *field.Path, names []string) {
	v.required(fieldPath, "", len(names) == 0)
	if len(names) > 1 && slices.Contains(names, "*") {
		v.invalid(fieldPath, names, "if '*' is present, must not specify others")
	}
}

func (v *validator) resources(fieldPath *field.Path, names []string) {
	v.required(fieldPath, "", len(names) == 0)
	plain := false
	for i, name := range names {
		r, sub, isSub := strings.Cut(name, "/")
		v.required(fieldPath.Index(i), "", name == "")
		if !isSub && name != "" {
			plain = name != "*" // as the API server has it, the last one counts
		}
		for _, other := range names[:i] {
			if isSub && (other == r+"/*" || other == "*/"+sub) {
				v.invalid(fieldPath.Index(i), name, fmt.Sprintf("if '%s' is present, must not specify %s", other, name))
			}
		}
	}
	if len(names) > 1 && slices.Contains(names, "*/*") {
		v.invalid(fieldPath, names, "if '*/*' is present, must not specify other resources")
	}
	if plain && slices.Contains(names, "*") {
		v.invalid(fieldPath, names, "if '*' is present, must not specify other resources without subresources")
	}
}

func (v *validator) conditions(fieldPath *field.Path, conditions []admissionv1.MatchCondition, d declared) {
	if len(conditions) > 64 {
		v.errors = append(v.errors, field.TooMany(fieldPath, len(conditions), 64))
	}
	for i, c := range conditions {
		one := fieldPath.Index(i)
		v.required(one.Child("name"), "", c.Name == "")
		if c.Name != "" {
			v.invalid(one.Child("name"), c.Name, validation.IsQualifiedName(c.Name)...)
		}
		v.unique(one.Child("name"), c.Name,
			slices.ContainsFunc(conditions[:i], func(o admissionv1.MatchCondition) bool { return o.Name == c.Name }))
		v.expression(one.Child("expression"), strings.TrimSpace(c.Expression), d)
	}
}

func (v *validator) expression(fieldPath *field.Path, text string, d declared) {
	v.required(fieldPath, "", strings.TrimSpace(text) == "")
	if strings.TrimSpace(text) == "" {
		return
	}
	v.compiled(fieldPath, v.compile().CompileCELExpression(accessor{text: text, types: d.types}, d.options(),
		environment.NewExpressions))
}

// isIdentifier reports whether an expression may read a variable of the name: those that
// CEL reserves are escaped with underscores alone.
func isIdentifier(name string) bool {
	escaped, _ := apiservercel.Escape(name)
	return identifier.MatchString(name) && escaped != "__"+name+"__"
}

var identifier = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`)
