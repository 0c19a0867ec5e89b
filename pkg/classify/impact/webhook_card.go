package impact

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// webhookAnswers are the answers to the questions, of a webhook.
func webhookAnswers(r *classify.Report, p *classify.Profile) map[string]Answer {
	commands := p.Commands()
	return map[string]Answer{
		"adds":     {Answers: webhookAdds(p)},
		"modifies": webhookModifies(p),
		"slis": {Queries: queries(p), Answers: []string{
			"the API servers' own series, and those of webhook-auditor",
			"the operator's conditions MutatingAdmissionWebhookConfigurationError, ValidatingAdmissionWebhookConfigurationError and CRDConversionWebhookConfigurationError",
		}},
		"effects": webhookEffects(r, p),
		"measuring": {
			Answers:  []string{fmt.Sprintf("by the queries above: its 99th percentile must stay below %gs, the threshold of the alerts", p.Threshold)},
			Queries:  latencyQuery(p),
			Commands: []string{"webhook-auditor top --observe=apiserver"},
			ToFillIn: []string{"when it is measured (each release, or in CI), and by whom"},
		},
		"failure-modes": {
			Answers:  webhookFailures(p),
			ToFillIn: []string{"failures of its own, and what it needs besides (other Services, caches, external systems)"},
		},
		"cluster-health": {Answers: webhookHealth(p)},
		"teams":          teams(p.Object),
		"detection": {
			Answers:  append([]string{symptom(p)}, foundNow(r, p.Ref)...),
			Queries:  []Query{{"alerts on it that fire", fmt.Sprintf("ALERTS{alertstate=\"firing\",%s}", selector(p, "name"))}},
			Commands: commands.Inspect,
		},
		"disabling":        webhookDisabling(p),
		"disabled-cluster": {Answers: []string{disabled(p, "requests no longer wait for it, and none are refused by it", "with strategy None objects change their apiVersion alone: fields that the versions spell differently are lost when such an object is written")}},
		"disabled-running": {
			Answers:  []string{disabled(p, "objects that exist stay as they are: admission is about requests", "Pods run on; controllers of the resource meet objects as they are stored")},
			ToFillIn: []string{"what else its backend does for running workloads (as a controller, say)"},
		},
		"disabled-new": {Answers: []string{withoutWebhook(p)}, ToFillIn: []string{"whether workloads work without that"}},
		"resuming": {
			Answers:  append([]string{"it is called again within seconds of its registration, on each API server", Late}, unseen(p)...),
			Commands: append([]string{commands.Restore}, commands.Restart...),
			ToFillIn: []string{"what must be repaired in objects that were written meanwhile"},
		},
	}
}

// disabled is the answer for admission webhooks, or that for conversions.
func disabled(p *classify.Profile, admission, conversion string) string {
	if p.Type == inventory.Conversion {
		return conversion
	}
	return admission
}

func webhookAdds(p *classify.Profile) []string {
	out := []string{
		fmt.Sprintf("the %s webhook %s, registered by %s %s%s", p.Type.Title(), p.Name, p.Object.Kind, p.Configuration, installed(&p.Registration)),
		fmt.Sprintf("it calls %s; a call may take %s", p.Webhook.Backend, text.Seconds(p.Timeout)),
	}
	if p.Type == inventory.Conversion {
		return append(out, conversionInWords(p))
	}
	for i := range p.Rules {
		out = append(out, "it is called for "+ruleInWords(&p.Rules[i]))
	}
	out = append(out, filters(p.Snapshot, &p.Registration)...)
	return append(out, fmt.Sprintf("that covers %s of this cluster: %s", inventory.Counted(len(p.Matched), "resource"), matched(p)))
}

// filters are the selectors and matchConditions of a webhook or a policy.
func filters(s *inventory.Snapshot, r *inventory.Registration) []string {
	out := selectors(s, &r.MatchResources)
	for _, m := range r.MatchConditions {
		out = append(out, fmt.Sprintf("only where the matchCondition %s is true: %s", m.Name, strings.Join(strings.Fields(m.Expression), " ")))
	}
	return out
}

func selectors(s *inventory.Snapshot, m *inventory.MatchResources) []string {
	var out []string
	if !m.NamespaceSelector.Empty() {
		out = append(out, "only in namespaces with the labels "+m.NamespaceSelector.String()+selected(s, m.NamespaceSelector)+"; cluster-scoped objects are not excluded by that")
	}
	if !m.ObjectSelector.Empty() {
		out = append(out, "only for objects with the labels "+m.ObjectSelector.String())
	}
	return out
}

func webhookModifies(p *classify.Profile) Answer {
	switch p.Type {
	case inventory.Mutating:
		a := Answer{Answers: []string{"it may change and refuse the objects that it is called for"}, ToFillIn: []string{"which fields of which objects it sets, and to what"}}
		if p.Reinvocation == admissionv1.IfNeededReinvocationPolicy {
			a.Answers = append(a.Answers, "it is called again where the object is changed after it (reinvocationPolicy IfNeeded)")
		}
		return a
	case inventory.Validating:
		return Answer{Answers: []string{"it may refuse the objects that it is called for; it changes none"}, ToFillIn: []string{"what it refuses, and why"}}
	}
	return Answer{Answers: []string{"objects are read and written in all served versions, each conversion by a call"}, ToFillIn: []string{"what is lost between the versions, if anything"}}
}

