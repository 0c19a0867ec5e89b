package impact

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Cards are those of a configuration, of one webhook of it where a name is given,
// or of all webhooks of that name where no configuration is.
func Cards(r *classify.Report, configuration, name string) []Card {
	var out []Card
	for _, p := range r.Profiles {
		if (configuration == "" || p.Configuration == configuration) && (name == "" || p.Name == name) {
			out = append(out, NewCard(r, p))
		}
	}
	return out
}

func NewCard(r *classify.Report, p *classify.Profile) Card {
	commands, wayOut, evidence := p.Commands(), "the commands below", measured(r, p)
	if commands.Reverts != "" {
		wayOut += "; " + commands.Reverts
	}
	if classify.CoversPods(p.Matched) {
		wayOut += "; " + classify.Late
	}
	c := Card{
		Profile: p, Name: p.Name, Sections: sections(webhookAnswers(r, p, evidence)),
		Title:    fmt.Sprintf("%s%s, calls %s", Named(p.Ref), installed(&p.Registration), p.Webhook.Backend),
		Commands: append([]string{commands.Disable}, commands.Restart...),
		Summary:  append(failsNow(r, p.Ref), Fact{"called for", calledFor(p)}, Fact{"if it fails", ifItFails(p)}, Fact{"stops", stopsOf(p)}),
	}
	if elsewhere := classify.ReadyElsewhere(p); elsewhere != "" {
		c.Summary = append(c.Summary, Fact{"readiness", elsewhere})
	}
	c.Summary = append(append(c.Summary, evidence...), Fact{"way out", wayOut})
	return c
}

// failsNow is what calls fail for at present.
func failsNow(r *classify.Report, ref inventory.Ref) []Fact {
	var out []Fact
	for _, f := range r.Findings {
		if f.Webhook == ref && f.Check.Fails() && !f.Acknowledged {
			out = append(out, Fact{"now", cmp.Or(f.Brief, f.Message)})
		}
	}
	return out
}

// wordOfType is the text for a webhook of its type.
func wordOfType(p *classify.Profile, mutating, validating, conversion string) string {
	switch p.Type {
	case inventory.Mutating:
		return mutating
	case inventory.Validating:
		return validating
	}
	return conversion
}

// webhookAnswers are the answers to the questions, of a webhook.
func webhookAnswers(r *classify.Report, p *classify.Profile, evidence []Fact) map[string]Answer {
	commands := p.Commands()
	effects := []string{fmt.Sprintf("adds up to %s to each ", text.Seconds(p.Timeout)) + wordOfType(p, "request that it is called for, beside the other mutating webhooks",
		"request that it is called for; of validating webhooks, which are called at once, the slowest counts", "object that is read or written in another version than it is stored in")}
	if p.Reinvocation == admissionv1.IfNeededReinvocationPolicy {
		effects = append(effects, "as much again where it is called again (reinvocationPolicy IfNeeded)")
	}
	effects = append(effects, lists.Map(evidence, func(fact Fact) string { return fact.Label + ": " + fact.Text })...)
	failures := append([]string{"the backend is gone, cannot be reached, or its certificate does not match the CA bundle: " + ifItFails(p)}, drains(p)...)
	if len(p.MatchConditions) > 0 {
		consequence := "passes"
		if p.FailsClosed() {
			consequence = "is refused"
		}
		failures = append(failures, fmt.Sprintf("a matchCondition cannot be evaluated: with failurePolicy %s the request %s", p.FailurePolicy, consequence))
	}
	failures = append(failures, wordOfType(p, "it answers with a patch that does not apply: the request is refused, whatever the failurePolicy",
		"it refuses requests that it should not: these fail with its message", "it answers with an object that is not the one it was sent: reading it fails"))
	disable := disabling(commands)
	if others := siblings(p); len(others) > 0 {
		disable.Answers = append(disable.Answers, "the command disables all of its configuration, also "+some(others))
	}
	return map[string]Answer{
		"adds": {Answers: webhookAdds(p)},
		"modifies": {
			Answers:  []string{wordOfType(p, "it may change and refuse the objects that it is called for", "it may refuse the objects that it is called for; it changes none", "objects are read and written in all served versions, each conversion by a call")},
			ToFillIn: []string{wordOfType(p, "which fields of which objects it sets, and to what", "what it refuses, and why", "what is lost between the versions, if anything")},
		},
		"slis":    {Queries: queries(p)},
		"effects": {Answers: effects},
		"measuring": {
			Answers:  []string{fmt.Sprintf("by the queries above: its 99th percentile must stay below %gs, the threshold of the alerts", p.Threshold)},
			Commands: []string{"webhook-auditor top --observe=apiserver"},
			ToFillIn: []string{"when it is measured (each release, or in CI), and by whom"},
		},
		"failure-modes":  {Answers: failures, ToFillIn: []string{"failures of its own, and what it needs besides (other Services, caches, external systems)"}},
		"cluster-health": {Answers: webhookHealth(p)},
		"teams":          teams(p.Object),
		"detection": {
			Answers:  append([]string{symptom(p)}, foundNow(r, p.Ref)...),
			Queries:  []Query{{"alerts on it that fire", fmt.Sprintf("ALERTS{alertstate=\"firing\",%s}", selector(p, "name"))}},
			Commands: commands.Inspect,
		},
		"disabling": disable,
		"disabled-cluster": {Answers: []string{wordOfType(p, "requests no longer wait for it, and none are refused by it", "requests no longer wait for it, and none are refused by it",
			"with strategy None objects change their apiVersion alone: fields that the versions spell differently are lost when such an object is written")}},
		"disabled-running": {
			Answers:  []string{wordOfType(p, untouched, untouched, "Pods run on; controllers of the resource meet objects as they are stored")},
			ToFillIn: []string{"what else its backend does for running workloads (as a controller, say)"},
		},
		"disabled-new": {
			Answers: []string{wordOfType(p, "new and changed objects lack what it sets, until they are created anew", "new and changed objects are not checked by it",
				"objects that are created in another version than is stored are stored without conversion")},
			ToFillIn: []string{"whether workloads work without that"},
		},
		"resuming": {
			Answers:  []string{"it is called again within seconds of its registration; objects that were written meanwhile are not seen until they are written again"},
			Commands: append([]string{commands.Restore}, commands.Restart...),
			ToFillIn: []string{"what must be repaired in objects that were written meanwhile"},
		},
	}
}

