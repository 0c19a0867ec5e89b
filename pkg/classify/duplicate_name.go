package classify

import (
	"fmt"
	"slices"
)

var duplicateName = &Check{
	Name:     "duplicate-name",
	Summary:  "Webhooks of one type share a name, so that the API server's metrics merge them.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if p.SameName.Total == 0 {
			return nil
		}
		where := p.SameName.String()
		if slices.Equal(p.SameName.First, []string{p.Configuration}) {
			where = "the same configuration"
		}
		return []Problem{{
			Message: fmt.Sprintf("has the same name as one in %s: the API server's metrics and errors do not distinguish them", where),
			Fix:     fmt.Sprintf("give it a name of its own in %s, one that ends in a domain of its owner%s", ObjectName(p), byOwner(p)),
		}}
	},
}
