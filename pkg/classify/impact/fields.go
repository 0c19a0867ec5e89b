package impact

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// FieldChange is a field of a webhook with what it says before and after; "" where
// there is no such webhook.
type FieldChange struct {
	Field   string `json:"field"`
	Before  string `json:"before,omitempty"`
	After   string `json:"after,omitempty"`
	Meaning string `json:"meaning,omitempty" jsonschema:"Meaning is what the change does; absent where the field says it."`
}

// field is a field of a registration that changes are reported of.
type field struct {
	name string
	// content is what it says, "" for nothing; none is written then.
	content func(w *inventory.Webhook) string
	none    string
	// choice says that it chooses requests by what the requests hold. A change of one is not
	// evaluated, as that would need the requests.
	choice bool
	// meaning says what a change does; nil where the field says it.
	meaning func(p webhookPair) string
	// raw is what the content leaves out; nil where it leaves out nothing.
	raw func(w *inventory.Webhook) string
	// always says that a webhook that comes or goes is reported with the field.
	always bool
}

var (
	backendField = field{
		name: "backend", always: true,
		content: func(w *inventory.Webhook) string { return w.Backend.String() + w.Backend.Service.Path },
		raw:     func(w *inventory.Webhook) string { return w.Backend.URL }, // its query may hold a token
	}
	bundleField = field{
		name: "caBundle", content: bundleText, none: "none",
		raw: func(w *inventory.Webhook) string { return string(w.Backend.CABundle) },
	}
)

// admissionFields are those of admission webhooks, and conversionFields those of
// conversions.
var (
	admissionFields = []field{
		backendField,
		bundleField,
		{name: "rules", content: rulesText, none: "none"},
		{
			name: "failurePolicy", always: true, content: func(w *inventory.Webhook) string { return string(w.FailurePolicy) },
			meaning: policyMeaning,
		},
		{name: "matchPolicy", content: func(w *inventory.Webhook) string { return string(w.MatchPolicy) }},
		{
			name: "namespaceSelector", choice: true, none: "all",
			content: func(w *inventory.Webhook) string { return selectorText(w.NamespaceSelector) },
		},
		{
			name: "objectSelector", choice: true, none: "all",
			content: func(w *inventory.Webhook) string { return selectorText(w.ObjectSelector) },
		},
		{name: "sideEffects", content: func(w *inventory.Webhook) string { return string(w.SideEffects) }},
		{name: "timeoutSeconds", always: true, content: func(w *inventory.Webhook) string { return fmt.Sprint(w.Timeout.Seconds()) }},
		{name: "admissionReviewVersions", content: reviewVersionsText},
		{name: "matchConditions", choice: true, none: "none", content: conditionsText},
		{name: "reinvocationPolicy", content: func(w *inventory.Webhook) string { return string(w.Reinvocation) }},
	}
	conversionFields = []field{
		backendField,
		bundleField,
		{name: "conversionReviewVersions", content: reviewVersionsText},
		{name: versionsField, always: true, content: crdVersionsText, meaning: webhookPair.storedObjects},
	}
)

// fields are those that differ, and of a webhook that comes or goes those that are
// always reported.
func (p webhookPair) fields() []FieldChange {
	fields := admissionFields
	if cmp.Or(p.now, p.was).Type == inventory.Conversion {
		fields = conversionFields
	}
	out := []FieldChange{}
	for _, f := range fields {
		change, differs := f.change(p)
		if differs && (f.always || p.was != nil && p.now != nil) {
			out = append(out, change)
		}
	}
	return out
}

func (f field) change(p webhookPair) (change FieldChange, differs bool) {
	change.Field = f.name
	if p.was != nil {
		change.Before = cmp.Or(f.content(p.was), f.none)
	}
	if p.now != nil {
		change.After = cmp.Or(f.content(p.now), f.none)
	}
	both := p.was != nil && p.now != nil
	same := both && change.Before == change.After
	if same && (f.raw == nil || f.raw(p.was) == f.raw(p.now)) {
		return change, false
	}
	switch {
	case !both && f.name != versionsField:
	case same:
		change.Meaning = "what is not shown of it differs"
	case f.choice && f.content(p.was) == "":
		change.Meaning = "requests may be skipped now"
	case f.choice && f.content(p.now) == "":
		change.Meaning = "it skips no request any more"
	case f.choice:
		change.Meaning = "which requests come and go by that is not compared"
	case f.meaning != nil:
		change.Meaning = f.meaning(p)
	}
	return change, true
}

func bundleText(w *inventory.Webhook) string {
	switch a := w.Backend.Authority; {
	case len(w.Backend.CABundle) == 0:
		return ""
	case a == nil || len(a.Certificates) == 0:
		return "no certificate that can be read"
	default:
		var out []string
		for _, c := range a.Certificates {
			out = append(out, fmt.Sprintf("%s until %s", cmp.Or(c.Subject, "a CA without a name"), c.NotAfter.UTC().Format(time.RFC3339)))
		}
		return some(out)
	}
}

func rulesText(w *inventory.Webhook) string {
	var out []string
	for i := range w.Rules {
		out = append(out, ruleText(&w.Rules[i]))
	}
	return strings.Join(out, "; ")
}

