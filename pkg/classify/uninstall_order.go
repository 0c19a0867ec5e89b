package classify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var uninstallOrder = &Check{
	Name:     "uninstall-order",
	Summary:  "What is uninstalled with a webhook stays: the webhook refuses to let it go, or nothing takes its finalizers away.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		o := p.RefusedAtUninstall
		if o == nil || p.Platform {
			return nil
		}
		condition := ""
		if len(o.Unless) > 0 {
			condition = unless(p.Webhook, o.Unless)
		}
		return []Problem{{
			Message: "is uninstalled together with what it is called for" + condition + ": " + strings.Join(o.remains(), "; "),
			Fix:     o.fix(p),
		}}
	},
}

// RefusedAtUninstall are the objects of one input that stay because of a webhook of the
// same input when it is uninstalled.
type RefusedAtUninstall struct {
	// Backend is what is removed first of that by which the webhook answers, Controller
	// the workload behind it.
	Backend, Controller string
	// BackendFirst and WebhookFirst are the uninstallers that remove the backend, or the
	// webhook, before the other.
	BackendFirst, WebhookFirst []string
	// Refused are those whose deletion the webhook refuses without its backend, Finalized
	// those with finalizers that nothing takes away without it.
	Refused, Finalized Remaining
	// Unless are the namespaces whose labels, which are not known, may exempt all of it;
	// none where something certainly stays.
	Unless []string
}

// remains says what stays, and why.
func (o *RefusedAtUninstall) remains() []string {
	var out []string
	if len(o.BackendFirst) > 0 {
		out = append(out, fmt.Sprintf("with %s %s goes before the webhook, which then refuses requests", sentence(slices.Clone(o.BackendFirst), 0), o.Backend))
	}
	if len(o.WebhookFirst) > 0 {
		out = append(out, fmt.Sprintf("with %s the webhook goes first", sentence(slices.Clone(o.WebhookFirst), 0)))
	}
	if r := o.Refused; r.Total > 0 {
		out = append(out, fmt.Sprintf("with %s the deletion of %s is refused", sentence(slices.Clone(r.By), 0), &r))
	}
	if r := o.Finalized; r.Total > 0 {
		out = append(out, fmt.Sprintf("with %s %s goes before %s, whose finalizers nothing removes then", sentence(slices.Clone(r.By), 0), o.Controller, &r))
	}
	return out
}

// fix removes what stays while it can be removed, and after that.
func (o *RefusedAtUninstall) fix(p *Profile) string {
	var all []string
	for _, r := range []Remaining{o.Refused, o.Finalized} {
		for _, name := range r.First {
			all = append(all, quoted(name))
		}
	}
	return fmt.Sprintf("before you uninstall it, delete %s and wait until they are gone, or have a hook of the chart do so (%s: pre-delete); once it is too late, delete %s and the finalizers by hand",
		sentence(text.Distinct(all), 0), inventory.AnnotationHelmHook, ObjectName(p))
}
