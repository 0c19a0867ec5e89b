package classify

import (
	"fmt"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var clusterURL = &Check{
	Name:     "cluster-url",
	Summary:  "A webhook is called by a URL with the name of a Service, which the API server's host cannot resolve by default.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		b := p.Webhook.Backend
		host := b.Host()
		if b.Kind != inventory.BackendURL || p.Platform || !isServiceName(p.Snapshot, host) {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("is called by URL at %s: API servers resolve names by the DNS of their host, which has no Services; unless it does, %s", host, Consequence(p)),
			Fix:     fmt.Sprintf("name the Service in clientConfig.service in place of clientConfig.url%s", byOwner(p)),
		}}
	},
}

// isServiceName reports whether the DNS of the cluster alone has the host: a name that ends
// as those of Services do, or that is one of a Service in the input.
func isServiceName(s *inventory.Snapshot, host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, ".svc.cluster.local") {
		return true
	}
	name := strings.SplitN(host, ".", 4)
	if len(name) < 2 || len(name) > 2 && name[2] != "svc" {
		return false
	}
	_, ok := s.Services[inventory.Key{Namespace: name[1], Name: name[0]}]
	return ok
}
