package classify

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var connectIntercepted = &Check{
	Name:     "connect-intercepted",
	Summary:  "A webhook with failurePolicy Fail stands between administrators and exec, attach, port-forward or proxy in system namespaces.",
	Severity: Info,
	Find: func(p Profile) []Problem {
		blocked := brokenGlass(p)
		if len(blocked) == 0 || p.Platform {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("refuses CONNECT to %s in system namespaces while it cannot be called (failurePolicy Fail): that is the way in to repair things", byRule(p, blocked)),
			Fix:     patch(p, excludeRequests(p, `request.operation == "CONNECT"`)),
		}}
	},
}

// brokenGlass returns what administrators connect to in an emergency.
func brokenGlass(p Profile) []inventory.Resource {
	if !p.FailsClosed() || p.Type == inventory.Conversion {
		return nil
	}
	var out []inventory.Resource
	for _, r := range p.Reached {
		if r.Operations.Has(inventory.Connect) && r.Group == "" && p.Snapshot.Intercepts(p.Webhook, r.Resource, inventory.Connect, "kube-system").Called == inventory.Yes {
			out = append(out, r.Resource)
		}
	}
	return out
}
