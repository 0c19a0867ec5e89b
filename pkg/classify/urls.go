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
	Summary:  "A webhook is called by a URL or external name that the API server's host may not reach: that or the address of a Service, or the host itself.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		b, called, place := p.Webhook.Backend, "is called by URL at ", "clientConfig.url"
		external := p.Snapshot.Services[p.State.Service.Key].ExternalName
		if external != "" && p.Snapshot.Routing != inventory.RoutingEndpoints {
			called, place = "calls "+BackendName(p)+", whose externalName is ", "the one whose externalName it is"
			b = inventory.Backend{Kind: inventory.BackendURL, URL: "https://" + external}
		}
		if b.Kind != inventory.BackendURL || p.Platform {
			return nil
		}
		host, service := b.Host(), behindAddress(p.Snapshot, b.Address())
		is, unless, fix := "", "", "name the Service in clientConfig.service in place of "+place
		switch {
		case b.Loopback():
			is, unless = ", the API server's own host: it must run beside each API server", "; on a managed control plane it cannot, and "
			fix += ", unless it runs on the control plane's hosts"
		case b.Address().IsLinkLocalUnicast():
			is, unless = ", a link-local address: what has it is another one beside each API server's host, as a cloud's metadata service", "; unless the webhook does, "
		case service != "":
			is, unless = fmt.Sprintf(", an address of Service %s: it changes when the Service or its Pods are made anew", service), "; then "
		case isServiceName(p.Snapshot, host):
			is, unless = ": API servers resolve names by the DNS of their host, which has no Services", "; unless it does, "
		default:
			return nil
		}
		brief := called + host + is
		return []Problem{{Message: brief + unless + Consequence(p), Brief: brief, Fix: fix + byOwner(p)}}
	},
}

// behindAddress names the first Service of the input that has the address, or whose endpoint
// does; "" where none has.
func behindAddress(s *inventory.Snapshot, address netip.Addr) string {
	has := func(written string) bool { return written == address.String() }
	var out []string
	for key, service := range s.Services {
		if address.IsValid() &&
			(slices.ContainsFunc(service.ClusterIPs, has) ||
				len(service.Selector) > 0 &&
					slices.ContainsFunc(service.Endpoints, func(e inventory.Endpoint) bool { return has(e.Address) })) {
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

var plaintextToURL = &Check{
	Name:     "plaintext-to-url",
	Summary:  "Secrets or tokens leave the cluster for a webhook that is called by URL.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		b := p.Webhook.Backend
		secret := secrets(p.ByClass[ClassSensitive])
		if b.Kind != inventory.BackendURL || b.Loopback() || b.Namespace() != "" || optIn(p.ObjectSelector) ||
			len(secret) == 0 {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("sends %s in plain text out of the cluster, to %s", byRule(p, secret), b.Host()),
			Fix:     patch(p, excludeRequests(p, requestsTo(secret))...),
		}}
	},
}

// secretless are sensitive resources that carry nothing secret: a service
// account grants access, but since Kubernetes 1.24 it holds no token.
var secretless = inventory.ResourcesNamed(`serviceaccounts certificatesigningrequests.certificates.k8s.io
	credentialsrequests.cloudcredential.openshift.io`)

func secrets(sensitive []inventory.Resource) []inventory.Resource {
	return slices.DeleteFunc(slices.Clone(sensitive),
		func(r inventory.Resource) bool { return slices.Contains(secretless, r) })
}
