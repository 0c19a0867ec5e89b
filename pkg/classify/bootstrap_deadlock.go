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
	Find: func(p Profile) []Problem {
		if p.Deadlock == nil || p.Platform {
			return nil
		}
		severity := Info
		if p.Deadlock.Certain {
			severity = Warning
		}
		return []Problem{{
			Severity: severity,
			Message: fmt.Sprintf("%s in a deadlock once its Pods are gone, through %s: %s",
				isOrMayBe(severity), rulesFor(p, p.Deadlock.Resources), strings.Join(p.Deadlock.Steps, "; ")),
			Fix: patch(p, excludeNamespaces(p, p.Deadlock.Namespaces)),
		}}
	},
}

// Deadlock is a cycle of what needs what to start.
type Deadlock struct {
	// Steps tell the cycle, from the webhook's own Service back to it.
	Steps []string
	// Certain says that the cycle does not hang on labels that are not known.
	Certain bool
	// Namespaces are those that the webhook must leave alone to break all
	// cycles that lead through it, Resources what it refuses there.
	Namespaces []string
	Resources  []inventory.Resource
}

func (d *Deadlock) add(namespace string, refused inventory.Resource) {
	if !slices.Contains(d.Namespaces, namespace) {
		d.Namespaces = append(d.Namespaces, namespace)
		slices.Sort(d.Namespaces)
	}
	if !slices.Contains(d.Resources, refused) {
		d.Resources = append(d.Resources, refused)
	}
}
