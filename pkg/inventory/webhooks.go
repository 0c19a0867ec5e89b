package inventory

import (
	"cmp"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

// The kinds of objects that register webhooks.
const (
	KindValidating = "ValidatingWebhookConfiguration"
	KindMutating   = "MutatingWebhookConfiguration"
	KindCRD        = "CustomResourceDefinition"
)

// conversionTimeout is fixed in the API server.
// Source: k8s.io/apiserver/pkg/util/webhook/authentication.go.
const conversionTimeout = 30 * time.Second

// defaultTimeout and defaultPort are the API's defaults.
// Source: k8s.io/kubernetes/pkg/apis/admissionregistration/v1/defaults.go.
const (
	defaultTimeout = 10 * time.Second
	defaultPort    = 443
)

// registration is the common form of a validating or mutating webhook.
type registration struct {
	kind         string
	hookType     Type
	meta         *metav1.ObjectMeta
	webhook      admissionv1.ValidatingWebhook
	index        int
	reinvocation *admissionv1.ReinvocationPolicyType
}

// AsValidating drops the one field that only mutating webhooks have.
func AsValidating(w admissionv1.MutatingWebhook) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{
		Name:                    w.Name,
		ClientConfig:            w.ClientConfig,
		Rules:                   w.Rules,
		FailurePolicy:           w.FailurePolicy,
		MatchPolicy:             w.MatchPolicy,
		NamespaceSelector:       w.NamespaceSelector,
		ObjectSelector:          w.ObjectSelector,
		SideEffects:             w.SideEffects,
		TimeoutSeconds:          w.TimeoutSeconds,
		AdmissionReviewVersions: w.AdmissionReviewVersions,
		MatchConditions:         w.MatchConditions,
	}
}

// register returns what each object registers, as it was before where the object is
// the same: parsing selectors and CA bundles is most of what a Snapshot costs.
func (o Objects) register(crds map[string]*CRD, before map[any][]*Webhook) map[any][]*Webhook {
	out := make(map[any][]*Webhook, len(o.Mutating)+len(o.Validating)+len(o.CRDs))
	parsed := selectors{}
	register := func(object any, webhooks func() []*Webhook) {
		registered, same := before[object]
		if !same {
			registered = webhooks()
		}
		out[object] = registered
	}
	for _, c := range o.Mutating {
		register(c, func() []*Webhook { return o.mutating(c, parsed) })
	}
	for _, c := range o.CRDs {
		register(c, func() []*Webhook { return conversion(c, crds[c.Name]) })
	}
	for _, c := range o.Validating {
		register(c, func() []*Webhook { return o.validating(c, parsed) })
	}
	return out
}

// inOrder returns the webhooks in the order in which the API server calls them:
// by type, configuration and place in it. It sorts configurations by name. Source:
// k8s.io/apiserver pkg/admission/configuration.
func (o Objects) inOrder(registered map[any][]*Webhook) []*Webhook {
	var out []*Webhook
	for _, c := range o.Mutating {
		out = append(out, registered[c]...)
	}
	for _, c := range o.CRDs {
		out = append(out, registered[c]...)
	}
	for _, c := range o.Validating {
		out = append(out, registered[c]...)
	}
	if !slices.IsSortedFunc(out, (*Webhook).compareCalls) {
		slices.SortStableFunc(out, (*Webhook).compareCalls)
	}
	return out
}

// Before reports whether the API server calls the webhook before the other one, or
// would if they were of one type.
func (w *Webhook) Before(o *Webhook) bool { return w.compareCalls(o) < 0 }

func (w *Webhook) compareCalls(o *Webhook) int {
	if w.Type == o.Type && w.Configuration == o.Configuration { // most neighbors
		return cmp.Compare(w.Index, o.Index)
	}
	return cmp.Or(cmp.Compare(w.Type, o.Type), cmp.Compare(w.rank(), o.rank()), cmp.Compare(w.Configuration, o.Configuration))
}

