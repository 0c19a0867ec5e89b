package classify

import "testing"

// TestStockClusterIsSilent: what a stock OpenShift cluster registers yields
// nothing at all, because the Policy knows it by name: each name of the Policy
// is in the fixture, and a Policy that knew none would find something.
func TestStockClusterIsSilent(t *testing.T) {
	const file = "testdata/stock/openshift.yaml"
	for _, f := range judged(t, file).Findings {
		t.Errorf("%s of %s: %s", f.Check.Name, f.Webhook.Name, f.Message)
	}
	stock := fixture(t, file)
	for _, name := range platformWebhooks {
		registered := false
		for _, w := range stock.Webhooks {
			registered = registered || w.Configuration == name || w.Name == name
		}
		if !registered {
			t.Errorf("no webhook or configuration of the fixture is called %s", name)
		}
	}
	ignorant := DefaultPolicy()
	ignorant.PlatformWebhooks = nil
	if len(evaluate(t, ignorant, stock).Findings) == 0 {
		t.Error("the names make no difference")
	}
}
