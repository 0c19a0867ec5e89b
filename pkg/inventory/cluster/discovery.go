package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"slices"
	"strings"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// discovered is what an API server says that it serves.
type discovered struct {
	groups []string
	served []inventory.Served
	// failed are the versions of which it does not know what they serve.
	failed map[schema.GroupVersion]error
}

// aggregated is the form of discovery that has everything in two documents. An API
// server older than 1.30 answers with lists of groups instead. client-go's discovery
// reads the same, but comes with the types of every API group.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

// discover reads what an API server serves, in a stable order, as far as it says so.
func discover(ctx context.Context, server rest.Interface) (discovered, error) {
	out := discovered{served: []inventory.Served{}, failed: map[schema.GroupVersion]error{}}
	for _, path := range []string{"/api", discoveryPath} {
		var contentType string
		raw, err := server.Get().AbsPath(path).SetHeader("Accept", aggregated).Do(ctx).ContentType(&contentType).Raw()
		switch {
		case path == "/api" && apierrors.IsNotFound(err):
			continue // an API server behind the aggregator has no core group
		case err != nil:
			return discovered{}, err
		case isAggregated(contentType):
			err = out.addAggregated(raw)
		default:
			err = out.addGroups(ctx, server, raw)
		}
		if err != nil {
			return discovered{}, fmt.Errorf("reading %s: %w", path, err)
		}
	}
	out.served = out.sorted()
	return out, nil
}

// sorted returns what is served in a stable order.
func (d *discovered) sorted() []inventory.Served {
	return slices.SortedFunc(slices.Values(d.served), func(a, b inventory.Served) int {
		return cmp.Or(a.Resource.Compare(b.Resource), cmp.Compare(a.Version, b.Version))
	})
}

func isAggregated(contentType string) bool {
	_, parameters, err := mime.ParseMediaType(contentType)
	return err == nil && parameters["as"] == "APIGroupDiscoveryList" && parameters["v"] == "v2"
}

func (d *discovered) addAggregated(raw []byte) error {
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	for _, group := range list.Items {
		d.groups = append(d.groups, group.Name)
		for _, version := range group.Versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			if version.Freshness == apidiscoveryv2.DiscoveryFreshnessStale {
				// In client-go's words, which users search for.
				d.failed[gv] = fmt.Errorf("stale GroupVersion discovery: %v", gv)
				continue
			}
			for _, r := range version.Resources {
				d.addResource(gv, r)
			}
		}
	}
	return nil
}

// addResource adds a resource and its subresources. A resource without a kind
// cannot be requested, but what is below it can.
func (d *discovered) addResource(gv schema.GroupVersion, r apidiscoveryv2.APIResourceDiscovery) {
	served := inventory.Served{
		Resource:   inventory.Resource{Group: gv.Group, Name: r.Resource},
		Version:    gv.Version,
		Kind:       ptr.Deref(r.ResponseKind, metav1.GroupVersionKind{}).Kind,
		Namespaced: r.Scope == apidiscoveryv2.ScopeNamespace,
		Verbs:      r.Verbs,
	}
	if served.Kind != "" {
		d.served = append(d.served, served)
	}
	for _, sub := range r.Subresources {
		served.Subresource, served.Verbs = sub.Subresource, sub.Verbs
		served.Kind = ptr.Deref(sub.ResponseKind, metav1.GroupVersionKind{}).Kind
		if served.Kind != "" {
			d.served = append(d.served, served)
		}
	}
}

// addGroups adds the versions of a list of groups, or of versions of the core group,
// each of which has a document of its own.
func (d *discovered) addGroups(ctx context.Context, server rest.Interface, raw []byte) error {
	var lists struct {
		Versions []string
		Groups   []metav1.APIGroup
	}
	if err := json.Unmarshal(raw, &lists); err != nil {
		return err
	}
	var versions []schema.GroupVersion
	for _, version := range lists.Versions {
		versions = append(versions, schema.GroupVersion{Version: version})
	}
	for _, group := range lists.Groups {
		d.groups = append(d.groups, group.Name)
		for _, version := range group.Versions {
			versions = append(versions, schema.GroupVersion{Group: group.Name, Version: version.Version})
		}
	}
	d.addVersions(ctx, server, versions)
	return nil
}

// addVersions reads the documents of the versions side by side: there are a hundred.
func (d *discovered) addVersions(ctx context.Context, server rest.Interface, versions []schema.GroupVersion) {
	lists, errs := make([]metav1.APIResourceList, len(versions)), make([]error, len(versions))
	var group sync.WaitGroup
	for i, gv := range versions {
		group.Go(func() { errs[i] = readVersionResources(ctx, server, gv, &lists[i]) })
	}
	group.Wait()
	for i, gv := range versions {
		if errs[i] != nil {
			d.failed[gv] = errs[i]
			continue
		}
		d.addList(gv, lists[i].APIResources)
	}
}

func (d *discovered) addList(gv schema.GroupVersion, resources []metav1.APIResource) {
	for _, r := range resources {
		name, sub, _ := strings.Cut(r.Name, "/")
		d.served = append(d.served, inventory.Served{
			Resource:   inventory.Resource{Group: gv.Group, Name: name, Subresource: sub},
			Version:    gv.Version,
			Kind:       r.Kind,
			Namespaced: r.Namespaced,
			Verbs:      r.Verbs,
		})
	}
}

func readVersionResources(ctx context.Context, server rest.Interface, gv schema.GroupVersion, into *metav1.APIResourceList) error {
	path := []string{discoveryPath, gv.Group, gv.Version}
	if gv.Group == corev1.GroupName {
		path = []string{"/api", gv.Version}
	}
	raw, err := server.Get().AbsPath(path...).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}
