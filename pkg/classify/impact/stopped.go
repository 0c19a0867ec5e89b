package impact

import (
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Stopped is what stops now, as webhooks fail that refuse requests without them: functions
// of the cluster first, then writes of resources that no function needs.
func Stopped(r *classify.Report) []string {
	profiles := r.ByRef()
	var functions, writes []string
	for _, f := range r.Findings {
		p := profiles[f.Webhook]
		if p == nil || f.Acknowledged || f.Severity != classify.Critical || !f.Check.Fails {
			continue
		}
		stops := StopsOf(p)
		functions = append(functions, stops...)
		if len(stops) == 0 {
			for _, m := range p.Matched {
				writes = append(writes, m.Resource.String())
			}
		}
	}
	functions = distinct(functions)
	if len(writes) > 0 {
		functions = append(functions, "writes of "+strings.Join(text.Distinct(writes), ", "))
	}
	return functions
}

// StopsOf names what stops without the webhook, and in how many namespaces where that is
// known.
func StopsOf(p *classify.Profile) []string {
	if !p.FailsClosed() {
		return nil
	}
	var out []string
	for _, stop := range Stops(p) {
		text := stop.Function
		if p.Snapshot.NamespacesKnown && p.NamespaceSelector.Parsed != nil && !p.NamespaceSelector.Empty() {
			text += " in " + inventory.Counted(len(SelectedNamespaces(p)), "namespace")
		}
		out = append(out, text)
	}
	return out
}

// distinct keeps the first of equal words, in their order.
func distinct(words []string) []string {
	var out []string
	for _, w := range words {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}
