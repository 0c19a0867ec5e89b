package inventory

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
)

type BackendFault string

// The faults that the objects themselves show. The API server answers each
// with an error of its own; see k8s.io/apiserver/pkg/util/proxy.
const (
	Sound             BackendFault = ""
	ServiceNotFound   BackendFault = "service-missing"
	PortNotFound      BackendFault = "service-port-missing"
	NoReadyEndpoints  BackendFault = "no-ready-endpoints"
	ServiceUnroutable BackendFault = "service-unroutable"
)

type BackendState struct {
	Fault BackendFault
	// Detail completes "the Service …" where there is a Fault.
	Detail string
	// Routing is set where the fault holds in that mode only and the cluster's
	// mode is unknown.
	Routing Routing
	// Known is false where the input lacks the Service or its endpoints: unknown is
	// never a fault.
	Known bool
	// Service is the Service that is really called, after the APIService of a
	// webhook served through the API server itself.
	Service ServiceRef
	// APIService is the one that is missing, or not known, for the API server to pass the
	// call on, if any.
	APIService string
	Ready      int
	// Draining says that none is ready, and that calls still reach Pods that terminate.
	Draining bool
}

// Certain reports whether it is known if the backend can be called: a fault that holds in
// one of two possible routing modes is not certain.
func (s BackendState) Certain() bool { return s.Known && s.Routing == RoutingUnknown }

// Namespace returns the namespace the backend runs in, "" for one outside the
// cluster. A URL whose host is NAME.NAMESPACE.svc counts as in that namespace.
func (b Backend) Namespace() string {
	if b.Kind != BackendURL {
		return b.Service.Namespace
	}
	parts := strings.Split(b.Host(), ".")
	if len(parts) >= 3 && parts[2] == "svc" {
		return parts[1]
	}
	return ""
}

