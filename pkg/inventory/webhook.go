// Package inventory holds the facts: which webhooks a cluster (or a set of
// manifests) registers, what they intercept, and what is behind them. It is
// pure: nothing here talks to a cluster, reads a clock or evaluates.
package inventory

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Type is the type of a webhook or policy, spelled as the API server's own metrics spell
// it in their label "type", so that series can be joined.
type Type string

// The types of webhooks and policies. The first two are what
// apiserver_admission_webhook_* carry; the others have no such label upstream.
const (
	Mutating         Type = "admit"
	Validating       Type = "validating"
	Conversion       Type = "conversion"
	MutatingPolicy   Type = "mutatingpolicy"
	ValidatingPolicy Type = "validatingpolicy"
)

// MarshalText is the type in JSON: "admit" is of metrics alone.
func (t Type) MarshalText() ([]byte, error) {
	if t == Mutating {
		return []byte(t.Title()), nil
	}
	return []byte(t), nil
}

// UnmarshalText reads both.
func (t *Type) UnmarshalText(text []byte) error {
	*t = Type(text)
	if *t == Type(Mutating.Title()) {
		*t = Mutating
	}
	return nil
}

// Validates reports whether the API server asks those of the type once the object
// is final.
func (t Type) Validates() bool { return t == Validating || t == ValidatingPolicy }

func (t Type) IsPolicy() bool { return t == MutatingPolicy || t == ValidatingPolicy }

// Noun is what sentences call one of the type.
func (t Type) Noun() string {
	if t.IsPolicy() {
		return "policy"
	}
	return "webhook"
}

// Title is what users call the type.
func (t Type) Title() string {
	switch t {
	case Mutating:
		return "mutating"
	case MutatingPolicy:
		return "mutating policy"
	case ValidatingPolicy:
		return "validating policy"
	}
	return string(t)
}

// registeredBy are the kinds of objects that register webhooks of a type, or are its
// policies.
var registeredBy = map[Type]schema.GroupVersionKind{
	Mutating:         admissionv1.SchemeGroupVersion.WithKind(KindMutating),
	Validating:       admissionv1.SchemeGroupVersion.WithKind(KindValidating),
	Conversion:       apiextensionsv1.SchemeGroupVersion.WithKind(KindCRD),
	MutatingPolicy:   admissionv1.SchemeGroupVersion.WithKind(KindMutatingPolicy),
	ValidatingPolicy: admissionv1.SchemeGroupVersion.WithKind(KindValidatingPolicy),
}

// RegisteredBy is the kind of the object that registers webhooks of the type, or is a policy
// of it.
func (t Type) RegisteredBy() schema.GroupVersionKind { return registeredBy[t] }

func (t Type) Resource() schema.GroupVersionResource {
	resource, _ := meta.UnsafeGuessKindToResource(t.RegisteredBy())
	return resource
}

// Ref names one webhook or policy. It is comparable and outlives its Snapshot.
type Ref struct {
	Type          Type   `json:"type"`
	Configuration string `json:"configuration" jsonschema:"Configuration is the object that registers the webhook: a ValidatingWebhookConfiguration, a MutatingWebhookConfiguration or a CRD; for a policy it is the policy itself."`
	Name          string `json:"name" jsonschema:"Name is the webhook's name as the API server's series carry it; for a conversion it is the CRD's name, for a policy the policy's."`
}

func (r Ref) Compare(o Ref) int {
	return cmp.Or(cmp.Compare(r.Type, o.Type), cmp.Compare(r.rank(), o.rank()),
		cmp.Compare(r.Configuration, o.Configuration), cmp.Compare(r.Name, o.Name))
}

// WithoutName names what registers the webhook alone: all webhooks of a configuration
// have it in common.
func (r Ref) WithoutName() Ref { return Ref{Type: r.Type, Configuration: r.Configuration} }

// StaticSuffix ends the names of what API servers read from their staticManifestsDir,
// and of nothing else. Source: k8s.io/apiserver/pkg/admission/plugin/manifest.
const StaticSuffix = ".static.k8s.io"

// Static reports whether API servers read it from disk rather than from the API, which
// a file may hold: it comes before the others of its type.
func (r Ref) Static() bool { return strings.HasSuffix(r.Configuration, StaticSuffix) }

// rank is the place among those of a type, whatever the names.
func (r Ref) rank() int {
	if r.Static() {
		return 0
	}
	return 1
}

// Registration is what webhooks and admission policies have in common: what asks for
// which requests, and what follows if it cannot answer.
type Registration struct {
	Ref
	Object        Object
	FailurePolicy admissionv1.FailurePolicyType
	Reinvocation  admissionv1.ReinvocationPolicyType
	// MatchResources say what it asks for; a conversion asks for nothing.
	MatchResources
	MatchConditions []admissionv1.MatchCondition
}

