package manifest

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// endpoints is what Services had before EndpointSlices. Archives of old
// clusters hold nothing else.
//
//lint:ignore SA1019 see above
type endpoints = corev1.Endpoints

// mirror turns endpoints into slices, as the control plane does.
func mirror(e *endpoints) []*discoveryv1.EndpointSlice {
	labels := map[string]string{discoveryv1.LabelServiceName: e.Name}
	out := make([]*discoveryv1.EndpointSlice, 0, len(e.Subsets))
	for _, subset := range e.Subsets {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name, Labels: labels}}
		for _, port := range subset.Ports {
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
				Name:        &port.Name,
				Protocol:    &port.Protocol,
				Port:        &port.Port,
				AppProtocol: port.AppProtocol,
			})
		}
		slice.Endpoints = append(mirrorAddresses(subset.Addresses, true), mirrorAddresses(subset.NotReadyAddresses, false)...)
		out = append(out, slice)
	}
	return out
}

func mirrorAddresses(addresses []corev1.EndpointAddress, ready bool) []discoveryv1.Endpoint {
	out := make([]discoveryv1.Endpoint, 0, len(addresses))
	for _, a := range addresses {
		out = append(out, discoveryv1.Endpoint{
			Addresses:  []string{a.IP},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			NodeName:   a.NodeName,
			TargetRef:  a.TargetRef,
		})
	}
	return out
}
