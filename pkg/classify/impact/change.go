// Package impact says what one webhook adds to a cluster, and what happens to
// requests when a backend, a node or a configuration goes away. It is derived
// from a Report alone.
package impact

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Change is what goes away: the endpoints of Services, those on nodes, and
// configurations.
type Change struct {
	Services       []inventory.Key
	Nodes          []string
	Configurations []string
}

// UnknownError is a name in a Change that the Snapshot does not have.
type UnknownError struct {
	// What completes "no …": a Service, a node or a configuration.
	What, Name string
	// Known are all names of the kind.
	Known []string
}

// Error implements error.
func (e UnknownError) Error() string { return fmt.Sprintf("no %s %q", e.What, e.Name) }

// Check returns an UnknownError for the first name that the Snapshot does not
// have.
func (c Change) Check(s *inventory.Snapshot) error {
	services, nodes, configurations := calledServices(s), nodesOf(s), configurationsOf(s)
	for _, key := range c.Services {
		if _, known := services[key]; !known {
			return UnknownError{"Service of a webhook", key.String(), names(services)}
		}
	}
	for _, node := range c.Nodes {
		if !slices.Contains(nodes, node) {
			return UnknownError{"node with an endpoint of a Service", node, nodes}
		}
	}
	for _, name := range c.Configurations {
		if !slices.Contains(configurations, name) {
			return UnknownError{"webhook configuration", name, configurations}
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

func names(services map[inventory.Key]int32) []string {
	var out []string
	for _, key := range slices.SortedFunc(maps.Keys(services), inventory.Key.Compare) {
		out = append(out, key.String())
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

// Apply returns the Snapshot after the Change.
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
		if _, known := s.Services[key]; !known { // files without Services: it was there, and is down
			out.Services[key] = inventory.Service{Key: key, Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Port: ports[key]}}}
		}
		out.EndpointsKnown.Services[key] = true
	}
	out.Webhooks = slices.DeleteFunc(slices.Clone(s.Webhooks), func(w *inventory.Webhook) bool {
		return w.Type != inventory.Conversion && slices.Contains(c.Configurations, w.Configuration)
	})
	return &out
}

// String says what goes away, as the subject of a sentence.
func (c Change) String() string {
	var parts []string
	for _, key := range c.Services {
		parts = append(parts, "Service "+key.String()+" down")
	}
	for _, node := range c.Nodes {
		parts = append(parts, "node "+node+" drained")
	}
	for _, name := range c.Configurations {
		parts = append(parts, "configuration "+name+" deleted")
	}
	return strings.Join(parts, ", ")
}

// Evaluate compares the Report before the Change with that after it.
func (c Change) Evaluate(ctx context.Context, policy classify.Policy, before *classify.Report) (*Consequences, error) {
	after, err := policy.Evaluate(ctx, c.Apply(before.Snapshot))
	if err != nil {
		return nil, err
	}
	return compare(c, before, after), nil
}