func webhookEffects(r *classify.Report, p *classify.Profile) Answer {
	a := Answer{Answers: []string{latency(p)}}
	if o := r.Snapshot.Observed; o != nil {
		a.Answers = append(a.Answers, "observed: "+observedInWords(o, p.Type, o.Of(p.Series())))
	} else {
		a.ToFillIn = append(a.ToFillIn, "the latency as observed (read from the cluster with --observe=apiserver, or from Prometheus with --prometheus-url)")
	}
	for _, evidence := range r.Snapshot.AuditLog.Evidence(p.Series()) {
		a.Answers = append(a.Answers, "by the audit log, it "+evidence)
	}
	a.Answers = append(a.Answers, whenDown(p), dependency(p))
	return a
}

func webhookFailures(p *classify.Profile) []string {
	out := []string{
		"the backend is gone or cannot be reached: " + whenDown(p),
		fmt.Sprintf("the backend hangs: each request waits %s, then the same", text.Seconds(p.Timeout)),
	}
	out = append(out, drains(p)...)
	if p.Webhook.Backend.Kind != inventory.BackendAPIServer {
		out = append(out, "its serving certificate expires, or the CA bundle of the registration does not match it: the same")
	}
	switch p.Type {
	case inventory.Mutating:
		out = append(out, "it answers with a patch that does not apply: the request is refused, whatever the failurePolicy")
	case inventory.Conversion:
		out = append(out, "it answers with an object that is not the one it was sent: reading it fails")
	}
	if len(p.MatchConditions) > 0 {
		outcome := "let through"
		if p.FailsClosed() {
			outcome = "refused"
		}
		out = append(out, "a matchCondition cannot be evaluated: the request is "+outcome)
	}
	return append(out, "it refuses requests that it should not: these fail with its message")
}

func webhookHealth(p *classify.Profile) []string {
	var out []string
	for _, stop := range Stops(p) {
		verb := "stops"
		if !p.FailsClosed() {
			verb = fmt.Sprintf("waits %s for each request while the backend hangs", text.Seconds(p.Timeout))
		}
		out = append(out, fmt.Sprintf("%s%s: %s", verb, perhaps(stop.Match), stop.Function))
	}
	switch {
	case len(out) > 0:
	case len(p.ControlPlane) > 0 && !p.Platform:
		out = []string{"the control plane needs requests that it is called for: the finding control-plane-path names them"}
	default:
		out = []string{"no function of the cluster itself is known to need the requests that it is called for"}
	}
	if p.Deadlock != nil {
		out = append(out, "it refuses what its own backend needs to start, so that it does not come back by itself: "+strings.Join(p.Deadlock.Steps, "; "))
	}
	return out
}

func teams(object inventory.Object) Answer {
	a := Answer{ToFillIn: []string{"the team that owns it, and how it is reached"}}
	if owner := object.Owner.String(); owner != "" {
		a.Answers = []string{"its object is managed by " + owner}
	}
	return a
}

// foundNow are the findings on the webhook or policy.
func foundNow(r *classify.Report, ref inventory.Ref) []string {
	var out []string
	for _, f := range r.Findings {
		if f.Webhook == ref && !f.Acknowledged {
			out = append(out, fmt.Sprintf("found now, %s: %s: %s %s %s", f.Severity, f.Check.Name, ref.Type.Noun(), ref.Name, f.Message))
		}
	}
	return out
}

func webhookDisabling(p *classify.Profile) Answer {
	commands := p.Commands()
	a := Answer{Commands: []string{commands.Save, commands.Disable}}
	if others := siblings(p); len(others) > 0 {
		a.Answers = append(a.Answers, "the command disables all of its configuration, also "+some(others))
	}
	if commands.Reverts != "" {
		a.Answers = append(a.Answers, commands.Reverts)
		return a
	}
	a.Answers = append(a.Answers, "nothing in its object says that something puts it back")
	a.ToFillIn = append(a.ToFillIn, "whether its operator puts it back, and how that is stopped")
	return a
}

// siblings are the other webhooks of the configuration.
func siblings(p *classify.Profile) []string {
	var out []string
	for _, w := range p.Snapshot.Webhooks {
		if w.Type == p.Type && w.Configuration == p.Configuration && w.Index != p.Index {
			out = append(out, w.Name)
		}
	}
	return out
}

func withoutWebhook(p *classify.Profile) string {
	switch p.Type {
	case inventory.Mutating:
		return "new and changed objects lack what it sets, until they are created anew: " + matched(p)
	case inventory.Validating:
		return "new and changed objects are not checked by it: " + matched(p)
	}
	return "objects that are created in another version than is stored are stored without conversion"
}

func unseen(p *classify.Profile) []string {
	if p.Type == inventory.Conversion {
		return nil
	}
	return []string{"the webhook does not see objects that were written meanwhile until they are written again: list them by creationTimestamp and managedFields"}
}
