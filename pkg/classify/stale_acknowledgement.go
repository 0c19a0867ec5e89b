package classify

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var staleAcknowledgement = &Check{
	Name:     "stale-acknowledgement",
	Summary:  "An acknowledgement covers no finding, or has ended.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if len(p.UnusedAcknowledgements) == 0 {
			return nil
		}
		return []Problem{unusedAnnotation("is in a configuration whose annotation %s", ObjectName(p), p.UnusedAcknowledgements, p.Object.Owner)}
	},
}

// unusedAnnotation is the problem of what carries the annotation, which the format names.
func unusedAnnotation(carrier, object string, checks []string, owner inventory.Owner) Problem {
	return Problem{
		Severity: Info,
		Message:  fmt.Sprintf(carrier+" acknowledges %s, which covers no finding", acknowledgeAnnotation, JoinBounded(checks)),
		Fix:      fmt.Sprintf("write it as 'check[, check…]: reason', with checks that are reported at info or warning; or remove it: kubectl annotate %s %s-%s", object, acknowledgeAnnotation, changedBy(owner)),
	}
}
