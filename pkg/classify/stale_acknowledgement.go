package classify

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var staleAcknowledgement = &Check{
	Name:     "stale-acknowledgement",
	Summary:  "An acknowledgement covers no finding, or has ended.",
	Severity: Info,
	// It is found once all other findings are: see Policy.acknowledge.
	Find: func(*Profile) []Problem { return nil },
}

// unusedAnnotation is the problem of what carries the annotation.
func unusedAnnotation(registration *inventory.Registration, checks []string) Problem {
	carrier := "is in a configuration whose annotation %s acknowledges"
	if registration.Type.IsPolicy() {
		carrier = "has an annotation %s that acknowledges"
	}
	return Problem{
		Severity: Info,
		Message:  fmt.Sprintf(carrier+" %s, which covers no finding", acknowledgeAnnotation, JoinBounded(checks)),
		Fix: fmt.Sprintf("write it as 'check[, check…]: reason', with checks that are reported at info or warning; or remove it: kubectl annotate %s %s-%s",
			objectName(registration), acknowledgeAnnotation, changedBy(registration.Object.Owner)),
	}
}
