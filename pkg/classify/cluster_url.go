package classify

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var clusterURL = &Check{
	Name:     "cluster-url",
	Summary:  "A webhook is called by a URL that the API server's host may not reach: the name or address of a Service, or the host itself.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		b := p.Webhook.Backend
		host := b.Host()
		switch {
		case b.Kind != inventory.BackendURL || p.Platform:
			return nil
		case b.Loopback():
			return []Problem{{
				Message: fmt.Sprintf("is called by URL at %s, the API server's own host: it must run beside each API server; on a managed control plane it cannot, and %s", host, Consequence(p)),
				Brief:   fmt.Sprintf("is called by URL at %s, the API server's own host: it must run beside each API server", host),
				Fix:     fmt.Sprintf("name its Service in clientConfig.service in place of clientConfig.url, unless it runs on the control plane's hosts%s", byOwner(p)),
			}}
		case b.Address().IsLinkLocalUnicast():
			return []Problem{{
				Message: fmt.Sprintf("is called by URL at %s, a link-local address: what has it is another one beside each API server's host, as a cloud's metadata service; unless the webhook does, %s", host, Consequence(p)),
				Fix:     fmt.Sprintf("name the Service in clientConfig.service in place of clientConfig.url%s", byOwner(p)),
			}}
		case behindAddress(p.Snapshot, b.Address()) != "":
			return []Problem{{
				Message: fmt.Sprintf("is called by URL at %s, an address of Service %s: it changes when the Service or its Pods are made anew; then %s", host, behindAddress(p.Snapshot, b.Address()), Consequence(p)),
				Fix:     fmt.Sprintf("name the Service in clientConfig.service in place of clientConfig.url%s", byOwner(p)),
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

// behindAddress names the first Service of the input that has the address, or whose endpoint
// does; "" where none has.
func behindAddress(s *inventory.Snapshot, address netip.Addr) string {
	has := func(written string) bool { return written != "" && written == address.String() }
	var out []string
	for key, service := range s.Services {
		if address.IsValid() && (has(service.ClusterIP) || len(service.Selector) > 0 && slices.ContainsFunc(service.Endpoints, func(e inventory.Endpoint) bool { return has(e.Address) })) {
			out = append(out, key.String())
		}
	}
	slices.Sort(out)
	return strings.Join(out[:min(1, len(out))], "")
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
