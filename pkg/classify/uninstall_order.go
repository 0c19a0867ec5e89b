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
	Summary:  "Objects that are uninstalled with a webhook stay: the webhook refuses their deletion, or nothing removes their finalizers.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		o := p.RefusedAtUninstall
		if o == nil || p.Platform {
			return nil
		}
		return []Problem{{
			Message: "is uninstalled together with what it is called for" + unlessExempted(p, o.Refused, o.Finalized) + ": " + strings.Join(o.remains(), "; "),
			Brief:   o.brief(),
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
	// Refused are those whose deletion the webhook refuses without its backend, Finalized
	// those with finalizers that nothing takes away without it.
	Refused, Finalized Remaining
}

// remains says what stays, and why.
func (o *RefusedAtUninstall) remains() []string {
	var out []string
	if r := o.Refused; len(r.Names) > 0 {
		out = append(out, fmt.Sprintf("with %s %s goes first, and the deletion of %s is refused", sentence(r.By, 0), o.Backend, JoinBounded(r.Names)))
	}
	if r := o.Finalized; len(r.Names) > 0 {
		out = append(out, fmt.Sprintf("with %s %s goes before %s, whose finalizers nothing removes then", sentence(r.By, 0), o.Controller, JoinBounded(r.Names)))
	}
	return out
}

// brief says what stays first.
func (o *RefusedAtUninstall) brief() string {
	if r := o.Refused; len(r.Names) > 0 {
		return fmt.Sprintf("with %s, %s cannot be deleted: %s goes first", sentence(r.By, 0), JoinBounded(r.Names), o.Backend)
	}
	return fmt.Sprintf("with %s, the finalizers of %s stay: %s goes first", sentence(o.Finalized.By, 0), JoinBounded(o.Finalized.Names), o.Controller)
}

// fix removes what stays while it can be removed, and after that.
func (o *RefusedAtUninstall) fix(p *Profile) string {
	all := text.Distinct(quotedAll(slices.Concat(o.Refused.Names, o.Finalized.Names)))
	return fmt.Sprintf("before you uninstall it, delete %s and wait until they are gone, or have a hook of the chart do so (%s: pre-delete); once it is too late, delete %s and the finalizers by hand",
		JoinBounded(all), inventory.AnnotationHelmHook, ObjectName(p))
}
