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
	at := field.NewPath("webhooks").Index(w.Index)
	applied := ptr.Deref(w.Object.Applied, inventory.Applied{})
	var hooks []admissionv1.ValidatingWebhook
	switch c := applied.Object.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		hooks = c.Webhooks
		v.metadata(&c.ObjectMeta, w.Index)
	case *admissionv1.MutatingWebhookConfiguration:
		v.metadata(&c.ObjectMeta, w.Index)
		for i := range c.Webhooks {
			hooks = append(hooks, inventory.AsValidating(c.Webhooks[i]))
		}
		oneOf(&v, at.Child("reinvocationPolicy"), ptr.Deref(c.Webhooks[w.Index].ReinvocationPolicy, admissionv1.NeverReinvocationPolicy), reinvocationPolicies)
	case *apiextensionsv1.CustomResourceDefinition:
		v.metadata(&c.ObjectMeta, 0)
		v.conversion(field.NewPath("spec", "conversion"), c.Spec.Conversion)
		return v.errors
	default:
		return nil
	}
	v.webhook(at, &hooks[w.Index])
	v.unique(at.Child("name"), w.Name, slices.ContainsFunc(hooks[:w.Index], func(o admissionv1.ValidatingWebhook) bool { return o.Name == w.Name }))
	for _, path := range applied.Unknown {
		if strings.HasPrefix(path, at.String()+".") || w.Index == 0 && !strings.HasPrefix(path, "webhooks[") {
			v.unknown(path)
		}
	}
	return v.errors
}

// conversion is that of a CRD, by k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation.
func (v *validator) conversion(at *field.Path, c *apiextensionsv1.CustomResourceConversion) {
	v.required(at.Child("strategy"), "must be one of None, Webhook", c.Strategy == "")
	at = at.Child("webhook")
	switch {
	case c.Strategy != apiextensionsv1.WebhookConverter:
		v.errors = append(v.errors, field.Forbidden(at, "must not be set unless strategy is Webhook"))
		return
	case c.Webhook == nil || c.Webhook.ClientConfig == nil:
		v.required(at.Child("clientConfig"), "required when strategy is set to Webhook", true)
		return
	}
	client := c.Webhook.ClientConfig
	v.client(at.Child("clientConfig"), admissionv1.WebhookClientConfig{URL: client.URL, Service: (*admissionv1.ServiceReference)(client.Service)})
	v.reviewVersions(at.Child("conversionReviewVersions"), c.Webhook.ConversionReviewVersions)
}

// The values of the fields that have but a few.
var (
	failurePolicies      = []admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore}
	matchPolicies        = []admissionv1.MatchPolicyType{admissionv1.Equivalent, admissionv1.Exact}
	reinvocationPolicies = []admissionv1.ReinvocationPolicyType{admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy}
	sideEffects          = []admissionv1.SideEffectClass{admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun}
	scopes               = []admissionv1.ScopeType{admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope}
	allOfOperations      = []admissionv1.OperationType{admissionv1.OperationAll, admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect}
	mutatingOperations   = []admissionv1.OperationType{admissionv1.OperationAll, admissionv1.Create, admissionv1.Update, admissionv1.Connect}
	reviewVersions       = []string{"v1", "v1beta1"}
)

// validator collects what is refused.
type validator struct {
	errors field.ErrorList
	// compile is what the server compiles expressions with, from that of a policy on with
	// its variables.
	compile func() plugincel.Compiler
}

func (v *validator) invalid(at *field.Path, value any, messages ...string) {
	for _, message := range messages {
		v.errors = append(v.errors, field.Invalid(at, value, message))
	}
}

func (v *validator) required(at *field.Path, detail string, missing bool) {
	if missing {
		v.errors = append(v.errors, field.Required(at, detail))
	}
}

