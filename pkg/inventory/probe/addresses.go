package probe

import (
	"maps"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

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
