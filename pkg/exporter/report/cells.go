package report

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Cells are what was measured of a webhook, as tables show it.
type Cells struct{ Calls, P50, P99, Failing, Refused, Share string }

// ObservedCells are the cells of a webhook or policy; "-" where nothing was measured.
func ObservedCells(o *inventory.Observation, ref inventory.Ref) Cells {
	return newObserved(o, ref.Series()).Cells(ref.Type)
}

// Cells are those of a webhook or policy of the type.
func (o *Observed) Cells(t inventory.Type) Cells {
	if o == nil {
		return Cells{"-", "-", "-", "-", "-", "-"}
	}
	c := Cells{
		Calls: fmt.Sprintf("%.2f", o.CallsPerSecond),
		P50:   quantile(o.P50Seconds, o.P50Beyond), P99: quantile(o.P99Seconds, o.P99Beyond),
		Failing: percent(o.Failing), Refused: percent(o.Refused), Share: percent(o.Share),
	}
	if o.Calls == 0 && o.Failing == 0 { // shares of nothing are unknown, not 0
		c.Failing, c.Refused, c.Share = "-", "-", "-"
	}
	if t != inventory.Mutating && t != inventory.Validating {
		c.Share = "-"
	}
	if t == inventory.ValidatingPolicy && o.FailedOpen == 0 {
		c.Failing = "-" // what failed and refused a request counts as refused
	}
	return c
}

// SourceLine says where observed values come from; "" without a source.
func SourceLine(o *inventory.Observation) string {
	if o == nil {
		return ""
	}
	return newObservation(o).sourceLine()
}
