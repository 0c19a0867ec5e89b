package exporter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestObserved: the series of API servers are gathered beside those of a registry, no more
// than the bound of each family.
func TestObserved(t *testing.T) {
	calls := &dto.MetricFamily{Name: new("webhook_auditor_observed_calls_total"), Help: new("Calls."), Type: dto.MetricType_COUNTER.Enum()}
	for i := range 100 {
		calls.Metric = append(calls.Metric, &dto.Metric{
			Label: []*dto.LabelPair{{Name: new("name"), Value: new(fmt.Sprint(i))}}, Counter: &dto.Counter{Value: new(float64(i))},
		})
	}
	observed := NewObserved(2, func() []*dto.MetricFamily { return append(ObservedServers(1, 3), calls) })
	families := must.Get(prometheus.Gatherers{prometheus.NewPedanticRegistry(), observed}.Gather())(t)
	var got strings.Builder
	for _, f := range families {
		m := f.Metric[len(f.Metric)-1]
		got.WriteString(fmt.Sprintf("%s %s %d %g\n", f.GetName(), f.GetType(), len(f.Metric), m.GetCounter().GetValue()+m.GetGauge().GetValue()))
	}
	const want = "webhook_auditor_apiservers GAUGE 1 3\nwebhook_auditor_observed_apiservers GAUGE 1 1\nwebhook_auditor_observed_calls_total COUNTER 16 "
	if len(got.String()) < len(want) || got.String()[:len(want)] != want {
		t.Errorf("got\n%swant\n%s…", got.String(), want)
	}
}
