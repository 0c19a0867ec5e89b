package impact

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// of is the text for a webhook of its type.
func of(p *classify.Profile, mutating, validating, conversion string) string {
	return map[inventory.Type]string{inventory.Mutating: mutating, inventory.Validating: validating, inventory.Conversion: conversion}[p.Type]
}

// webhookAnswers are the answers to the questions, of a webhook.
func webhookAnswers(r *classify.Report, p *classify.Profile) map[string]Answer {
	commands, closed := p.Commands(), "let through"
	if p.FailsClosed() {
		closed = "refused"
	}
	effects := append([]string{latency(p)}, measured(r, p)...)
	failures := append([]string{"the backend is gone or cannot be reached: " + ifItFails(p)}, drains(p)...)
	failures = append(failures, "its serving certificate expires, or the CA bundle of the registration does not match it: the same")
	if len(p.MatchConditions) > 0 {
		failures = append(failures, "a matchCondition cannot be evaluated: the request is "+closed)
	}
	failures = append(failures, of(p, "it answers with a patch that does not apply: the request is refused, whatever the failurePolicy",
		"it refuses requests that it should not: these fail with its message", "it answers with an object that is not the one it was sent: reading it fails"))
	return map[string]Answer{
		"adds": {Answers: webhookAdds(p)},
		"modifies": {
			Answers:  []string{of(p, "it may change and refuse the objects that it is called for", "it may refuse the objects that it is called for; it changes none", "objects are read and written in all served versions, each conversion by a call")},
			ToFillIn: []string{of(p, "which fields of which objects it sets, and to what", "what it refuses, and why", "what is lost between the versions, if anything")},
		},
		"slis":    {Answers: []string{"the API servers' own series, and those of webhook-auditor"}, Queries: queries(p)},
		"effects": {Answers: append(effects, "requests depend on "+p.Webhook.Backend.String()+", and on the network to it: "+ifItFails(p))},
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
		"disabling": webhookDisabling(p),
		"disabled-cluster": {Answers: []string{of(p, "requests no longer wait for it, and none are refused by it", "requests no longer wait for it, and none are refused by it",
			"with strategy None objects change their apiVersion alone: fields that the versions spell differently are lost when such an object is written")}},
		"disabled-running": {
			Answers:  []string{of(p, untouched, untouched, "Pods run on; controllers of the resource meet objects as they are stored")},
			ToFillIn: []string{"what else its backend does for running workloads (as a controller, say)"},
		},
		"disabled-new": {
			Answers: []string{of(p, "new and changed objects lack what it sets, until they are created anew: "+matched(p), "new and changed objects are not checked by it: "+matched(p),
				"objects that are created in another version than is stored are stored without conversion")},
			ToFillIn: []string{"whether workloads work without that"},
		},
		"resuming": {
			Answers:  []string{"it is called again within seconds of its registration, on each API server; objects that were written meanwhile are not seen until they are written again", classify.Late},
			Commands: append([]string{commands.Restore}, commands.Restart...),
			ToFillIn: []string{"what must be repaired in objects that were written meanwhile"},
		},
	}
}

// untouched is what becomes of objects while nothing looks at requests.
const untouched = "objects that exist stay as they are: admission is about requests"

func webhookAdds(p *classify.Profile) []string {
	out := []string{fmt.Sprintf("the %s webhook %s, registered by %s %s%s: it calls %s, and a call may take %s",
		p.Type.Title(), p.Name, p.Object.Kind, p.Configuration, installed(&p.Registration), p.Webhook.Backend, text.Seconds(p.Timeout))}
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

// latency is what the webhook adds at worst.
func latency(p *classify.Profile) string {
	again := ", besides what the other mutating webhooks take"
	if p.Reinvocation == admissionv1.IfNeededReinvocationPolicy {
		again = ", and as much again where it is called again"
	}
	return fmt.Sprintf("adds up to %s to each ", text.Seconds(p.Timeout)) + of(p, "request that it is called for"+again,
		"request that it is called for; validating webhooks are called at the same time, so that the slowest counts",
		"object that is read or written in another version than it is stored in")
}

// measured is what was observed of the webhook, and recorded by audit logs.
func measured(r *classify.Report, p *classify.Profile) []string {
	var out []string
	if o := r.Snapshot.Observed; o != nil {
		out = append(out, "observed: "+observedInWords(o, p.Type, o.Of(p.Series())))
	}
	for _, evidence := range r.Snapshot.AuditLog.Evidence(p.Series()) {
		out = append(out, "by the audit log, it "+evidence)
	}
	return out
}

// webhookHealth is what of the cluster stops while the webhook is down.
func webhookHealth(p *classify.Profile) []string {
	out := []string{stopsOf(p)}
	if len(Stops(p)) == 0 && len(p.ControlPlane) > 0 && !p.Platform {
		out = []string{"the control plane needs requests that it is called for: the finding control-plane-path names them"}
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
	a := disabling(p.Commands())
	var others []string
	for _, w := range p.Snapshot.Webhooks {
		if w.Type == p.Type && w.Configuration == p.Configuration && w.Index != p.Index {
			others = append(others, w.Name)
		}
	}
	if len(others) > 0 {
		a.Answers = append(a.Answers, "the command disables all of its configuration, also "+some(others))
	}
	return a
}

// disabling is how something is disabled, and what puts it back.
func disabling(c classify.Commands) Answer {
	if c.Reverts != "" {
		return Answer{Answers: []string{c.Reverts}, Commands: []string{c.Save, c.Disable}}
	}
	return Answer{Commands: []string{c.Save, c.Disable}, ToFillIn: []string{"whether its operator puts it back, and how that is stopped"}}
}
