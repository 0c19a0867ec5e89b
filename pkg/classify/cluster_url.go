package classify

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var clusterURL = &Check{
	Name:     "cluster-url",
	Summary:  "A webhook is called by a URL that the API server's host may not reach: the name of a Service, or the host itself.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		b := p.Webhook.Backend
		host := b.Host()
		switch {
		case b.Kind != inventory.BackendURL || p.Platform:
			return nil
		case isOwnHost(host):
			return []Problem{{
				Message: fmt.Sprintf("is called by URL at %s, the API server's own host: it must run beside each API server; on a managed control plane it cannot, and %s", host, Consequence(p)),
				Brief:   fmt.Sprintf("is called by URL at %s, the API server's own host: it must run beside each API server", host),
				Fix:     fmt.Sprintf("name its Service in clientConfig.service in place of clientConfig.url, unless it runs on the control plane's hosts%s", byOwner(p)),
			}}
		case !isServiceName(p.Snapshot, host):
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("is called by URL at %s: API servers resolve names by the DNS of their host, which has no Services; unless it does, %s", host, Consequence(p)),
			Fix:     fmt.Sprintf("name the Service in clientConfig.service in place of clientConfig.url%s", byOwner(p)),
		}}
	},
}

// isOwnHost reports whether the name or address is each host's own.
func isOwnHost(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	own := err == nil && (address.IsLoopback() || address.IsUnspecified() || address.IsLinkLocalUnicast())
	return own || host == "localhost" || strings.HasSuffix(host, ".localhost") || host == "localhost.localdomain"
}

// isServiceName reports whether the DNS of the cluster alone has the host: a name that ends
// as those of Services do, or that is one of a Service in the input.
func isServiceName(s *inventory.Snapshot, host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || host == "" {
		return false
	}
	name := strings.SplitN(host, ".", 4)
	switch {
	case len(name) == 1: // a name of the namespace, or by a search domain of the host
		return true
	case strings.HasSuffix(host, ".svc"), strings.HasSuffix(host, ".cluster.local"):
		return true
	case len(name) > 2 && name[2] != "svc":
		return false
	}
	_, service := s.Services[inventory.Key{Namespace: name[1], Name: name[0]}]
	_, namespace := s.Namespaces[name[1]]
	return service || namespace && len(name) == 2
}
