package impact

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// maxListed bounds what one sentence names. The JSON report has all resources.
const maxListed = 10

// some joins the first words and counts the rest.
func some(words []string) string {
	first := words[:min(len(words), maxListed)]
	if more := len(words) - len(first); more > 0 {
		return strings.Join(first, ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(first, ", ")
}

func matched(p *classify.Profile) string {
	if p.Type == inventory.Conversion {
		return p.CRD.Resource.String()
	}
	all := func(r admissionv1.RuleWithOperations) bool {
		return slices.Contains(r.Resources, "*") || slices.Contains(r.Resources, "*/*")
	}
	if p.KnowsReach() || !slices.ContainsFunc(p.Rules, all) {
		return resources(p.Matched)
	}
	rest := "all that the API groups of its rules have, whose CRDs are not in the input"
	if len(p.Matched) == 0 {
		return rest
	}
	return resources(p.Matched) + " and " + rest
}

func resources(list []admission.MatchedResource) string {
	if len(list) == 0 {
		return "none"
	}
	var out []string
	for _, r := range list {
		out = append(out, fmt.Sprintf("%s (%s)", r.Resource, operations(r.Operations)))
	}
	return some(out)
}

func operations(ops admission.Operations) string {
	return strings.Join(lists.Strings(ops.List()), ", ")
}

// selected names the namespaces that the selector selects, where the input has all.
func selected(s *inventory.Snapshot, selector inventory.Selector) string {
	if !s.NamespacesKnown {
		return ""
	}
	names := classify.NamespacesOf(s, selector)
	switch len(names) {
	case 0:
		return ", of which this cluster has none"
	case len(s.Namespaces):
		return ", which are all of this cluster"
	}
	if len(names) == 1 {
		return ", which is one of this cluster: " + names[0]
	}
	return fmt.Sprintf(", which are %d of this cluster: %s", len(names), some(names))
}

// symptom is what the API server's errors say of the webhook.
func symptom(p *classify.Profile) string {
	if p.Type == inventory.Conversion {
		return fmt.Sprintf(`errors of clients and controllers say 'conversion webhook for %s/…, Kind=%s failed'; for the cause: webhook-auditor explain --error 'MESSAGE'`, p.CRD.Resource.Group, p.CRD.CustomKind)
	}
	if p.FailsClosed() {
		return fmt.Sprintf(`errors of clients, and Events of controllers that create Pods, say 'failed calling webhook "%s"'; a refusal on purpose says 'admission webhook "%s" denied the request'; for the cause: webhook-auditor explain --error 'MESSAGE'`, p.Name, p.Name)
	}
	return fmt.Sprintf(`the API server's log says 'failed calling webhook, failing open %s'; clients see nothing`, p.Name)
}

// ObservedInWords is what was measured of a webhook, in a line.
func ObservedInWords(o *inventory.Observation, series inventory.Series) string {
	b := o.Of(series)
	if b.Calls == 0 && b.Failed() == 0 {
		return "not called"
	}
	content := fmt.Sprintf("%.2f calls/s, p50 %s, p99 %s, %s failing", b.CallsPerSecond, Quantile(b.P50), Quantile(b.P99), Percent(b.FailedShare()))
	if kinds := slices.Sorted(maps.Keys(b.Failures)); len(kinds) > 0 {
		content += " (" + some(kinds) + ")"
	}
	return content + fmt.Sprintf(", %s refused", Percent(b.RefusedShare()))
}

// InSeconds writes seconds with three digits, as 1.2s or 35ms.
func InSeconds(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.3gms", 1000*s)
	}
	return fmt.Sprintf("%.3gs", s)
}

// Quantile writes a quantile; "-" where no call was measured.
func Quantile(q inventory.Quantile) string {
	switch {
	case !q.Known:
		return "-"
	case q.Beyond:
		return ">" + InSeconds(q.Seconds)
	}
	return InSeconds(q.Seconds)
}

// Percent writes a share; what is not nothing never shows as nothing.
func Percent(share float64) string {
	switch {
	case share == 0:
		return "0%"
	case share < 0.001:
		return "<0.1%"
	}
	return fmt.Sprintf("%.1f%%", 100*share)
}
