package report

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
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
	out := &Table{Headings: headings}
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
	return []string{line.Name, line.Type.Title(), c.Calls, c.P50, c.P99, c.Failing, c.Refused, c.Share, registeredBy(line)}
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
		names := text.Words(t.NotCalled, func(line TopWebhook) string { return line.Name })
		out = append(out, fmt.Sprintf("Registered, but not called in that time: %s.", shortenLists(strings.Join(names, ", "))))
	}
	return append(out, SourceLine(t.Observation))
}

func quantile(seconds *float64, beyond bool) string {
	return impact.Quantile(inventory.Quantile{Seconds: ptr.Deref(seconds, 0), Known: seconds != nil, Beyond: beyond})
}
