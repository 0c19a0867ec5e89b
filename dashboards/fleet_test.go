package dashboards

import (
	_ "embed"
	"testing"
)

// threeClusters are what the rules record of a cluster whose webhook fails, of a healthy
// one with an old auditor, and of one whose auditor is gone.
//
//go:embed testdata/clusters.txt
var threeClusters string

// TestFleet evaluates the tables of the board about all clusters: with two replicas of a
// record, without anything wrong, and without a record.
func TestFleet(t *testing.T) {
	const well = `
  cluster:webhook_auditor_webhooks_failing:count{cluster="good"} 0x20
  cluster:webhook_auditor_snapshot_timestamp_seconds:max{cluster="good"} 0+60x20
  cluster_version:webhook_auditor_build_info:top2{cluster="good",version="v1"} 1x20
  clusters:webhook_auditor_webhook_info:count{type="admit",configuration="mesh",name="sidecar.example.com",failure_policy="Fail"} 1x20
  clusters:webhook_auditor_configurations:count{type="admit",configuration="mesh"} 1x20
`
	for _, test := range []struct {
		panel     Panel
		bad, well []map[string]string
	}{
		{badClustersPanel(), []map[string]string{{"cluster": "bad", "failing": "1", "critical": "2", "slow": "-", "age": "0"}}, []map[string]string{{"cluster": "None is in trouble"}}},
		{failingPanel(), []map[string]string{{"name": "sidecar.example.com", "type": "admit", "of": "3", "share": "0.25"}}, []map[string]string{{"name": "None fails"}}},
		{slowestPanel(), []map[string]string{{"cluster": "good", "name": "sidecar.example.com"}}, nil},
		{withoutAuditorPanel(), []map[string]string{{"cluster": "gone"}}, []map[string]string{{"cluster": "Each has one"}}},
		{outdatedPanel(), []map[string]string{{"cluster": "good", "version": "v1", "most": "v2"}}, []map[string]string{{"cluster": "None"}}},
		{driftPanel(), []map[string]string{
			{"name": "gateway.example.com", "failure_policy": "not registered"},
			{"name": "sidecar.example.com", "failure_policy": "Ignore", "timeout": "-"},
		}, []map[string]string{{"name": "None"}}},
	} {
		t.Run(test.panel.Title, func(t *testing.T) {
			for series, want := range map[string][]map[string]string{threeClusters: test.bad, well: test.well, "": nil} {
				got := rows(t, series, test.panel.Queries[0].Expr)
				if len(got) != len(want) {
					t.Fatalf("%d rows: %v", len(got), got)
				}
				for i := range want {
					for label, value := range want[i] {
						if got[i][label] != value {
							t.Errorf("%s is %q, not %q, in %v", label, got[i][label], value, got[i])
						}
					}
				}
			}
		})
	}
}

// TestFleetTotals: the numbers are those of the tables below, and unknown where nothing
// is recorded.
func TestFleetTotals(t *testing.T) {
	for i, want := range []int{3, 1, 1, 1, 1} {
		panel := fleetTotals()[i]
		if got := values(t, threeClusters, panel.Queries[0].Expr); len(got) != 1 || got[0] != float64(want) {
			t.Errorf("%s is %v, not %d", panel.Title, got, want)
		}
		if got := values(t, "", panel.Queries[0].Expr); len(got) != 0 {
			t.Errorf("%s is %v where nothing is recorded", panel.Title, got)
		}
	}
}
