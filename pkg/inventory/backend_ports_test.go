package inventory

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
)

// TestPortOfTwoProtocols: UDP and TCP share a port number. The API server asks
// for endpoints of the first port of that number; a cluster IP leads to the TCP
// one. The answers are those of k8s.io/apiserver/pkg/util/proxy and kube-proxy.
func TestPortOfTwoProtocols(t *testing.T) {
	udp := corev1.ServicePort{Name: "quic", Port: 443, Protocol: corev1.ProtocolUDP}
	tcp := corev1.ServicePort{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP}
	for name, test := range map[string]struct {
		routing Routing
		ports   []corev1.ServicePort
		fault   BackendFault
		only    Routing
	}{
		"UDP first, to the cluster IP":   {RoutingClusterIP, []corev1.ServicePort{udp, tcp}, Sound, RoutingUnknown},
		"UDP first, to endpoints":        {RoutingEndpoints, []corev1.ServicePort{udp, tcp}, NoReadyEndpoints, RoutingUnknown},
		"UDP first, routing not known":   {RoutingUnknown, []corev1.ServicePort{udp, tcp}, NoReadyEndpoints, RoutingEndpoints},
		"TCP first, to the cluster IP":   {RoutingClusterIP, []corev1.ServicePort{tcp, udp}, Sound, RoutingUnknown},
		"TCP first, to endpoints":        {RoutingEndpoints, []corev1.ServicePort{tcp, udp}, Sound, RoutingUnknown},
		"TCP first, routing not known":   {RoutingUnknown, []corev1.ServicePort{tcp, udp}, Sound, RoutingUnknown},
		"another number":                 {RoutingClusterIP, []corev1.ServicePort{{Name: "https", Port: 8443}}, PortNotFound, RoutingUnknown},
		"a port that says no protocol":   {RoutingClusterIP, []corev1.ServicePort{udp, {Name: "https", Port: 443}}, Sound, RoutingUnknown},
		"UDP alone, which leads nowhere": {RoutingUnknown, []corev1.ServicePort{udp}, NoReadyEndpoints, RoutingUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			meta := metav1.ObjectMeta{Namespace: "policy", Name: "policy"}
			o := Objects{
				Services:       []*corev1.Service{{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.7", Ports: test.ports}}},
				EndpointSlices: []*discoveryv1.EndpointSlice{kubetest.EndpointSlice("policy", "policy", "10.0.0.1")},
				Cluster:        Cluster{Routing: test.routing},
			}
			o.ServicesKnown.All, o.EndpointsKnown.All = true, true
			state := o.Snapshot(time.Time{}).State(Backend{Kind: BackendService, Service: ServiceRef{Key: Key{"policy", "policy"}, Port: 443}})
			if state.Fault != test.fault || state.Routing != test.only || state.Certain() != (test.only == RoutingUnknown) {
				t.Errorf("fault %q in routing %q (%s), want %q in %q", state.Fault, state.Routing, state.Detail, test.fault, test.only)
			}
		})
	}
}

// TestServiceWithoutPorts: only a headless Service can be without. Of another, which
// is a part of one, the ports are unknown.
func TestServiceWithoutPorts(t *testing.T) {
	for clusterIP, want := range map[string]BackendState{
		"":                   {},
		"10.96.0.7":          {},
		corev1.ClusterIPNone: {Known: true, Fault: PortNotFound, Detail: "has no port 443, nor any other"},
	} {
		o := Objects{
			Services: []*corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "policy"}, Spec: corev1.ServiceSpec{ClusterIP: clusterIP}}},
			Cluster:  Cluster{Routing: RoutingEndpoints},
		}
		o.ServicesKnown.All, o.EndpointsKnown.All = true, true
		ref := ServiceRef{Key: Key{"policy", "policy"}, Port: 443}
		want.Service = ref
		if got := o.Snapshot(time.Time{}).State(Backend{Kind: BackendService, Service: ref}); got != want {
			t.Errorf("clusterIP %q: %+v, want %+v", clusterIP, got, want)
		}
	}
}

// TestPortWithoutName: an EndpointSlice of a file need not name its only port.
func TestPortWithoutName(t *testing.T) {
	o := Objects{
		Services: []*corev1.Service{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "policy"},
			Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.7", Ports: []corev1.ServicePort{{Port: 443}}},
		}},
		EndpointSlices: []*discoveryv1.EndpointSlice{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "policy", Name: "policy-x", Labels: map[string]string{discoveryv1.LabelServiceName: "policy"}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
			Ports:      []discoveryv1.EndpointPort{{Port: new(int32(8443))}},
		}},
	}
	o.ServicesKnown.All, o.EndpointsKnown.All = true, true
	state := o.Snapshot(time.Time{}).State(Backend{Kind: BackendService, Service: ServiceRef{Key: Key{"policy", "policy"}, Port: 443}})
	if state.Fault != Sound {
		t.Errorf("fault %q (%s), want none", state.Fault, state.Detail)
	}
}
