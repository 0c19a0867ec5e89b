package report

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Cells are what was measured of a webhook, as tables show it.
type Cells struct{ Calls, P50, P99, Failing, Refused, Share string }

// ObservedCells are the cells of a webhook or policy; "-" where nothing was measured.
func ObservedCells(o *inventory.Observation, ref inventory.Ref) Cells {
	found := newObserved(o, ref.Series())
	if found == nil {
		return Cells{"-", "-", "-", "-", "-", "-"}
	}
	c := found.cells()
	if found.Calls == 0 && found.Failing == 0 { // shares of nothing are unknown, not 0
		c.Failing, c.Refused, c.Share = "-", "-", "-"
	}
	if ref.Type != inventory.Mutating && ref.Type != inventory.Validating {
		c.Share = "-"
	}
	if ref.Type == inventory.ValidatingPolicy && found.FailedOpen == 0 {
		c.Failing = "-" // what failed and refused a request counts as refused
	}
	return c
}

func (o Observed) cells() Cells {
	return Cells{
		Calls: fmt.Sprintf("%.2f", o.CallsPerSecond),
		P50:   quantile(o.P50Seconds, o.P50Beyond), P99: quantile(o.P99Seconds, o.P99Beyond),
		Failing: impact.Percent(o.Failing), Refused: impact.Percent(o.Refused), Share: impact.Percent(o.Share),
	}
}
