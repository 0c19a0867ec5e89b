package classify

import (
	"fmt"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify/start"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var bootstrapDeadlock = &Check{
	Name:     "bootstrap-deadlock",
	Summary:  "A webhook refuses the Pods that it needs to run: once all are gone, nothing starts.",
	Severity: Warning,
	Alerts:   map[Severity]string{Warning: "WebhookBootstrapDeadlock"},
	For:      15 * time.Minute,
	Find: func(p *Profile) []Problem {
		if p.Deadlock == nil || p.Platform {
			return nil
		}
		severity := warningIf(p.Deadlock.Certain)
		fix := patch(p, excludeNamespaces(p, p.Deadlock.Namespaces)...)
		if p.Deadlock.More { // a command that leaves some out heals nothing
			fix = fmt.Sprintf("label %s and all other namespaces of that cycle, and exclude that label by the namespaceSelector of %s%s",
				JoinBounded(p.Deadlock.Namespaces), ObjectName(p), byOwner(p))
		}
		return []Problem{{
			Severity: severity,
			Message: fmt.Sprintf("%s in a deadlock once its Pods are gone, through %s: %s",
				isOrMayBe(severity), rulesFor(p, p.Deadlock.Resources), strings.Join(p.Deadlock.Steps, "; ")),
			Brief: "once its Pods are gone, it cannot start again: " + p.Deadlock.Steps[len(p.Deadlock.Steps)-1],
			Fix:   fix,
		}}
	},
}

// Deadlock is a start.Deadlock in words.
type Deadlock struct {
	*start.Deadlock
	// Steps describe the cycle, from the webhook's own Service back to it.
	Steps []string
}

// CanBlock reports whether the webhook could keep anything from starting.
func (f *Profile) CanBlock() bool { return start.CanBlock(f.Webhook, f.Matched) }

// StartWebhook is the webhook as others may wait for it.
func (f *Profile) StartWebhook() start.Webhook {
	return start.Webhook{Webhook: f.Webhook, Service: f.State.Service.Key, Key: admission.MatchKey(f.Webhook)}
}

// findDeadlocks looks for the cycles in which webhooks keep what serves them from
// starting.
func findDeadlocks(w *work, r *Report) {
	blocking, webhooks := r.blocking()
	g := start.New(w.step, r.Matcher, webhooks)
	for i, d := range g.Deadlocks() {
		if d != nil {
			blocking[i].Deadlock = &Deadlock{d, steps(d)}
		}
	}
	if n := g.NotCompared(); n > 0 {
		kinds, pods := g.Kinds()
		r.Errors = append(r.Errors, inventory.Error{Uncompared: true, Message: fmt.Sprintf("looking for bootstrap deadlocks: %d webhooks that differ in what they are called for and %d kinds of Pods behind them are too many to compare each with each, %d pairs are left out: give webhooks of one kind the same selectors", kinds, pods, n)})
	}
}

// blocking are the webhooks that could keep anything from starting.
func (r *Report) blocking() (blocking []*Profile, webhooks []start.Webhook) {
	for _, f := range r.Profiles {
		if f.CanBlock() {
			blocking, webhooks = append(blocking, f), append(webhooks, f.StartWebhook())
		}
	}
	return blocking, webhooks
}

// steps are the waits of a deadlock in words, which say why one waits for the other.
func steps(d *start.Deadlock) []string {
	var out []string
	for i, w := range d.Waits {
		step := fmt.Sprintf("the Pods of %s need %s %s", w.From, w.On, w.Use)
		switch {
		case i == len(d.Waits)-1 && w.Own:
			step = fmt.Sprintf("this webhook refuses %s %s, which serves it%s", w.What, w.From, unlessExempt(w))
		case i == len(d.Waits)-1:
			step = fmt.Sprintf("this webhook refuses %s %s%s", w.What, w.From, unlessExempt(w))
		case w.Webhook != nil:
			step = fmt.Sprintf("webhook %s of %s, which %s serves, refuses %s %s%s", w.Webhook.Name, w.Webhook.Configuration, w.On, w.What, w.From, unlessExempt(w))
		}
		out = append(out, step)
	}
	return out
}

// unlessExempt says what would keep the webhook from refusing it; "" where nothing
// would.
func unlessExempt(w start.Wait) string {
	switch {
	case w.Leads: // as those of controller-runtime do
		return ", unless these serve before one leads"
	case w.Unless == "":
		return ""
	}
	return unless(w.Webhook, []string{w.Unless})
}
