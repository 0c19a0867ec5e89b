package classify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var bootstrapDeadlock = &Check{
	Name:     "bootstrap-deadlock",
	Summary:  "A webhook refuses the Pods that it needs to run: once they are all gone, nothing starts any more.",
	Severity: Warning,
	Alerts:   map[Severity]string{Warning: "WebhookBootstrapDeadlock"},
	For:      15 * time.Minute,
	Find: func(p *Profile) []Problem {
		if p.Deadlock == nil || p.Platform {
			return nil
		}
		severity := Info
		if p.Deadlock.Certain {
			severity = Warning
		}
		return []Problem{{
			Severity: severity,
			Message: fmt.Sprintf("%s in a deadlock once its Pods are gone, through %s: %s%s",
				isOrMayBe(severity), rulesFor(p, p.Deadlock.Resources), strings.Join(p.Deadlock.Steps, "; "), p.Deadlock.others()),
			Fix: patch(p, excludeNamespaces(p, p.Deadlock.Namespaces)) + p.Deadlock.furtherNamespaces(),
		}}
	},
}

// Deadlock is a cycle of what needs what to start.
type Deadlock struct {
	// Steps describe the cycle, from the webhook's own Service back to it.
	Steps []string
	// Certain says that the cycle does not hang on labels that are not known.
	Certain bool
	// Namespaces are those that the webhook must leave alone to break all
	// cycles that lead through it, Resources what it refuses there.
	Namespaces []string
	Resources  []inventory.Resource
	// More says that there are more Namespaces than are listed.
	More bool
	// Webhooks counts those that keep each other from starting, this one
	// included.
	Webhooks int
}

// equal compares all of it; nil equals nil alone.
func (d *Deadlock) equal(o *Deadlock) bool {
	if d == nil || o == nil {
		return d == o
	}
	return d.Certain == o.Certain && d.More == o.More && d.Webhooks == o.Webhooks &&
		slices.Equal(d.Steps, o.Steps) && slices.Equal(d.Namespaces, o.Namespaces) && slices.Equal(d.Resources, o.Resources)
}

// others counts the webhooks that the steps do not name.
func (d *Deadlock) others() string {
	if d.Webhooks <= len(d.Steps) {
		return ""
	}
	return fmt.Sprintf("; it is one of %d webhooks that keep each other's Pods from starting", d.Webhooks)
}

// furtherNamespaces says that the fix does not list all of them.
func (d *Deadlock) furtherNamespaces() string {
	if !d.More {
		return ""
	}
	return "; more namespaces of that cycle are to be excluded than are listed here: rather label them all, and exclude that label"
}