// Host returns the host of a URL backend, without the port.
func (b Backend) Host() string {
	u, err := url.Parse(b.URL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// urlFault is that of the backend's URL. One that was blanked on purpose is not checked.
func (b Backend) urlFault() string {
	if b.Kind != BackendURL || blanked([]byte(b.URL)) {
		return ""
	}
	return URLFault(b.URL)
}

// URLFault says why the API server cannot call a URL, "" where it can. Source:
// ValidateWebhookURL of k8s.io/apiserver/pkg/util/webhook.
func URLFault(raw string) string {
	u, err := url.Parse(raw)
	var parsing *url.Error
	switch {
	case errors.As(err, &parsing):
		return parsing.Err.Error()
	case u.Hostname() == "":
		return "no host in it"
	case u.Scheme != "https":
		return fmt.Sprintf("scheme %q, where the API server allows https alone", u.Scheme)
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return "credentials, a query or a fragment in it, which the API server does not allow"
	}
	return ""
}

// Address is the host of a URL where that is an address, invalid where it is a name.
func (b Backend) Address() netip.Addr {
	address, _ := netip.ParseAddr(b.Host())
	return address.Unmap()
}

// localNames are those that /etc/hosts of most distributions has for the host itself.
var localNames = []string{"localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback"}

// Loopback reports whether a URL backend runs on the API server's own host: an unspecified
// address is dialed as one of the host.
func (b Backend) Loopback() bool {
	host, address := strings.TrimSuffix(strings.ToLower(b.Host()), "."), b.Address()
	isName := slices.Contains(localNames, host) || strings.HasSuffix(host, ".localhost")
	return b.Kind == BackendURL && (isName || address.IsLoopback() || address.IsUnspecified())
}

func bareURL(raw string) string {
	bare, _, _ := strings.Cut(raw, "?")
	bare, _, _ = strings.Cut(bare, "#")
	if scheme, rest, has := strings.Cut(bare, "://"); has {
		host, path, _ := strings.Cut(rest, "/")
		if i := strings.LastIndex(host, "@"); i >= 0 {
			bare = scheme + "://" + host[i+1:] + strings.TrimSuffix("/"+path, "/")
		}
	}
	return bare
}

// String names the backend for people: "service policy/policy:443" or the URL
// without its query.
func (b Backend) String() string {
	switch {
	case b.Kind == BackendURL && b.BareURL == "": // which no API server takes
		return "nothing (neither url nor service)"
	case b.Kind == BackendURL:
		return "URL " + b.BareURL
	}
	return fmt.Sprintf("Service %s:%d", b.Service.Key, b.Service.Port)
}

func (s *Snapshot) State(b Backend) BackendState {
	switch b.Kind {
	case BackendURL:
		return BackendState{}
	case BackendAPIServer:
		return s.throughAPIService(b)
	}
	return s.serviceState(b.Service)
}

// throughAPIService follows a webhook on Service default/kubernetes: the API
// server calls itself there, and its aggregator passes the call on.
func (s *Snapshot) throughAPIService(b Backend) BackendState {
	parts := strings.Split(strings.TrimPrefix(b.Service.Path, "/"), "/")
	if len(parts) < 3 || parts[0] != "apis" {
		return BackendState{Service: b.Service}
	}
	name := parts[2] + "." + parts[1]
	api, ok := s.APIServices[name]
	switch {
	case !ok && s.APIServicesKnown:
		return BackendState{
			Known: true, Service: b.Service, APIService: name,
			Fault: ServiceNotFound, Detail: fmt.Sprintf("answers that it is not found: there is no APIService %s to pass the call on to", name),
		}
	case !ok:
		return BackendState{Service: b.Service, APIService: name}
	case api.Service == nil:
		return BackendState{Known: true, Service: b.Service, Ready: 1}
	}
	return s.serviceState(*api.Service)
}

func (s *Snapshot) serviceState(ref ServiceRef) BackendState {
	state := BackendState{Service: ref}
	service, ok := s.Services[ref.Key]
	if !ok {
		if s.IsMissing(ref.Key) {
			state.Known, state.Fault = true, ServiceNotFound
			state.Detail = "does not exist"
		}
		return state
	}
	if s.unroutable(service, &state) {
		return state
	}
	if service.Type == corev1.ServiceTypeExternalName ||
		LacksPorts(corev1.ServiceSpec{Type: service.Type, ClusterIP: service.ClusterIP, Ports: service.Ports}) {
		return state
	}
	isOther := func(p corev1.ServicePort) bool { return p.Port != ref.Port }
	isDialed := func(p corev1.ServicePort) bool { return isTCP(p.Protocol) || s.Routing == RoutingEndpoints }
	ports := slices.DeleteFunc(slices.Clone(service.Ports), isOther)
	dialed := slices.IndexFunc(ports, isDialed)
	switch {
	case len(ports) == 0:
		state.Known, state.Fault = true, PortNotFound
		state.Detail = fmt.Sprintf("has no port %d, %s", ref.Port, portList(service.Ports))
		return state
	case dialed < 0:
		state.Known, state.Fault = true, ServiceUnroutable
		state.Detail = fmt.Sprintf("has port %d for %s alone", ref.Port, ports[0].Protocol)
		return state
	}
	if !s.EndpointsKnown.Has(ref.Key) && service.Endpoints == nil {
		return state
	}
	state = service.readiness(state, ports[dialed].Name)
	state.Draining = state.Draining && s.Routing != RoutingEndpoints // which asks for ready ones alone
	return state
}

// IsMissing reports whether the input shows that there is no such Service.
func (s *Snapshot) IsMissing(service Key) bool {
	_, exists := s.Services[service]
	_, inNamespace := s.Namespaces[service.Namespace]
	return !exists && (s.ServicesKnown.Has(service) || s.NamespacesKnown && !inNamespace)
}

// LacksPorts reports whether no API server takes such a Service, for it has no ports:
// in files it is a patch, or unfinished. Source: ValidateService in
// k8s.io/kubernetes/pkg/apis/core/validation.
func LacksPorts(s corev1.ServiceSpec) bool {
	return len(s.Ports) == 0 && s.ClusterIP != corev1.ClusterIPNone && s.Type != corev1.ServiceTypeExternalName
}

func (s Service) readiness(state BackendState, port string) BackendState {
	state.Known = true
	state.Ready = s.endpoints(port, func(e *Endpoint) bool { return e.Ready })
	if state.Ready == 0 {
		state.Fault = NoReadyEndpoints
		state.Detail = noEndpoints(s, port)
		state.Draining = s.endpoints(port, func(e *Endpoint) bool { return e.Draining }) > 0
	}
	return state
}

// unroutable fills the state of a Service that one of the two routing modes
// cannot call: a headless one has no address to dial; an ExternalName has no endpoints to
// choose from.
func (s *Snapshot) unroutable(service Service, state *BackendState) bool {
	mode, detail := RoutingClusterIP, "which the API server cannot call while it routes to cluster IPs (--enable-aggregator-routing=false)"
	switch {
	case service.Type == corev1.ServiceTypeExternalName:
		mode, detail = RoutingEndpoints, "is of type ExternalName, which the API server cannot call while it routes to endpoints (--enable-aggregator-routing=true)"
	case service.ClusterIP == corev1.ClusterIPNone:
		detail = "is headless (clusterIP: None), " + detail
	default:
		return false
	}
	if s.Routing != RoutingUnknown && s.Routing != mode {
		return false
	}
	state.Known, state.Fault, state.Detail = true, ServiceUnroutable, detail
	if s.Routing == RoutingUnknown {
		state.Routing = mode
	}
	return true
}

func (s Service) endpoints(port string, are func(*Endpoint) bool) int {
	n := 0
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if _, ok := e.Ports[port]; ok && are(e) {
			n++
		}
	}
	return n
}

func noEndpoints(s Service, port string) string {
	ready := 0
	for _, e := range s.Endpoints {
		if e.Ready {
			ready++
		}
	}
	switch {
	case ready > 0:
		return fmt.Sprintf("has %s, but none on the port named %q", Counted(ready, "ready endpoint"), port)
	case len(s.Endpoints) > 0:
		return fmt.Sprintf("has %s, none of them ready", Counted(len(s.Endpoints), "endpoint"))
	case len(s.Selector) == 0:
		return "has no endpoints, and no selector that would find any"
	}
	return "has no endpoints"
}

// Counted returns "1 endpoint", "2 endpoints", "2 policies".
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ies := strings.CutSuffix(noun, "y"); ies {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func portList(ports []corev1.ServicePort) string {
	if len(ports) == 0 {
		return "nor any other"
	}
	out := lists.Map(ports, func(p corev1.ServicePort) string { return fmt.Sprint(p.Port) })
	return "only " + strings.Join(out, ", ")
}
