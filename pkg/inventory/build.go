package inventory

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
)

// Snapshot turns the objects into facts. It never writes to the objects.
func (o Objects) Snapshot(snapshotTime time.Time) *Snapshot {
	return new(Builder).Snapshot(o, snapshotTime)
}

// reviewsExcluded is what the feature gate says, else what its default is in
// the server's version. An unknown server counts as the newest.
// Source: gate ExcludeAdmissionWebhookVirtualResources, beta and on in 1.37.
func (o Objects) reviewsExcluded() bool {
	if o.ReviewsExcluded != nil {
		return *o.ReviewsExcluded
	}
	return !o.Server.Known() || o.Server.AtLeast(1, 37)
}

func (o Objects) namespaces() map[string]Namespace {
	out := make(map[string]Namespace, len(o.Namespaces))
	for _, n := range o.Namespaces {
		out[n.Name] = Namespace{
			Name:        n.Name,
			Labels:      WithNameLabel(n.Labels, n.Name),
			Annotations: n.Annotations,
			Terminating: n.DeletionTimestamp != nil,
		}
	}
	return out
}

// WithNameLabel adds the label that the API server gives to every namespace.
func WithNameLabel(labels map[string]string, namespace string) map[string]string {
	if namespace == "" || labels[corev1.LabelMetadataName] == namespace {
		return labels
	}
	out := make(map[string]string, len(labels)+1)
	maps.Copy(out, labels)
	out[corev1.LabelMetadataName] = namespace
	return out
}

func (o Objects) services() map[Key]Service {
	out := make(map[Key]Service, len(o.Services))
	for _, s := range o.Services {
		key := Key{Namespace: s.Namespace, Name: s.Name}
		out[key] = Service{
			Key:          key,
			Type:         cmp.Or(s.Spec.Type, corev1.ServiceTypeClusterIP),
			ClusterIP:    s.Spec.ClusterIP,
			ClusterIPs:   append(slices.Clone(s.Spec.ClusterIPs), s.Spec.ClusterIP),
			ExternalName: s.Spec.ExternalName,
			Ports:        s.Spec.Ports,
			Selector:     s.Spec.Selector,
			Labels:       s.Labels,

			PublishNotReady: s.Spec.PublishNotReadyAddresses,
			SameNode:        ptr.Deref(s.Spec.InternalTrafficPolicy, "") == corev1.ServiceInternalTrafficPolicyLocal,
		}
	}
	for _, slice := range o.EndpointSlices {
		key := Key{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
		if s, ok := out[key]; ok {
			if s.Endpoints == nil {
				s.Endpoints = []Endpoint{}
			}
			s.Endpoints = append(s.Endpoints, endpoints(slice)...)
			out[key] = s
		}
	}
	return out
}

func endpoints(slice *discoveryv1.EndpointSlice) []Endpoint {
	ports := portNumbers(slice.Ports)
	out := make([]Endpoint, 0, len(slice.Endpoints))
	for _, e := range slice.Endpoints {
		out = append(out, Endpoint{
			Ready: ptr.Deref(e.Conditions.Ready, true) && len(e.Addresses) > 0,
			Draining: ptr.Deref(e.Conditions.Serving, false) && ptr.Deref(e.Conditions.Terminating, false) &&
				len(e.Addresses) > 0,
			Address: strings.Join(e.Addresses[:min(1, len(e.Addresses))], ""),
			Ports:   ports,
			Node:    ptr.Deref(e.NodeName, ""),
			Zone:    ptr.Deref(e.Zone, ""),
		})
	}
	return out
}

// portNumbers returns the ports by name: one without a name has the name "", which is
// a default that files lack.
func portNumbers(ports []discoveryv1.EndpointPort) map[string]int32 {
	out := make(map[string]int32, len(ports))
	for _, p := range ports {
		if p.Port != nil {
			out[ptr.Deref(p.Name, "")] = *p.Port
		}
	}
	return out
}

func (o Objects) apiServices() map[string]APIService {
	out := make(map[string]APIService, len(o.APIServices))
	for _, a := range o.APIServices {
		api := APIService{Name: a.Name, Group: a.Spec.Group, Version: a.Spec.Version}
		if ref := a.Spec.Service; ref != nil {
			api.Service = &ServiceRef{Key: Key{ref.Namespace, ref.Name}, Port: ptr.Deref(ref.Port, defaultPort)}
		}
		out[a.Name] = api
	}
	return out
}

func (o Objects) crd(c *apiextensionsv1.CustomResourceDefinition) *CRD {
	storage, _ := apihelpers.GetCRDStorageVersion(c) // "" where there is none
	return &CRD{
		Object:         o.object(KindCRD, c),
		Resource:       Resource{Group: c.Spec.Group, Name: c.Spec.Names.Plural},
		CustomKind:     c.Spec.Names.Kind,
		Aliases:        append([]string{c.Spec.Names.Singular}, c.Spec.Names.ShortNames...),
		Namespaced:     c.Spec.Scope == apiextensionsv1.NamespaceScoped,
		Versions:       crdVersions(c),
		StorageVersion: storage,
		StoredVersions: c.Status.StoredVersions,
		SameSchemas:    o.Sources[SourceKey{Kind: KindCRD, Name: c.Name}].SameSchemas,
		// A manifest has no status, and will be served once applied.
		Established: len(c.Status.Conditions) == 0 || apihelpers.IsCRDConditionTrue(c, apiextensionsv1.Established),
	}
}

func crdVersions(c *apiextensionsv1.CustomResourceDefinition) []CRDVersion {
	return lists.Map(c.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) CRDVersion {
		return CRDVersion{Name: v.Name, Served: v.Served, Resources: crdResources(c, &v)}
	})
}

