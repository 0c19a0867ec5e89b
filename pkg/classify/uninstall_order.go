package classify

import (
	"fmt"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var uninstallOrder = &Check{
	Name:     "uninstall-order",
	Summary:  "Objects that are uninstalled with a webhook stay: the webhook refuses their deletion, or nothing removes their finalizers.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		var remains, briefs, names []string
		for _, o := range []struct {
			*Stuck
			remains, brief string
		}{
			{p.RefusedAtUninstall, "with %s %s goes first, and the deletion of %s is refused%s", "with %s, %s cannot be deleted: %s goes first"},
			{p.FinalizedAtUninstall, "with %s %s goes before %s, whose finalizers nothing removes then%s", "with %s, the finalizers of %s stay: %s goes first"},
		} {
			if o.Stuck != nil && !p.Platform {
				remains = append(remains, fmt.Sprintf(o.remains, sentence(o.By, 0), o.Backend, JoinBounded(o.Names), o.Unless))
				briefs = append(briefs, fmt.Sprintf(o.brief, sentence(o.By, 0), JoinBounded(o.Names), o.Backend))
				names = append(names, quotedAll(o.Names)...)
			}
		}
		if len(remains) == 0 {
			return nil
		}
		// What stays can be removed before, and by force after that.
		return []Problem{{
			Message: "is uninstalled together with what it is called for: " + strings.Join(remains, "; "),
			Brief:   briefs[0],
			Fix: fmt.Sprintf("before you uninstall it, delete %s and wait until they are gone, or have a hook of the chart do so (%s: pre-delete); once it is too late, delete %s and the finalizers by hand",
				JoinBounded(text.Distinct(names)), inventory.AnnotationHelmHook, ObjectName(p)),
		}}
	},
}
