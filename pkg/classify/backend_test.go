package classify

import (
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestFaultOfOneRouting: a Service of type ExternalName is called while the API server
// routes to cluster IPs, which it does by default. Where that is unknown, the fault
// depends on it.
func TestFaultOfOneRouting(t *testing.T) {
	for routing, want := range map[inventory.Routing]string{
		inventory.RoutingUnknown:   "with --enable-aggregator-routing=true, ",
		inventory.RoutingEndpoints: "each CREATE and UPDATE of pods is refused: ",
		inventory.RoutingClusterIP: "",
	} {
		service := kubetest.Service("policy", "external")
		service.Spec.Type, service.Spec.ExternalName = "ExternalName", "hooks.example.com"
		var o inventory.Objects
		o.Routing, o.ServicesKnown.All = routing, true
		o.Services = append(o.Services, service)
		o.Validating = append(o.Validating, kubetest.Validating("external", hookOn("policy", "external", "", "pods")))
		got := findingOf(evaluate(t, DefaultPolicy(), o.Snapshot(taken)), serviceUnroutable).Brief
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q: %q, want %q", routing, got, want)
		}
	}
}
