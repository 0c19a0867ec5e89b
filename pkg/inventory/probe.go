package inventory

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Probe is what dialing a webhook's backend showed, seen from where the auditor
// runs: the API server may see another picture from its own place.
type Probe struct {
	Answer Answer
	// Certificate is what the backend showed, nil where it showed none.
	Certificate *ServingCertificate
	// Error is what the dial ended in, bounded; "" where nothing was wrong.
	Error string
	// At is when the dial began, Took how long it and the handshake lasted.
	At   time.Time
	Took time.Duration
}

// Answer says how a backend takes a dial.
type Answer string

// The answers. AnswerNone decides nothing: a dial that times out may
// meet a network policy, one that is cut off a load balancer.
const (
	AnswerNone        Answer = ""
	AnswerTLS         Answer = "tls"
	AnswerNoTLS       Answer = "no-tls"
	AnswerUnreachable Answer = "unreachable"
)

// ServingCertificate is the certificate that a backend showed, and what the
// CA bundle of one webhook makes of it.
type ServingCertificate struct {
	NotBefore, NotAfter time.Time
	// Untrusted says why no CA of the bundle vouches for it, whatever the time;
	// "" where one does.
	Untrusted string
	// Misnamed says why it is not one for the name that the API server wants;
	// "" where it is.
	Misnamed string
}

// ValidAt reports whether the time is within the certificate's validity.
func (c *ServingCertificate) ValidAt(t time.Time) bool {
	return !t.Before(c.NotBefore) && !t.After(c.NotAfter)
}

// Known reports whether the dial shows if the backend can be called.
func (p Probe) Known() bool { return p.Answer != AnswerNone }

// Succeeds reports whether a call at the time gets through the handshake.
func (p Probe) Succeeds(at time.Time) bool {
	c := p.Certificate
	return p.Answer == AnswerTLS && c != nil && c.Untrusted == "" && c.Misnamed == "" && c.ValidAt(at)
}

// WithProbes returns the Snapshot with the probes in place of its own.
func (s *Snapshot) WithProbes(probes map[Ref]Probe) *Snapshot {
	out := *s
	out.Probes = probes
	return &out
}

// ServerName is the name that the API server wants to see in the certificate
// of the backend.
func (b Backend) ServerName() string {
	if b.Kind == BackendURL {
		return b.Host()
	}
	return fmt.Sprintf("%s.%s.svc", b.Service.Name, b.Service.Namespace)
}

// Addresses returns where the API server finds the Service, as "host:port",
// sorted: the ready endpoints while it routes to endpoints, else the cluster
// IP. It asks no DNS for that, but for an ExternalName. It returns nil where
// they are not known.
// Source: k8s.io/apiserver/pkg/util/proxy.
func (s *Snapshot) Addresses(ref ServiceRef) []string {
	service, ok := s.Services[ref.Key()]
	if !ok {
		return nil
	}
	headless := service.ClusterIP == corev1.ClusterIPNone
	switch {
	case service.Type == corev1.ServiceTypeExternalName:
		return []string{hostPort(service.ExternalName, ref.Port)}
	case s.Routing == RoutingEndpoints || headless:
		return service.endpointAddresses(ref.Port)
	case service.ClusterIP != "":
		return []string{hostPort(service.ClusterIP, ref.Port)}
	}
	return nil
}

func (s Service) endpointAddresses(port int32) []string {
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