// ruleText is a rule in few words: "CREATE/UPDATE deployments.apps".
func ruleText(r *admissionv1.RuleWithOperations) string {
	resources := lists.Map(classify.RuleResources(r), inventory.Resource.String)
	out := strings.Join(lists.Strings(r.Operations), "/") + " " + some(resources)
	if !slices.Contains(r.APIVersions, "*") {
		out += " in " + some(r.APIVersions)
	}
	if scope := ptr.Deref(r.Scope, admissionv1.AllScopes); scope != admissionv1.AllScopes {
		out += ", scope " + string(scope)
	}
	return out
}

func selectorText(s inventory.Selector) string {
	if s.Empty() {
		return ""
	}
	return s.String()
}

func conditionsText(w *inventory.Webhook) string {
	out := lists.Map(w.MatchConditions,
		func(c admissionv1.MatchCondition) string { return c.Name + ": " + c.Expression })
	return strings.Join(out, "; ")
}

// notCompared are the choices that differ, sorted.
func (p webhookPair) notCompared() []string {
	var out []string
	for _, f := range admissionFields {
		if f.choice && f.content(p.was) != f.content(p.now) {
			out = append(out, f.name)
		}
	}
	slices.Sort(out)
	return out
}

func reviewVersionsText(w *inventory.Webhook) string { return strings.Join(w.ReviewVersions, ", ") }

// crdVersionsText are the versions that are served, the one that is stored, and those that are kept
// for what was stored in them.
func crdVersionsText(w *inventory.Webhook) string {
	served := w.CRD.ServedVersions()
	out := fmt.Sprintf("%s, stored in %s", some(served), w.CRD.StorageVersion)
	if others := difference(w.CRD.VersionNames(), served); len(others) > 0 {
		out += fmt.Sprintf(", with %s not served", some(others))
	}
	return out
}

func policyMeaning(p webhookPair) string {
	if p.now.FailurePolicy == admissionv1.Ignore {
		return "while its backend cannot be called, requests pass without it instead of being refused"
	}
	return "while its backend cannot be called, requests are refused instead of passing without it"
}

// versionsField is what a CRD serves and stores.
const versionsField = "versions"

// storedObjects says what becomes of the objects that are stored, where the conversion of
// their CRD comes, goes, or gets other versions. Source: k8s.io/apiextensions-apiserver
// pkg/apiserver/conversion (without a webhook only apiVersion changes), and
// ValidateCustomResourceDefinitionStoredVersions.
func (p webhookPair) storedObjects() string {
	before, after := p.crdBefore, p.crdAfter
	switch {
	case before == nil:
		return "" // a new CRD has no objects
	case after == nil:
		return "where the CRD is deleted too, all its objects go with it"
	}
	stored, names := admission.StoredVersions(before), after.VersionNames()
	if undeclared := difference(stored, names); len(undeclared) > 0 {
		return fmt.Sprintf("the API server refuses the CRD while status.storedVersions has %s. Keep that with served: false until all objects are written anew", some(undeclared))
	}
	others := difference(lists.Distinct(slices.Concat(stored, after.ServedVersions())), []string{after.StorageVersion})
	possible, unless := before.StoredVersions, ""
	if before.Applied != nil { // a file has no status
		possible = before.VersionNames()
		if rest := difference(possible, []string{after.StorageVersion}); len(rest) > 0 &&
			slices.Contains(names, rest[0]) {
			unless = fmt.Sprintf("unless status.storedVersions has %s, ", some(rest))
		}
	}
	if len(others) == 0 {
		return strings.Join(append(otherVersions(before, after), fmt.Sprintf("%sall objects are stored in %s, so none is converted", unless, after.StorageVersion)), "; ")
	}
	readByControllers := func(v string) bool {
		return slices.Contains(possible, v) || version.CompareKubeAwareVersionStrings(v, after.StorageVersion) > 0
	}
	switch {
	case p.was == nil && p.now != nil && !slices.ContainsFunc(others, readByControllers):
		return fmt.Sprintf("requests for %s are converted now, and fail while the backend cannot be called. Helm and OLM write the CRD before new Pods serve", some(others))
	case p.now == nil && p.was.Object.Owner.Tool == "olm":
		return fmt.Sprintf("OLM keeps the conversion that it wrote, and takes its Service away: objects of %s cannot be read then", some(others))
	case p.now == nil && after.SameSchemas:
		return fmt.Sprintf("objects of %s are no longer converted, only their apiVersion changes: all versions have the same schema", some(others))
	case p.now == nil:
		return fmt.Sprintf("objects of %s are no longer converted, only their apiVersion changes: fields that %s lacks are lost", some(others), after.StorageVersion)
	case p.was == nil:
		return fmt.Sprintf("objects of %s are converted now: while the backend cannot be called, they cannot be read, and namespaces with them stay Terminating. "+
			"Helm and OLM write the CRD before new Pods serve", some(others))
	}
	return strings.Join(otherVersions(before, after), "; ")
}

// otherVersions says what becomes of objects and clients where versions come, go, or are
// stored instead of others.
func otherVersions(before, after *inventory.CRD) []string {
	var out []string
	if ended := difference(before.ServedVersions(), after.ServedVersions()); len(ended) > 0 {
		out = append(out, "requests for "+some(ended)+" get 404")
	}
	if added := difference(after.VersionNames(), before.VersionNames()); len(added) > 0 {
		out = append(out, "the backend must convert "+some(added)+" before: Helm and OLM write the CRD before new Pods serve")
	}
	if before.StorageVersion != after.StorageVersion {
		out = append(out, fmt.Sprintf("objects stay stored in %s until they are written again, and need the backend", before.StorageVersion))
	}
	return out
}

func difference(list, others []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(others, s) })
}
