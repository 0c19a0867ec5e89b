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

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
)

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
	defaultTimeout = 10 // seconds
	defaultPort    = 443
)

// asValidating drops the one field that only mutating webhooks have.
func asValidating(w admissionv1.MutatingWebhook) admissionv1.ValidatingWebhook {
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

// Before reports whether the API server calls the webhook before the other one, or
// would if they were of one type.
func (w *Webhook) Before(o *Webhook) bool { return w.compareCalls(o) < 0 }

func (w *Webhook) compareCalls(o *Webhook) int {
	if w.Type == o.Type && w.Configuration == o.Configuration { // most neighbors
		return cmp.Compare(w.Index, o.Index)
	}
	return cmp.Or(cmp.Compare(w.Type, o.Type), cmp.Compare(w.rank(), o.rank()),
		cmp.Compare(w.Configuration, o.Configuration))
}

// WebhooksOf are those of a webhook configuration; none of another object.
func WebhooksOf(configuration any) []admissionv1.ValidatingWebhook {
	switch c := configuration.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		return c.Webhooks
	case *admissionv1.MutatingWebhookConfiguration:
		return lists.Map(c.Webhooks, asValidating)
	}
	return nil
}

func (o Objects) webhooks(t Type, c metav1.ObjectMetaAccessor) []*Webhook {
	all := WebhooksOf(c)
	out := make([]*Webhook, len(all))
	for i := range all {
		out[i] = o.admissionWebhook(t, c, &all[i], i)
		if m, mutates := c.(*admissionv1.MutatingWebhookConfiguration); mutates {
			out[i].Reinvocation = ptr.Deref(m.Webhooks[i].ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
		}
	}
	return out
}

func (o Objects) admissionWebhook(t Type, c metav1.ObjectMetaAccessor, w *admissionv1.ValidatingWebhook,
	index int,
) *Webhook {
	object := o.object(t.RegisteredBy().Kind, c)
	if place, ok := o.Sources[SourceKey{Kind: object.Kind, Name: object.Name, Webhook: w.Name, Index: index}]; ok {
		object.Source = place.Source
	}
	return &Webhook{
		Registration: Registration{
			Ref:           Ref{Type: t, Configuration: object.Name, Name: w.Name},
			Object:        object,
			FailurePolicy: ptr.Deref(w.FailurePolicy, admissionv1.Fail),
			Reinvocation:  admissionv1.NeverReinvocationPolicy,
			MatchResources: MatchResources{
				RuleSet:           RuleSet{Rules: w.Rules},
				MatchPolicy:       ptr.Deref(w.MatchPolicy, admissionv1.Equivalent),
				NamespaceSelector: newSelector(w.NamespaceSelector),
				ObjectSelector:    newSelector(w.ObjectSelector),
			},
			MatchConditions: w.MatchConditions,
		},
		Index:          index,
		Backend:        newBackend(w.ClientConfig),
		SideEffects:    ptr.Deref(w.SideEffects, admissionv1.SideEffectClassUnknown),
		Timeout:        time.Duration(ptr.Deref(w.TimeoutSeconds, defaultTimeout)) * time.Second,
		ReviewVersions: w.AdmissionReviewVersions,
	}
}

func newBackend(c admissionv1.WebhookClientConfig) Backend {
	b := Backend{CABundle: c.CABundle, Authority: readAuthority(c.CABundle)}
	if c.Service == nil {
		b.Kind, b.URL = BackendURL, ptr.Deref(c.URL, "")
		b.BareURL = bareURL(b.URL)
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
// have a strategy without its webhook, a webhook of another strategy, or either misspelt.
func conversion(c *apiextensionsv1.CustomResourceDefinition, crd *CRD) []*Webhook {
	none := apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	conv := ptr.Deref(c.Spec.Conversion, none)
	if conv == none && len(crd.Object.Applied.Misspelt()) == 0 {
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

func (o Objects) object(kind string, registration metav1.ObjectMetaAccessor) Object {
	m := registration.GetObjectMeta().(*metav1.ObjectMeta)
	origin := o.Sources[SourceKey{Kind: kind, Name: m.Name}]
	out := Object{
		Kind:              kind,
		Name:              m.Name,
		UID:               string(m.UID),
		Annotations:       m.Annotations,
		Owner:             OwnerOf(m),
		Owners:            writersOf(m),
		CreationTimestamp: m.CreationTimestamp.Time,
		Generation:        m.Generation,
		Source:            origin.Source,
		Rival:             origin.Rival,
	}
	if origin.ToApply {
		out.Applied = &Applied{registration, origin.Unknown}
	}
	out.readWrites(m)
	return out
}

// readWrites takes from the managed fields who wrote the object, and when. Writing a
// status is no change, of a cluster or of a must-gather.
func (o *Object) readWrites(m *metav1.ObjectMeta) {
	o.LastChanged = m.CreationTimestamp.Time
	for _, f := range m.ManagedFields {
		if f.Subresource != "" {
			continue
		}
		writeTime := ptr.Deref(f.Time, metav1.Time{}).Time
		if writeTime.After(o.LastChanged) {
			o.LastChanged = writeTime
		}
		if f.Manager != "" {
			o.Writers = append(o.Writers, f.Manager)
		}
		if f.Time != nil && !writeTime.Before(o.LastWrite.At) {
			o.LastWrite = Write{f.Manager, writeTime}
		}
	}
	o.Writers = lists.Distinct(o.Writers)
}

const ownTool = "webhook-auditor"

// ownerMarks are the labels and annotations by which tools mark what is theirs, the first
// outranking the others.
var ownerMarks = []struct{ tool, label, namespace string }{
	{"olm", "olm.owner", "olm.owner.namespace"},
	{"olm", "olm.operatorframework.io/owner-name", ""},
	{"argocd", "argocd.argoproj.io/instance", ""},
	{"argocd", "argocd.argoproj.io/tracking-id", ""},
	{"flux", "kustomize.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/namespace"},
	{"flux", "helm.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace"},
	{"fleet", "fleet.cattle.io/bundle-name", "fleet.cattle.io/bundle-namespace"},
	{"fleet", "objectset.rio.cattle.io/id", ""},
	{"k3s", "objectset.rio.cattle.io/owner-name", "objectset.rio.cattle.io/owner-namespace"},
	{"kubectl", "applyset.kubernetes.io/part-of", ""},
	{"kapp", "kapp.k14s.io/app", ""},
	{"helm", "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"},
}

// asReleases are the marks of those that install as a release of Helm, whose marks are there too.
var asReleases = []string{"helm.toolkit.fluxcd.io/name", "objectset.rio.cattle.io/id", "fleet.cattle.io/bundle-name", "olm.operatorframework.io/owner-name"}

// markedOwners are the owners by their marks.
func markedOwners(m *metav1.ObjectMeta) []Owner {
	var out []Owner
	for _, mark := range ownerMarks {
		name, _, _ := strings.Cut(cmp.Or(m.Labels[mark.label], m.Annotations[mark.label]), ":") // a tracking-id is "app:group/Kind:namespace/name"
		found := slices.ContainsFunc(out, func(o Owner) bool { return o.Tool == mark.tool })
		released := mark.tool == "helm" && slices.ContainsFunc(asReleases,
			func(mark string) bool { return m.Labels[mark]+m.Annotations[mark] != "" })
		if name != "" && !found && !released {
			out = append(out, Owner{
				Tool: mark.tool, Name: name, Namespace: cmp.Or(m.Labels[mark.namespace], m.Annotations[mark.namespace]),
			})
		}
	}
	return out
}

// writersOf are the owners of an object that several tools have marked.
func writersOf(m *metav1.ObjectMeta) []Owner {
	if marked := markedOwners(m); len(marked) > 1 {
		return marked
	}
	return nil
}

// OwnerOf returns who manages an object. What an owner reference or a GitOps
// tool says outranks the tool that rendered the manifest.
func OwnerOf(m *metav1.ObjectMeta) Owner {
	if i := slices.IndexFunc(m.OwnerReferences,
		func(r metav1.OwnerReference) bool { return ptr.Deref(r.Controller, false) }); i >= 0 {
		return Owner{Tool: m.OwnerReferences[i].Kind, Name: m.OwnerReferences[i].Name}
	}
	if marked := markedOwners(m); len(marked) > 0 {
		return marked[0]
	}
	if m.Labels["app.kubernetes.io/managed-by"] == "Helm" {
		return Owner{Tool: "helm", Name: m.Labels["app.kubernetes.io/instance"]}
	}
	if m.Labels["app.kubernetes.io/part-of"] == ownTool {
		return Owner{Tool: ownTool, Name: strings.TrimPrefix(m.Name, ownTool+"-")}
	}
	return Owner{}
}