// MatchResources say for which requests a webhook, a policy or a binding is.
type MatchResources struct {
	// RuleSet has a rule that covers the request, unless Excluded has one: webhooks
	// exclude none.
	RuleSet
	Excluded          RuleSet
	MatchPolicy       admissionv1.MatchPolicyType
	NamespaceSelector Selector
	ObjectSelector    Selector
}

type RuleSet struct {
	Rules []admissionv1.RuleWithOperations
	// ResourceNames are the names of objects that the rule with the same index is for;
	// it is nil where no rule has any, as those of webhooks.
	ResourceNames [][]string
}

// Webhook is one registered webhook of any type, with the API's defaults
// filled in.
type Webhook struct {
	Registration
	Index int

	Backend        Backend
	SideEffects    admissionv1.SideEffectClass
	Timeout        time.Duration
	ReviewVersions []string

	// CRD is set for a conversion only.
	CRD *CRD
}

// Object is what a Snapshot keeps of the metadata of a configuration.
type Object struct {
	Kind              string
	Name              string
	UID               string
	Annotations       map[string]string
	Owner             Owner
	CreationTimestamp time.Time
	Generation        int64
	// LastChanged is the newest time that the object itself records
	// (creation or managedFields); zero where it records none.
	LastChanged time.Time
	Writers     []string
	// LastWrite is the newest write, but of a status, that the object records.
	LastWrite Write
	// Owners are all that its metadata names as its owner, of several tools; nil where that is one.
	Owners []Owner
	// Source is where the object was read; zero for a cluster.
	Source Source
	// Rival is another object of its name in the input; nil without one.
	Rival *Rival
	// Applied is the object itself where it is still to be applied; nil where an API server
	// has stored it.
	Applied *Applied
}

// Unreadable is the Error of something in the object that cannot be read: the object is.
func (o *Object) Unreadable(message string) Error {
	return Error{Source: o.Source, Object: o.Kind + "/" + o.Name, Message: message}
}

// Write is a write by a field manager; the zero Write is unknown.
type Write struct {
	Manager string    `json:"manager"`
	At      time.Time `json:"time"`
}

// Source is a place in a file.
type Source struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty" jsonschema:"Line is the first line of the object, or of the webhook in it; 1-based."`
}

// Origin is where an object was read, and whether that is a file that alone has it: Unknown
// are then the fields that its kind has not.
type Origin struct {
	Source
	ToApply bool
	Unknown []string
	Rival   *Rival
	// SameSchemas says that all versions of a CRD are known to have the same.
	SameSchemas bool
}

// Rival is an object of the same name that another owner has, or that registers other
// webhooks: only one of the two can be in a cluster.
type Rival struct {
	Source
	Owner Owner
	// Service is the one that it calls, where the webhooks are the same but for it: where the
	// input has both, it is another installation, else another form of the object.
	Service Key
}

func (s Source) String() string {
	if s.Line == 0 {
		return s.File
	}
	return fmt.Sprintf("%s:%d", s.File, s.Line)
}

// Owner is who installed a webhook, by its metadata: "helm/policy",
// "olm/kiali-operator.v1.2.3", "argocd/app", "Kind/name" of an owner reference.
type Owner struct {
	Tool string
	Name string
	// Namespace is that of a release or a Kustomization, "" where the metadata lacks it.
	Namespace string
}

// IsOther reports whether both have a tool, and are two.
func (o Owner) IsOther(other Owner) bool {
	namespaces := o.Namespace != other.Namespace && o.Namespace != "" && other.Namespace != ""
	return o.Tool != "" && other.Tool != "" && (o.Tool != other.Tool || o.Name != other.Name || namespaces)
}

func (o Owner) String() string {
	if o.Tool == "" {
		return ""
	}
	return o.Tool + "/" + o.Name
}

// FailsClosed reports whether requests are refused where there is no answer. A
// conversion always fails closed.
func (r *Registration) FailsClosed() bool { return r.FailurePolicy != admissionv1.Ignore }

type BackendKind string

// The kinds of backends. BackendAPIServer is the Service default/kubernetes,
// port 443: the API server calls itself there (a webhook served through an
// APIService).
const (
	BackendService   BackendKind = "service"
	BackendURL       BackendKind = "url"
	BackendAPIServer BackendKind = "apiserver"
)

type Backend struct {
	Kind BackendKind
	URL  string
	// BareURL is the URL without its query and credentials, which may hold a token.
	BareURL  string
	Service  ServiceRef
	CABundle []byte
	// Authority is what CABundle holds, nil where that is empty.
	Authority *Authority
}

type ServiceRef struct {
	Key
	Port int32  `json:"port"`
	Path string `json:"path"`
}

type Key struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (k Key) String() string { return k.Namespace + "/" + k.Name }

func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}