func (o Objects) mutating(c *admissionv1.MutatingWebhookConfiguration, parsed selectors) []*Webhook {
	out := make([]*Webhook, 0, len(c.Webhooks))
	for i, w := range c.Webhooks {
		out = append(out, o.admissionWebhook(&registration{KindMutating, Mutating, &c.ObjectMeta, AsValidating(w), i, w.ReinvocationPolicy}, parsed))
	}
	return out
}

func (o Objects) validating(c *admissionv1.ValidatingWebhookConfiguration, parsed selectors) []*Webhook {
	out := make([]*Webhook, 0, len(c.Webhooks))
	for i, w := range c.Webhooks {
		out = append(out, o.admissionWebhook(&registration{KindValidating, Validating, &c.ObjectMeta, w, i, nil}, parsed))
	}
	return out
}

func (o Objects) admissionWebhook(r *registration, parsed selectors) *Webhook {
	w := &r.webhook
	return &Webhook{
		Registration: Registration{
			Ref:           Ref{Type: r.hookType, Configuration: r.meta.Name, Name: w.Name},
			Object:        o.webhookObject(r),
			FailurePolicy: ptr.Deref(w.FailurePolicy, admissionv1.Fail),
			Reinvocation:  ptr.Deref(r.reinvocation, admissionv1.NeverReinvocationPolicy),
			MatchResources: MatchResources{
				RuleSet:           RuleSet{Rules: w.Rules},
				MatchPolicy:       ptr.Deref(w.MatchPolicy, admissionv1.Equivalent),
				NamespaceSelector: parsed.parse(w.NamespaceSelector),
				ObjectSelector:    parsed.parse(w.ObjectSelector),
			},
			MatchConditions: w.MatchConditions,
		},
		Index:          r.index,
		Backend:        newBackend(w.ClientConfig),
		SideEffects:    ptr.Deref(w.SideEffects, admissionv1.SideEffectClassUnknown),
		Timeout:        timeout(w.TimeoutSeconds),
		ReviewVersions: w.AdmissionReviewVersions,
	}
}

func timeout(seconds *int32) time.Duration {
	if seconds == nil {
		return defaultTimeout
	}
	return time.Duration(*seconds) * time.Second
}

func newBackend(c admissionv1.WebhookClientConfig) Backend {
	b := Backend{CABundle: c.CABundle, Authority: readAuthority(c.CABundle)}
	if c.Service == nil {
		b.Kind, b.URL = BackendURL, ptr.Deref(c.URL, "")
		return b
	}
	b.Kind = BackendService
	b.Service = ServiceRef{
		Key:  Key{c.Service.Namespace, c.Service.Name},
		Port: ptr.Deref(c.Service.Port, defaultPort),
		Path: ptr.Deref(c.Service.Path, ""),
	}
	if b.Service.Key == (Key{"default", "kubernetes"}) && b.Service.Port == defaultPort {
		b.Kind = BackendAPIServer
	}
	return b
}

// conversion returns the webhook that converts the CRD, if one does, or is to: a file may
// have a strategy without its webhook, or a webhook of another strategy.
func conversion(c *apiextensionsv1.CustomResourceDefinition, crd *CRD) []*Webhook {
	conv := c.Spec.Conversion
	if conv == nil || conv.Strategy != apiextensionsv1.WebhookConverter && conv.Webhook == nil {
		return nil
	}
	webhook := ptr.Deref(conv.Webhook, apiextensionsv1.WebhookConversion{})
	return []*Webhook{{
		Registration: Registration{
			Ref:           Ref{Type: Conversion, Configuration: c.Name, Name: c.Name},
			Object:        crd.Object,
			FailurePolicy: admissionv1.Fail,
		},
		Backend:        newBackend(admissionClient(webhook.ClientConfig)),
		Timeout:        conversionTimeout,
		ReviewVersions: webhook.ConversionReviewVersions,
		CRD:            crd,
	}}
}

