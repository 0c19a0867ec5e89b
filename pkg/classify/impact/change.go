// Package impact says what one webhook adds to a cluster, and what happens to
// requests when a backend, a node or a configuration goes away. It is derived
// from a Report alone.
package impact

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Change is what goes away: the endpoints of Services, those on nodes, and
// configurations.
type Change struct {
	Services       []inventory.Key
	Nodes          []string
	Configurations []Configuration
}

// Configuration names a webhook configuration: of both types where it has none.
type Configuration struct {
	Type inventory.Type
	Name string
}

// String returns the name, after the resource where there is a type.
func (c Configuration) String() string {
	if c.Type == "" {
		return c.Name
	}
	return c.Type.Title() + "webhookconfiguration/" + c.Name
}

func (c Configuration) resource() string {
	if c.Type == "" {
		return "webhook configuration"
	}
	return c.Type.Title() + " webhook configuration"
}

func (c Configuration) registers(w *inventory.Webhook) bool {
	return w.Type != inventory.Conversion && w.Configuration == c.Name && (c.Type == "" || c.Type == w.Type)
}

func (c Change) subjects() Gone {
	out := Gone{Nodes: c.Nodes}
	for _, key := range c.Services {
		out.Down = append(out.Down, key.String())
	}
	for _, d := range c.Configurations {
		out.Delete = append(out.Delete, d.String())
	}
	return out
}

// Missing are the nodes of the Change of which the Snapshot has no endpoint and no
// Pod: where it does not know the nodes, whether they exist must be asked elsewhere.
func (c Change) Missing(s *inventory.Snapshot) []string {
	nodes := nodesOf(s)
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(node string) bool { return slices.Contains(nodes, node) })
}

// UnknownError is a name in a Change that the Snapshot does not have.
type UnknownError struct {
	// What completes "no …": a Service, a node or a configuration.
	What, Name string
	Known      []string
}

func (e UnknownError) Error() string { return fmt.Sprintf("no %s %q", e.What, e.Name) }

// Check returns an UnknownError for the first name that the Snapshot does not
// have.
func (c Change) Check(s *inventory.Snapshot) error {
	services := calledServices(s)
	for _, key := range c.Services {
		if _, ok := services[key]; !ok {
			return UnknownError{"webhook that calls Service", key.String(), keyNames(slices.Collect(maps.Keys(services)))}
		}
	}
	for _, node := range c.Missing(s) {
		if len(s.Nodes) > 0 && !slices.Contains(s.Nodes, node) {
			return UnknownError{"node", node, s.Nodes}
		}
	}
	for _, d := range c.Configurations {
		if !slices.ContainsFunc(s.Webhooks, d.registers) {
			return UnknownError{d.resource(), d.Name, configurationsOf(s)}
		}
	}
	return nil
}

// calledServices are the Services that webhooks call, with the port that they call.
func calledServices(s *inventory.Snapshot) map[inventory.Key]int32 {
	out := map[inventory.Key]int32{}
	for i := range s.Webhooks {
		if ref := s.State(s.Webhooks[i].Backend).Service; ref.Name != "" {
			out[ref.Key] = ref.Port
		}
	}
	return out
}

// nodesOf are the nodes that the Snapshot has of endpoints and Pods.
func nodesOf(s *inventory.Snapshot) []string {
	found := map[string]bool{}
	for _, service := range s.Services {
		for _, e := range service.Endpoints {
			found[e.Node] = true
		}
	}
	for _, w := range s.Workloads {
		for _, node := range w.Nodes {
			found[node] = true
		}
	}
	delete(found, "")
	return slices.Sorted(maps.Keys(found))
}

// configurationsOf are those that can be deleted: to delete a CRD is to delete
// its objects, which is another question.
func configurationsOf(s *inventory.Snapshot) []string {
	found := map[string]bool{}
	for i := range s.Webhooks {
		if s.Webhooks[i].Type != inventory.Conversion {
			found[s.Webhooks[i].Configuration] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func (c Change) Apply(s *inventory.Snapshot) *inventory.Snapshot {
	out := *s
	ports := calledServices(s)
	out.EndpointsKnown.Services = map[inventory.Key]bool{}
	maps.Copy(out.EndpointsKnown.Services, s.EndpointsKnown.Services)
	out.Services = make(map[inventory.Key]inventory.Service, len(s.Services))
	for key, service := range s.Services {
		before := len(service.Endpoints)
		service.Endpoints = slices.DeleteFunc(slices.Clone(service.Endpoints), func(e inventory.Endpoint) bool {
			return slices.Contains(c.Services, key) || e.Node != "" && slices.Contains(c.Nodes, e.Node)
		})
		if len(service.Endpoints) < before { // what the input has of it counts as all
			out.EndpointsKnown.Services[key] = true
		}
		out.Services[key] = service
	}
	for _, key := range c.Services {
		if s.IsMissing(key) { // it is down already
			continue
		} else if _, exists := s.Services[key]; !exists { // files without Services: it was there, and is down
			out.Services[key] = inventory.Service{
				Key: key, Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"": ""},
				Ports: []corev1.ServicePort{{Port: ports[key]}},
			}
		}
		out.EndpointsKnown.Services[key] = true
	}
	out.Webhooks = slices.DeleteFunc(slices.Clone(s.Webhooks), func(w *inventory.Webhook) bool {
		return slices.ContainsFunc(c.Configurations, func(d Configuration) bool { return d.registers(w) })
	})
	return &out
}

// Evaluate compares the Report before the Change with that after it.
func (c Change) Evaluate(ctx context.Context, policy classify.Policy, before *classify.Report) (*Consequences, error) {
	after, err := policy.Evaluate(ctx, c.Apply(before.Snapshot))
	if err != nil {
		return nil, err
	}
	out := compare(func() bool { return ctx.Err() == nil }, c, before, after)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("comparing %d webhooks: %w", len(before.Profiles), ctx.Err())
	}
	return out, nil
}
