package classify

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var duplicateName = &Check{
	Name:     "duplicate-name",
	Summary:  "Webhooks of one type share a name, so that the API server's metrics merge them.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if len(p.SameName) == 0 {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("has a name that several webhooks have, in %s: the API server's metrics and errors do not distinguish them", JoinBounded(p.SameName)),
			Fix:     fmt.Sprintf("give it a name of its own in %s, one that ends in a domain of its owner%s", ObjectName(p), byOwner(p)),
		}}
	},
}

// findSameNames finds the webhooks that share a name: the API server's own series
// do not distinguish them. It costs a step for each webhook, and sorting.
func findSameNames(w *work, profiles []*Profile) {
	registered := map[inventory.Series][]string{}
	for _, p := range profiles {
		registered[p.Series()] = append(registered[p.Series()], p.Configuration)
	}
	for key, all := range registered {
		if len(all) == 1 {
			delete(registered, key)
		} else {
			registered[key] = text.Distinct(all)
		}
	}
	for _, p := range profiles {
		if !w.step() {
			return
		}
		p.SameName = registered[p.Series()]
	}
}