// untouched is what becomes of objects while nothing looks at requests.
const untouched = "objects that exist stay as they are: admission is about requests"

func webhookAdds(p *classify.Profile) []string {
	out := []string{fmt.Sprintf("the %s webhook %s, registered by %s %s%s: it calls %s, and a call may take %s",
		p.Type.Title(), p.Name, p.Object.Kind, p.Configuration, installed(&p.Registration), p.Webhook.Backend,
		text.Seconds(p.Timeout))}
	if p.Type == inventory.Conversion {
		return append(out, calledFor(p))
	}
	for i := range p.Rules {
		out = append(out, "it is called for "+ruleText(&p.Rules[i]))
	}
	return append(append(out, filters(p)...), covers(p.Matched))
}

func siblings(p *classify.Profile) []string {
	var out []string
	for _, w := range p.Snapshot.Webhooks {
		if w.Type == p.Type && w.Configuration == p.Configuration && w.Index != p.Index {
			out = append(out, w.Name)
		}
	}
	return out
}

func calledFor(p *classify.Profile) string {
	if p.Type == inventory.Conversion {
		switch p.Matcher.ConversionNeed(p.CRD) {
		case admission.NeverConverted:
			return fmt.Sprintf("no conversion of %s: only version %s is in use", p.CRD.Resource, p.CRD.StorageVersion)
		case admission.Unserved:
			return fmt.Sprintf("no conversion of %s: no version of it is served", p.CRD.Resource)
		}
		// All, as one that is not served may be stored or asked for.
		versions := lists.Distinct(slices.Concat(p.CRD.VersionNames(), p.CRD.StoredVersions))
		return fmt.Sprintf("conversions of %s between the versions %s; objects are stored in %s", p.CRD.Resource, some(versions), p.CRD.StorageVersion)
	}
	if p.KnowsReach() && len(p.Matched) == 0 {
		return "no request: the API server calls it for none of the resources in its rules"
	}
	out := append([]string{matched(p)}, selectors(p.Snapshot, &p.MatchResources, p.Matched)...)
	switch n := len(p.MatchConditions); n {
	case 0:
	case 1:
		out = append(out, "only where its matchCondition is true")
	default:
		out = append(out, fmt.Sprintf("only where all its %d matchConditions are true", n))
	}
	return strings.Join(out, "; ")
}

func filters(p *classify.Profile) []string {
	out := selectors(p.Snapshot, &p.MatchResources, p.Matched)
	for _, m := range p.MatchConditions {
		out = append(out, fmt.Sprintf("only where the matchCondition %s is true: %s", m.Name, strings.Join(strings.Fields(m.Expression), " ")))
	}
	return out
}

