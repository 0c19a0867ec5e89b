package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Text has tables, as kubectl top has them.
func (t Top) Text(TextOptions) Blocks {
	out := Blocks{{Table: topTable(topHeadings, t.Webhooks, topCells)}}
	if len(t.Policies) > 0 {
		out = append(out, Block{Table: topTable(policyHeadings, t.Policies, policyCells)})
	}
	return append(out, Block{Lines: Sentences(topNotes(t)...)}).NonEmpty()
}

// topTable has a row for each of the lines.
func topTable(headings []string, lines []TopWebhook, cells func(TopWebhook) []string) *Table {
	out := &Table{Headings: headings, Spare: []string{"Configuration", "Binding", "Type", "p50", "Share"}}
	for _, line := range lines {
		out.Rows = append(out.Rows, cells(line))
	}
	return out
}

var policyHeadings = []string{"Policy", "Type", "Counted/s", "Denied/s", "Failed/s", "p50", "p99", "Binding"}

// policyCells are those of a policy. One that mutates denies nothing; of one that
// validates, no failure that refused a request is known to be one.
func policyCells(line TopWebhook) []string {
	o := line.Observed
	denied, failed := fmt.Sprintf("%.2f", o.CallsPerSecond*o.Refused), fmt.Sprintf("%.2f", o.CallsPerSecond*o.Failing)
	switch {
	case line.Type == inventory.MutatingPolicy:
		denied = "-"
	case o.FailedOpen == 0:
		failed = "-"
	}
	c := o.cells()
	return []string{line.Name, line.Type.Title(), c.Calls, denied, failed, c.P50, c.P99, registeredBy(line)}
}

var topHeadings = []string{"Name", "Type", "Calls/s", "p50", "p99", "Failing", "Refused", "Share", "Configuration"}

func topCells(line TopWebhook) []string {
	c := line.Observed.cells()
	if line.Type == inventory.Conversion {
		c.Share = "-"
	}
	return []string{
		line.Name, line.Type.Title(), c.Calls, c.P50, c.P99, c.Failing, c.Refused, c.Share, registeredBy(line),
	}
}

// registeredBy names the configurations that share the name.
func registeredBy(line TopWebhook) string {
	if len(line.Configurations) == 0 {
		return "(not registered)"
	}
	return shortenLists(strings.Join(line.Configurations, ", "))
}

// policyCounts says what the counters of policies lack.
const policyCounts = "Of policies that validate, the API server counts failed checks alone, and with failurePolicy Fail an expression that fails as a denial."

func topNotes(t Top) []string {
	if t.Observation == nil {
		return nil
	}
	var out []string
	if len(t.Webhooks) == 0 {
		out = append(out, "No webhook was called.")
	}
	out = append(out, timeoutNotes(t.Webhooks)...)
	if slices.ContainsFunc(t.Policies, func(line TopWebhook) bool { return line.Type == inventory.ValidatingPolicy }) {
		out = append(out, policyCounts)
	}
	if len(t.NotCalled) > 0 {
		names := lists.Map(t.NotCalled, func(line TopWebhook) string { return line.Name })
		out = append(out, fmt.Sprintf("Registered, but not called in that time: %s.", shortenLists(strings.Join(names, ", "))))
	}
	return append(out, SourceLine(t.Observation))
}

func quantile(seconds *float64, beyond bool) string {
	return impact.Quantile(inventory.Quantile{Seconds: ptr.Deref(seconds, 0), Known: seconds != nil, Beyond: beyond})
}

// maxSlow bounds the webhooks of which a text says how many calls are slow.
const maxSlow = 5

// timeoutNotes say of which webhooks calls took longer than the default timeout, and which
// timeout would have been enough for the others. Of calls that fail, the time says nothing.
func timeoutNotes(lines []TopWebhook) []string {
	var out []string
	bySlow := slices.SortedStableFunc(slices.Values(lines),
		func(a, b TopWebhook) int { return cmp.Compare(b.Observed.SlowShare, a.Observed.SlowShare) })
	most, measured, failing := 0.0, 0, false
	for _, line := range bySlow {
		o := line.Observed
		switch {
		case o.Failing > 0:
			failing = true
		case o.EnoughSeconds == nil:
		case o.SlowShare > 0 && len(out) < maxSlow:
			out = append(out, fmt.Sprintf("%s: %s of its calls took longer than %d s; a timeout of %s would have been enough for 99.9%% of them.",
				line.Name, impact.Percent(o.SlowShare), inventory.SlowSeconds, timeoutText(o)))
		case !o.EnoughBeyond:
			most, measured = max(most, *o.EnoughSeconds), measured+1
		}
	}
	if measured > 0 {
		which := "each webhook"
		if len(out) > 0 || failing {
			which = "each other webhook"
		}
		out = append(out, fmt.Sprintf("A timeout of %g s would have been enough for 99.9%% of the calls of %s.", math.Ceil(most), which))
	}
	return out
}

// timeoutText is a timeout in whole seconds, as registrations have it.
func timeoutText(o Observed) string {
	if o.EnoughBeyond {
		return fmt.Sprintf("more than %g s", *o.EnoughSeconds)
	}
	return fmt.Sprintf("%g s", math.Ceil(*o.EnoughSeconds))
}
