package impact

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// maxListed bounds what one sentence names. The JSON report has all resources.
const maxListed = 10

// some joins the first words and counts the rest.
func some(words []string) string {
	shown := words[:min(len(words), maxListed)]
	if more := len(words) - len(shown); more > 0 {
		return strings.Join(shown, ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(shown, ", ")
}

func installed(r *inventory.Registration) string {
	if owner := r.Object.Owner.String(); owner != "" {
		return ", installed by " + owner
	}
	return ""
}

// ruleInWords writes a rule as prose.
func ruleInWords(r *admissionv1.RuleWithOperations) string {
	var ops []string
	for _, op := range r.Operations {
		if op == admissionv1.OperationAll {
			ops = []string{"every operation"}
			break
		}
		ops = append(ops, string(op))
	}
	text := some(ops) + " on " + anyOr(r.Resources, "every resource") + " of " + groups(r.APIGroups)
	if !slices.Contains(r.APIVersions, "*") {
		text += " in " + some(r.APIVersions)
	}
	switch scope := ptr.Deref(r.Scope, admissionv1.AllScopes); scope {
	case admissionv1.NamespacedScope:
		text += ", namespaced ones"
	case admissionv1.ClusterScope:
		text += ", cluster-scoped ones"
	case admissionv1.AllScopes:
	}
	return text
}

func anyOr(words []string, all string) string {
	if slices.Contains(words, "*/*") {
		return all + " and subresource"
	}
	if slices.Contains(words, "*") {
		return all
	}
	return some(words)
}

func groups(list []string) string {
	if slices.Contains(list, "*") {
		return "every API group"
	}
	var out []string
	for _, g := range list {
		if g == "" {
			g = "the core API group"
		}
		out = append(out, g)
	}
	return some(out)
}

// matched lists the resources that the webhook is called for, with operations.
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

func operations(ops admission.Operations) string { return strings.Join(text.Strings(ops.List()), ", ") }

// selected names the namespaces that the selector selects, where all are known.
func selected(s *inventory.Snapshot, selector inventory.Selector) string {
	if !s.NamespacesKnown {
		return ""
	}
	names := namespacesOf(s, selector)
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

func conversionInWords(p *classify.Profile) string {
	return fmt.Sprintf("it converts %s between the versions %s; objects are stored in %s", p.CRD.Resource, some(p.CRD.ServedVersions()), p.CRD.StorageVersion)
}

func conversionDown(p *classify.Profile) string {
	switch p.Matcher.ConversionNeed(p.CRD) {
	case admission.NeverConverted:
		return "nothing happens: only one version is in use, so nothing calls it"
	case admission.ClientsConvert:
		return fmt.Sprintf("clients of versions of %s other than %s get errors", p.CRD.Resource, p.CRD.StorageVersion)
	}
	return fmt.Sprintf("objects of %s that are stored in another version cannot be read: garbage collection, namespace deletion in the whole cluster and resource quota stop", p.CRD.Resource)
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

// observedInWords describes what was measured of a webhook of the type. Conversions
// are no part of the time that all admission webhooks took.
func observedInWords(o *inventory.Observation, of inventory.Type, b inventory.Behavior) string {
	if b.Calls == 0 && b.Failed() == 0 {
		return "it was not called"
	}
	text := fmt.Sprintf("%.3g calls a second", b.CallsPerSecond)
	if b.P50.Known {
		text += fmt.Sprintf(", half of them within %s, 99 of 100 within %s", quantile(b.P50), quantile(b.P99))
	}
	if b.Failed() > 0 {
		kinds := slices.Sorted(maps.Keys(b.Failures))
		if b.FailedOpen > 0 {
			kinds = append(kinds, "failed open")
		}
		text += fmt.Sprintf(", %s failed (%s)", percent(b.FailedShare()), some(kinds))
	}
	if b.Refused > 0 {
		text += fmt.Sprintf(", %s refused on purpose", percent(b.RefusedShare()))
	}
	if share := o.Share(b); of != inventory.Conversion && share > 0 {
		text += fmt.Sprintf(", %s of the time that all admission webhooks took", percent(share))
	}
	return text
}

// InSeconds writes seconds with three digits, as 1.2s or 35ms.
func InSeconds(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.3gms", 1000*s)
	}
	return fmt.Sprintf("%.3gs", s)
}

func quantile(q inventory.Quantile) string {
	if q.Beyond {
		return "more than " + InSeconds(q.Seconds)
	}
	return InSeconds(q.Seconds)
}

// percent writes a share with three digits.
func percent(share float64) string { return fmt.Sprintf("%.3g%%", 100*share) }
