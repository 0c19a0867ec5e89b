// Package apply sends manifests to an API server as kubectl apply does.
package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// Objects reads the documents of a YAML or JSON file, without empty ones.
func Objects(manifest []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading manifest: %w", err)
		}
		if len(object.Object) > 0 {
			out = append(out, object)
		}
	}
}

// Client applies objects of any kind the server serves.
type Client struct {
	dynamic   dynamic.Interface
	discovery discovery.DiscoveryInterface
}

// New makes a Client.
func New(config *rest.Config) (*Client, error) {
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a dynamic client: %w", err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	return &Client{dynamic: d, discovery: discoverer}, nil
}

// Apply creates the objects or brings them to the wanted state, in order.
func (c *Client) Apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	groups, err := restmapper.GetAPIGroupResources(c.discovery)
	if err != nil {
		return fmt.Errorf("discovering resources: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	for _, object := range objects {
		if err := c.apply(ctx, mapper, object); err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

func (c *Client) apply(ctx context.Context, mapper meta.RESTMapper, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var client dynamic.ResourceInterface = c.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		client = c.dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	_, err = client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "e2e", Force: true})
	return err
}
