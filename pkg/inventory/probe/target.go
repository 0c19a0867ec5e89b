package probe

import (
	"context"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// target is a backend, which is dialed once whatever the number of webhooks that call it,
// with what is needed to dial it.
type target struct {
	// host is "host:port", with the server name for a host.
	host       string
	serverName string
	// addresses are where it is found; only for those of a Service they are
	// more than one.
	addresses []string
	// ready stands for the ready endpoints behind the port.
	ready string
	// ofService says that it is a Service, not a URL.
	ofService bool
	// inner says that the address is a name of the cluster's own DNS, which the
	// API server never asks.
	inner bool
	// turn counts the dials before: each goes to the next of several addresses.
	// failures counts those since the last that found the backend well.
	turn, failures int
	// settling says that all its endpoints are others than at the last dial: the network may
	// still lead to the old ones, so that it is dialed soon again.
	settling bool
	callers  []caller
}

type caller struct {
	inventory.Ref
	bundle string
}

// targets returns the backends that are worth a dial: what the objects show to
// be broken needs none.
func (o Options) targets(s *inventory.Snapshot) []target {
	var out []target
	index := map[string]int{}
	for i := range s.Webhooks {
		w := s.Webhooks[i]
		t, ok := o.target(s, w.Backend)
		if !ok {
			continue
		}
		i, isKnown := index[t.host]
		if !isKnown {
			i = len(out)
			index[t.host] = i
			if t.ofService {
				t.ready = strings.Join(endpointAddresses(s.Services[w.Backend.Service.Key], w.Backend.Service.Port), ",")
			}
			out = append(out, t)
		}
		out[i].callers = append(out[i].callers, caller{w.Ref, string(w.Backend.CABundle)})
	}
	return out
}

func (o Options) target(s *inventory.Snapshot, b inventory.Backend) (target, bool) {
	switch {
	case b.Kind == inventory.BackendURL:
		return urlTarget(b, o.URLs)
	case b.Kind == inventory.BackendAPIServer, s.State(b).Fault != inventory.Sound:
		return target{}, false // the API server trusts itself
	}
	t := named(b.ServerName(), b.Service.Port)
	t.ofService = true
	if addresses := addressesOf(s, b.Service); addresses != nil {
		t.addresses = addresses
	} else {
		t.addresses, t.inner = []string{t.host}, true
	}
	return t, true
}

// urlTarget is that of a URL, if it was asked for. On a loopback address the
// auditor would meet another host than the API server does.
func urlTarget(b inventory.Backend, isAsked bool) (target, bool) {
	u, err := url.Parse(b.URL)
	if !isAsked || err != nil || u.Hostname() == "" || b.Loopback() {
		return target{}, false
	}
	port := 443
	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil {
			return target{}, false
		}
	}
	t := named(u.Hostname(), int32(port))
	t.addresses = []string{t.host}
	return t, true
}

func named(serverName string, port int32) target {
	return target{host: hostPort(serverName, port), serverName: serverName}
}

// outcome is what one dial showed to all that call the backend.
type outcome struct {
	inventory.Probe
	// address is what was dialed: it says nothing of an endpoint that came later. ready
	// stands for those endpoints that were ready then.
	address, ready string
	nextDial       time.Time
	// unrouted says that the auditor's own place may be to blame.
	unrouted bool
	// certificates are what each CA bundle makes of the one that was shown.
	certificates map[string]*inventory.ServingCertificate
	// turn counts the dials, failures those since the last that found the backend well.
	turn, failures int
}

// failed reports whether the dial showed that the backend cannot be called, now or by
// some of its callers.
func (o outcome) failed() bool {
	if o.Answer == inventory.AnswerNone {
		return false
	}
	for _, c := range o.certificates {
		if c.Untrusted != "" || c.Misnamed != "" || o.At.After(c.NotAfter) || o.At.Before(c.NotBefore) {
			return true
		}
	}
	return o.Answer != inventory.AnswerTLS
}

// dialAll dials the targets, some at a time, and returns what each showed.
func (o Options) dialAll(ctx context.Context, targets []target) []outcome {
	out := make([]outcome, len(targets))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, t := range targets {
		group.Go(func() error {
			out[i] = o.dial(ctx, t)
			return nil
		})
	}
	_ = group.Wait()
	return out
}

func probes(targets []target, outcomes map[string]outcome) map[inventory.Ref]inventory.Probe {
	isCutOff := cutOff(targets, outcomes)
	out := map[inventory.Ref]inventory.Probe{}
	for _, t := range targets {
		result, ok := outcomes[t.host]
		if !ok {
			continue
		}
		for _, c := range t.callers {
			probe := result.Probe
			probe.Certificate = result.certificates[c.bundle]
			if probe.Certificate == nil && len(result.certificates) > 0 {
				continue // its CA bundle is another one since the dial
			}
			if isCutOff && result.unrouted {
				probe.Answer = inventory.AnswerNone
			}
			out[c.Ref] = probe
		}
	}
	return out
}

// cutOff reports whether the auditor itself is cut off, as a laptop outside the
// cluster is: of several backends that are called none can be found.
func cutOff(targets []target, outcomes map[string]outcome) bool {
	unrouted := 0
	for _, t := range targets {
		switch result, ok := outcomes[t.host]; {
		case !ok:
		case result.unrouted:
			unrouted++
		case result.Answer != inventory.AnswerNone:
			return false
		}
	}
	return unrouted > 1
}

// addressesOf returns where the API server finds the Service, as "host:port",
// sorted: the ready endpoints while it routes to endpoints, else the cluster
// IP. It asks no DNS for that, but for an ExternalName. It returns nil where
// they are unknown.
// Source: k8s.io/apiserver/pkg/util/proxy.
func addressesOf(s *inventory.Snapshot, ref inventory.ServiceRef) []string {
	service, ok := s.Services[ref.Key]
	if !ok {
		return nil
	}
	headless := service.ClusterIP == corev1.ClusterIPNone
	switch {
	case service.Type == corev1.ServiceTypeExternalName:
		return []string{hostPort(service.ExternalName, ref.Port)}
	case s.Routing == inventory.RoutingEndpoints || headless:
		return endpointAddresses(service, ref.Port)
	case service.ClusterIP != "":
		return []string{hostPort(service.ClusterIP, ref.Port)}
	}
	return nil
}

func endpointAddresses(s inventory.Service, port int32) []string {
	i := slices.IndexFunc(s.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if i < 0 {
		return nil
	}
	found := map[string]bool{}
	for _, e := range s.Endpoints {
		if number, ok := e.Ports[s.Ports[i].Name]; ok && e.Ready {
			found[hostPort(e.Address, number)] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func hostPort(host string, port int32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
