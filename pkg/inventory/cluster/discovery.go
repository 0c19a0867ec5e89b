package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

type discovered struct {
	groups []string
	served []inventory.Served
	// failed are the versions of which it does not know what they serve.
	failed map[schema.GroupVersion]error
}

// aggregated is the form of discovery that has everything in two documents; API servers
// from 1.27 to 1.29 have it as v2beta1. client-go's discovery reads the same, but comes
// with the types of every API group.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"

// errUnaggregated is of an older API server, which answers with a list of groups.
var errUnaggregated = errors.New("it is no aggregated discovery, which API servers have since 1.27: upgrade the cluster")

// discover reads what an API server serves, in a stable order, as far as it says so.
func discover(ctx context.Context, server rest.Interface) (discovered, error) {
	out := discovered{served: []inventory.Served{}, failed: map[schema.GroupVersion]error{}}
	for _, path := range []string{"/api", discoveryPath} {
		var contentType string
		raw, err := server.Get().AbsPath(path).SetHeader("Accept", aggregated).Do(ctx).ContentType(&contentType).Raw()
		_, media, _ := mime.ParseMediaType(contentType) // one that is none is not aggregated
		switch {
		case path == "/api" && apierrors.IsNotFound(err):
			continue // an API server behind the aggregator has no core group
		case err != nil:
			return discovered{}, err
		case media["as"] == "APIGroupDiscoveryList":
			err = out.addAggregated(raw)
		default:
			err = errUnaggregated
		}
		if err != nil {
			return discovered{}, fmt.Errorf("reading %s: %w", path, err)
		}
	}
	slices.SortFunc(out.served, inventory.CompareServed)
	return out, nil
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