// admissionClient gives a conversion's client configuration the shape of an
// admission webhook's: the fields are the same.
func admissionClient(c *apiextensionsv1.WebhookClientConfig) admissionv1.WebhookClientConfig {
	if c == nil {
		return admissionv1.WebhookClientConfig{}
	}
	out := admissionv1.WebhookClientConfig{URL: c.URL, CABundle: c.CABundle}
	if c.Service != nil {
		out.Service = new(admissionv1.ServiceReference(*c.Service))
	}
	return out
}

// webhookObject is the configuration, with the place of the webhook in it.
func (o Objects) webhookObject(r *registration) Object {
	out := o.object(r.kind, r.meta)
	key := SourceKey{Kind: r.kind, Name: r.meta.Name, Webhook: r.webhook.Name, Index: r.index}
	if place, ok := o.Sources[key]; ok {
		out.Source = place
	}
	return out
}

func (o Objects) object(kind string, m *metav1.ObjectMeta) Object {
	return Object{
		Kind:              kind,
		Name:              m.Name,
		UID:               string(m.UID),
		Annotations:       m.Annotations,
		Owner:             ownerOf(m),
		CreationTimestamp: m.CreationTimestamp.Time,
		Generation:        m.Generation,
		LastChanged:       lastChanged(m),
		Writers:           writers(m),
		LastWrite:         lastWrite(m),
		Source:            o.Sources[SourceKey{Kind: kind, Name: m.Name}],
	}
}

func lastChanged(m *metav1.ObjectMeta) time.Time {
	last := m.CreationTimestamp.Time
	for _, f := range m.ManagedFields {
		if f.Time != nil && f.Time.After(last) {
			last = f.Time.Time
		}
	}
	return last
}

// writers returns who wrote anything but the status.
func writers(m *metav1.ObjectMeta) []string {
	var out []string
	for _, f := range m.ManagedFields {
		if f.Subresource == "" && f.Manager != "" {
			out = append(out, f.Manager)
		}
	}
	return text.Distinct(out)
}

// lastWrite returns the newest write of anything but the status.
func lastWrite(m *metav1.ObjectMeta) Write {
	var last Write
	for _, f := range m.ManagedFields {
		if f.Subresource == "" && f.Time != nil && !f.Time.Time.Before(last.At) {
			last = Write{f.Manager, f.Time.Time}
		}
	}
	return last
}

// ownTool is this program as the owner of objects.
const ownTool = "webhook-auditor"

// ownerOf returns who manages an object. What an owner reference or a GitOps
// tool says outranks the tool that rendered the manifest.
func ownerOf(m *metav1.ObjectMeta) Owner {
	if i := slices.IndexFunc(m.OwnerReferences, func(r metav1.OwnerReference) bool { return ptr.Deref(r.Controller, false) }); i >= 0 {
		return Owner{Tool: m.OwnerReferences[i].Kind, Name: m.OwnerReferences[i].Name}
	}
	for _, by := range []struct{ tool, label string }{
		{"olm", "olm.owner"},
		{"argocd", "argocd.argoproj.io/instance"},
		{"flux", "kustomize.toolkit.fluxcd.io/name"},
		{"flux", "helm.toolkit.fluxcd.io/name"},
		{"helm", "meta.helm.sh/release-name"},
	} {
		if name := cmp.Or(m.Labels[by.label], m.Annotations[by.label]); name != "" {
			return Owner{Tool: by.tool, Name: name}
		}
	}
	if id := m.Annotations["argocd.argoproj.io/tracking-id"]; id != "" {
		app, _, _ := strings.Cut(id, ":") // it is "app:group/Kind:namespace/name"
		return Owner{Tool: "argocd", Name: app}
	}
	if m.Labels["app.kubernetes.io/managed-by"] == "Helm" {
		return Owner{Tool: "helm", Name: m.Labels["app.kubernetes.io/instance"]}
	}
	if m.Labels["app.kubernetes.io/part-of"] == ownTool {
		return Owner{Tool: ownTool, Name: strings.TrimPrefix(m.Name, ownTool+"-")}
	}
	return Owner{}
}