func selectors(s *inventory.Snapshot, m *inventory.MatchResources, matched []admission.MatchedResource) []string {
	var out []string
	if !m.NamespaceSelector.Empty() {
		out = append(out, "only in namespaces that match "+m.NamespaceSelector.String()+selected(s, m.NamespaceSelector))
		if slices.ContainsFunc(matched, func(r admission.MatchedResource) bool { return !r.Namespaced }) {
			out = append(out, "cluster-scoped objects are not excluded by that")
		}
	}
	if !m.ObjectSelector.Empty() {
		out = append(out, "only for objects that match "+m.ObjectSelector.String())
	}
	return out
}

// ifItFails is what becomes of requests while the webhook cannot be called.
func ifItFails(p *classify.Profile) string {
	hangs := fmt.Sprintf(", after %s where the backend hangs", text.Seconds(p.Timeout))
	switch o := p.Outlasting; {
	case p.Type == inventory.Conversion:
		return classify.Consequence(p)
	case p.FailsClosed():
		return "these requests are refused (failurePolicy Fail)" + hangs
	case o != nil && o.Webhooks == 1:
		return "these requests pass without it (failurePolicy Ignore); where the backend hangs, " + o.Brief()
	case o != nil:
		return "these requests pass without it (failurePolicy Ignore)" + hangs + "; " + o.Brief()
	}
	return "these requests pass without it (failurePolicy Ignore)" + hangs
}

func measured(r *classify.Report, p *classify.Profile) []Fact {
	if o := r.Snapshot.Observed; o != nil {
		return []Fact{{"observed", ObservedInWords(o, p.Series())}}
	}
	return nil
}

// webhookHealth is what of the cluster stops while the webhook is down.
func webhookHealth(p *classify.Profile) []string {
	out := []string{stopsOf(p)}
	if len(p.Functions()) == 0 && len(p.ControlPlane) > 0 && !p.Platform {
		out = []string{"the control plane needs requests that it is called for: the finding control-plane-path names them"}
	}
	if p.Deadlock != nil {
		out = append(out, "it refuses what its own backend needs to start, so that it does not come back by itself: "+strings.Join(p.Deadlock.Steps, "; "))
	}
	return out
}

// stopsOf are the functions of the cluster that stop, or wait where the webhook fails
// open.
func stopsOf(p *classify.Profile) string {
	stops := p.Functions()
	if p.Type == inventory.Conversion || p.FailsClosed() || len(stops) == 0 {
		return stopsInWords(stops)
	}
	return "nothing; while it hangs these wait: " + stopsInWords(stops)
}

const maxStops = 5

func stopsInWords(stops []string) string {
	return cmp.Or(strings.Join(lists.Bounded(stops, maxStops, "and %d more"), "; "),
		"no function of the cluster itself is known to need these requests")
}

// selector chooses the series of the webhook; those of conversions call its name
// crd_name.
func selector(p *classify.Profile, nameLabel string) string {
	name := nameLabel + "=" + strconv.Quote(p.Name)
	if nameLabel == "crd_name" {
		return name
	}
	return `type="` + string(p.Type) + `",` + name
}

// queries are the indicators of a webhook's health, ready to paste; OF stands for the
// matchers of the webhook.
func queries(p *classify.Profile) []Query {
	seconds, total, failed, label := promql.WebhookSeconds, promql.Requests, promql.Rejections+`{OF,error_type!="no_error"}`, "name"
	if p.Type == inventory.Conversion {
		seconds, total, failed, label = promql.ConversionSeconds, promql.ConversionSeconds+"_count", promql.ConversionSeconds+`_count{OF,succeeded="false"}`, "crd_name"
	}
	failing := `sum(rate(` + failed + `[5m]))`
	if p.Type != inventory.Conversion && !p.FailsClosed() { // what fails open is kept apart
		failing = `((` + failing + ` or vector(0)) + (sum(rate(` + promql.FailedOpen + `{OF}[5m])) or vector(0)))`
	}
	calls := `sum(rate(` + total + `{OF}[5m]))`
	out := []Query{
		{"calls a second", calls},
		{"99th percentile of seconds", `histogram_quantile(0.99, sum by (le) (rate(` + seconds + `_bucket{OF}[5m])))`},
		{"share of calls that fail", failing + ` / ` + calls},
	}
	if p.Type != inventory.Conversion {
		out = append(out, Query{"share of calls that it refuses on purpose", `sum(rate(` + promql.Rejections + `{OF,error_type="no_error"}[5m])) / ` + calls})
	}
	for i := range out {
		out[i].Expression = strings.ReplaceAll(out[i].Expression, "OF", selector(p, label))
	}
	return append(out,
		Query{"backend ready (1) or not (0)", "min(webhook_auditor_webhook_backend_ready{" + selector(p, "name") + "})"},
		Query{"open findings", "max by (check, severity) (webhook_auditor_finding{" + selector(p, "name") + "})"})
}
