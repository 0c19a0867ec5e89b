package classify

import (
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestNetworkPolicyEvidence: calls that fail are a warning, as is that none was observed;
// calls that succeed, and policies that are not read, are reasons to doubt.
func TestNetworkPolicyEvidence(t *testing.T) {
	const plugin = "ciliumnetworkpolicies.cilium.io"
	observed := func(b inventory.Behavior) *inventory.Observation {
		return &inventory.Observation{Webhooks: map[inventory.Series]inventory.Behavior{{Type: inventory.Validating, Name: "deny.example.com"}: b}}
	}
	for name, tt := range map[string]struct {
		observed *inventory.Observation
		plugin   bool
		nodes    int
		want     Severity
		says     string
	}{
		"nothing observed":     {nil, false, 0, Warning, "(failurePolicy Fail)"},
		"nothing of it":        {&inventory.Observation{}, false, 3, Warning, "(failurePolicy Fail)"},
		"calls fail":           {observed(inventory.Behavior{Calls: 4, Failures: map[string]float64{"calling_webhook_error": 3}}), false, 0, Warning, "of its 4 calls that were observed 3 failed"},
		"calls fail open":      {observed(inventory.Behavior{Calls: 4, FailedOpen: 4}), true, 0, Warning, "of its 4 calls that were observed 4 failed"},
		"calls succeed":        {observed(inventory.Behavior{Calls: 4}), false, 0, Info, "of its 4 calls that were observed none failed"},
		"conditions fail":      {observed(inventory.Behavior{Calls: 4, Failures: map[string]float64{inventory.FailureMatchCondition: 3}}), false, 0, Info, "none failed"},
		"a plugin's policies":  {nil, true, 0, Info, plugin + " may do so, and is not read"},
		"a single node":        {nil, false, 1, 0, ""},
		"a plugin, calls fine": {observed(inventory.Behavior{Calls: 4}), true, 0, Info, "none failed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := fixture(t, "testdata/network-policy.yaml")
			s.Observed, s.Nodes = tt.observed, tt.nodes
			if tt.plugin {
				s.CRDs[plugin] = &inventory.CRD{}
			}
			got := &Finding{}
			for _, f := range evaluate(t, DefaultPolicy(), s).Findings {
				if f.Check == networkPolicy && f.Webhook.Name == "deny.example.com" {
					got = f
				}
			}
			if got.Severity != tt.want || !strings.HasSuffix(got.Message, tt.says) {
				t.Errorf("%s: %s", got.Severity, got.Message)
			}
		})
	}
}
