package classify

import "fmt"

var staleAcknowledgement = &Check{
	Name:     "stale-acknowledgement",
	Summary:  "An acknowledgement covers no finding, or has ended.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if len(p.UnusedAcknowledgements) == 0 {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("is in a configuration whose annotation %s acknowledges %s, which covers no finding", acknowledgeAnnotation, JoinBounded(p.UnusedAcknowledgements)),
			Fix:     fmt.Sprintf("write it as 'check[, check…]: reason', with checks that are reported at info or warning; or remove it: kubectl annotate %s %s-%s", ObjectName(p), acknowledgeAnnotation, byOwner(p)),
		}}
	},
}
