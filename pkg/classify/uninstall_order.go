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
		refused, finalized := p.RefusedAtUninstall, p.FinalizedAtUninstall
		names := slices.Concat(refused.Names, finalized.Names)
		if len(names) == 0 {
			return nil
		}
		// What stays can be removed before, and by force after that.
		return []Problem{{
			Message: "is uninstalled together with what it is called for: " + strings.Join(slices.Concat(
				refused.inWords("with %[1]s %[2]s goes first, and the deletion of %[3]s is refused%[4]s"),
				finalized.inWords("with %[1]s %[2]s goes before %[3]s, whose finalizers nothing removes then%[4]s"),
			), "; "),
			Brief: slices.Concat(
				refused.inWords("with %[1]s, %[3]s cannot be deleted: %[2]s goes first"),
				finalized.inWords("with %[1]s, the finalizers of %[3]s stay: %[2]s goes first"),
			)[0],
			Fix: fmt.Sprintf("before you uninstall it, delete %s and wait until they are gone, or have a hook of the chart do so (%s: pre-delete); once it is too late, remove the finalizers by hand, after %s",
				JoinBounded(text.Distinct(quotedAll(names))), inventory.AnnotationHelmHook, DisableCommand(p)),
		}}
	},
}