func (v *validator) unique(at *field.Path, value string, again bool) {
	if again && value != "" {
		v.errors = append(v.errors, field.Duplicate(at, value))
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
	checked.Namespace = "" // as the API server does
	v.errors = append(v.errors, apivalidation.ValidateObjectMeta(&checked, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
}

func oneOf[T ~string](v *validator, at *field.Path, value T, all []T) {
	if !slices.Contains(all, value) {
		v.errors = append(v.errors, field.NotSupported(at, value, all))
	}
}

func (v *validator) webhook(at *field.Path, h *admissionv1.ValidatingWebhook) {
	v.errors = append(v.errors, validation.IsFullyQualifiedName(at.Child("name"), h.Name)...)
	for i := range h.Rules {
		v.rule(at.Child("rules").Index(i), &h.Rules[i], allOfOperations)
	}
	oneOf(v, at.Child("failurePolicy"), ptr.Deref(h.FailurePolicy, admissionv1.Fail), failurePolicies)
	oneOf(v, at.Child("matchPolicy"), ptr.Deref(h.MatchPolicy, admissionv1.Equivalent), matchPolicies)
	if h.SideEffects == nil {
		v.required(at.Child("sideEffects"), "must specify one of None, NoneOnDryRun", true)
	} else {
		oneOf(v, at.Child("sideEffects"), *h.SideEffects, sideEffects)
	}
	if seconds := ptr.Deref(h.TimeoutSeconds, 10); seconds < 1 || seconds > 30 {
		v.invalid(at.Child("timeoutSeconds"), seconds, "must be between 1 and 30 seconds")
	}
	v.selector(at.Child("namespaceSelector"), h.NamespaceSelector)
	v.selector(at.Child("objectSelector"), h.ObjectSelector)
	v.client(at.Child("clientConfig"), h.ClientConfig)
	v.reviewVersions(at.Child("admissionReviewVersions"), h.AdmissionReviewVersions)
	v.conditions(at.Child("matchConditions"), h.MatchConditions, declared{})
}

func (v *validator) selector(at *field.Path, s *metav1.LabelSelector) {
	v.errors = append(v.errors, metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, at)...)
}

func (v *validator) client(at *field.Path, c admissionv1.WebhookClientConfig) {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		v.required(at, "exactly one of url or service is required", true)
	case c.Service != nil:
		at = at.Child("service")
		v.required(at.Child("name"), "", c.Service.Name == "")
		v.required(at.Child("namespace"), "", c.Service.Namespace == "")
		port := ptr.Deref(c.Service.Port, 443)
		v.invalid(at.Child("port"), port, validation.IsValidPortNum(int(port))...)
		v.path(at.Child("path"), ptr.Deref(c.Service.Path, ""))
	default:
		if fault := inventory.URLFault(*c.URL); fault != "" {
			v.errors = append(v.errors, field.Forbidden(at.Child("url"), fault)) // which may hold a token
		}
	}
}

func (v *validator) path(at *field.Path, path string) {
	if path == "" || path == "/" {
		return
	}
	if !strings.HasPrefix(path, "/") {
		v.invalid(at, path, "must start with a '/'")
		return
	}
	for step := range strings.SplitSeq(strings.TrimSuffix(path[1:], "/"), "/") {
		switch faults := validation.IsDNS1123Subdomain(step); {
		case step == "":
			v.invalid(at, path, "must have no empty segment")
		default:
			v.invalid(at, path, faults...)
		}
	}
}

func (v *validator) reviewVersions(at *field.Path, versions []string) {
	v.required(at, "must specify one of v1, v1beta1", len(versions) == 0)
	for i, version := range versions {
		if slices.Contains(versions[:i], version) {
			v.invalid(at.Index(i), version, "duplicate version")
			continue
		}
		v.invalid(at.Index(i), version, validation.IsDNS1035Label(version)...)
	}
	if len(versions) > 0 && !slices.ContainsFunc(versions, func(s string) bool { return slices.Contains(reviewVersions, s) }) {
		v.invalid(at, versions, "must include at least one of v1, v1beta1")
	}
}

func (v *validator) rule(at *field.Path, r *admissionv1.RuleWithOperations, operations []admissionv1.OperationType) {
	v.required(at.Child("operations"), "", len(r.Operations) == 0)
	for i, op := range r.Operations {
		oneOf(v, at.Child("operations").Index(i), op, operations)
	}
	if len(r.Operations) > 1 && slices.Contains(r.Operations, admissionv1.OperationAll) {
		v.invalid(at.Child("operations"), r.Operations, "if '*' is present, must not specify other operations")
	}
	v.list(at.Child("apiGroups"), r.APIGroups)
	v.list(at.Child("apiVersions"), r.APIVersions)
	for i, version := range r.APIVersions {
		v.required(at.Child("apiVersions").Index(i), "", version == "")
	}
	v.resources(at.Child("resources"), r.Resources)
	oneOf(v, at.Child("scope"), ptr.Deref(r.Scope, admissionv1.AllScopes), scopes)
}

// list refuses an empty one, and names beside a wildcard.
func (v *validator) list(at *field.Path, names []string) {
	v.required(at, "", len(names) == 0)
	if len(names) > 1 && slices.Contains(names, "*") {
		v.invalid(at, names, "if '*' is present, must not specify others")
	}
}

func (v *validator) resources(at *field.Path, names []string) {
	v.required(at, "", len(names) == 0)
	plain := false
	for i, name := range names {
		r, sub, isSub := strings.Cut(name, "/")
		v.required(at.Index(i), "", name == "")
		if !isSub && name != "" {
			plain = name != "*" // as the API server has it, the last one counts
		}
		for _, other := range names[:i] {
			if isSub && (other == r+"/*" || other == "*/"+sub) {
				v.invalid(at.Index(i), name, fmt.Sprintf("if '%s' is present, must not specify %s", other, name))
			}
		}
	}
	if len(names) > 1 && slices.Contains(names, "*/*") {
		v.invalid(at, names, "if '*/*' is present, must not specify other resources")
	}
	if plain && slices.Contains(names, "*") {
		v.invalid(at, names, "if '*' is present, must not specify other resources without subresources")
	}
}

func (v *validator) conditions(at *field.Path, conditions []admissionv1.MatchCondition, d declared) {
	if len(conditions) > 64 {
		v.errors = append(v.errors, field.TooMany(at, len(conditions), 64))
	}
	for i, c := range conditions {
		one := at.Index(i)
		v.required(one.Child("name"), "", c.Name == "")
		if c.Name != "" {
			v.invalid(one.Child("name"), c.Name, validation.IsQualifiedName(c.Name)...)
		}
		v.unique(one.Child("name"), c.Name, slices.ContainsFunc(conditions[:i], func(o admissionv1.MatchCondition) bool { return o.Name == c.Name }))
		v.expression(one.Child("expression"), strings.TrimSpace(c.Expression), d)
	}
}

// expression refuses what does not compile.
func (v *validator) expression(at *field.Path, text string, d declared) {
	v.required(at, "", strings.TrimSpace(text) == "")
	if strings.TrimSpace(text) == "" {
		return
	}
	v.compiled(at, v.compile().CompileCELExpression(accessor{text: text, types: d.types}, d.options(), environment.NewExpressions))
}

// isIdentifier reports whether an expression may read a variable of the name: those that
// CEL reserves are escaped with underscores alone.
func isIdentifier(name string) bool {
	escaped, _ := apiservercel.Escape(name)
	return identifier.MatchString(name) && escaped != "__"+name+"__"
}

var identifier = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`)