var (
	storedVerbs      = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	subresourceVerbs = []string{"get", "patch", "update"}
)

func crdResources(c *apiextensionsv1.CustomResourceDefinition,
	v *apiextensionsv1.CustomResourceDefinitionVersion,
) []Served {
	r := Resource{Group: c.Spec.Group, Name: c.Spec.Names.Plural}
	namespaced := c.Spec.Scope == apiextensionsv1.NamespaceScoped
	out := []Served{{r, v.Name, c.Spec.Names.Kind, namespaced, storedVerbs}}
	if v.Subresources != nil && v.Subresources.Status != nil {
		r.Subresource = "status"
		out = append(out, Served{r, v.Name, c.Spec.Names.Kind, namespaced, subresourceVerbs})
	}
	if v.Subresources != nil && v.Subresources.Scale != nil {
		r.Subresource = "scale"
		out = append(out, Served{r, v.Name, "Scale", namespaced, subresourceVerbs})
	}
	return out
}

// served is what discovery returned, or the built-ins of the server's version for
// files, and what the CRDs add: discovery lags behind them.
func (o Objects) served(crds map[string]*CRD) []Served {
	base := o.Discovered
	if base == nil {
		base = Builtins(o.Server, o.OpenShift)
	}
	out := make([]Served, 0, len(base)+4*len(crds))
	for _, s := range base {
		if _, custom := crds[s.Name+"."+s.Group]; !custom {
			out = append(out, s)
		}
	}
	for _, c := range crds {
		out = append(out, c.served()...)
	}
	slices.SortFunc(out, CompareServed)
	return out
}

func CompareServed(a, b Served) int {
	return cmp.Or(a.Resource.Compare(b.Resource), cmp.Compare(a.Version, b.Version))
}

func (c *CRD) served() []Served {
	if !c.Established {
		return nil
	}
	var out []Served
	for _, v := range c.Versions {
		if v.Served {
			out = append(out, v.Resources...)
		}
	}
	return out
}

// errors are what cannot be read of what is registered. The message about a URL lacks that,
// which may hold a token.
func (s *Snapshot) errors() []Error {
	var out []Error
	for _, p := range s.Policies {
		out = append(out, p.MatchResources.errors(&p.Object, "")...)
		for _, b := range p.Bindings {
			out = append(out, b.MatchResources.errors(&b.Object, "")...)
		}
	}
	for _, b := range s.Unbound {
		out = append(out, b.MatchResources.errors(&b.Object, "")...)
	}
	for _, w := range s.Webhooks {
		webhook := " of webhook " + w.Name
		out = append(out, w.MatchResources.errors(&w.Object, webhook)...)
		if reason := w.Backend.urlFault(); reason != "" && w.Object.Applied == nil {
			out = append(out, w.Object.Unreadable("reading url"+webhook+": "+reason+": must be https://HOST[:PORT][/PATH]"))
		}
	}
	return out
}

// errors are the selectors that cannot be read. Of an object that is to be applied, the API
// server refuses them: a finding says so.
func (m *MatchResources) errors(object *Object, subject string) []Error {
	var out []Error
	for _, s := range []struct {
		field string
		Selector
	}{{"namespaceSelector", m.NamespaceSelector}, {"objectSelector", m.ObjectSelector}} {
		if s.Err != nil && object.Applied == nil {
			out = append(out, object.Unreadable("reading "+s.field+subject+": "+strings.TrimSpace(s.Err.Error())))
		}
	}
	return out
}
