package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

// Port is the port of every backend's Service; webhooks that name no port use
// it.
const Port int32 = 443

// Backend is a Service without selector and its EndpointSlice, behind which a
// Server listens: an API server reaches it as it reaches any webhook.
type Backend struct {
	Client          kubernetes.Interface
	Namespace, Name string
	Server          *Server
}

// Create makes the namespace, the Service and a ready endpoint.
func (b Backend) Create(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.Namespace}}
	_, err := b.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", b.Namespace, err)
	}
	if err := b.CreateService(ctx); err != nil {
		return err
	}
	return b.CreateEndpoints(ctx)
}

// CreateService makes the Service.
func (b Backend) CreateService(ctx context.Context) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: b.Name},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{
			Name:       "https",
			Port:       Port,
			TargetPort: intstr.FromInt32(b.Server.Port()),
		}}},
	}
	_, err := b.Client.CoreV1().Services(b.Namespace).Create(ctx, service, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating service %s/%s: %w", b.Namespace, b.Name, err)
	}
	slice, err := b.Client.DiscoveryV1().EndpointSlices(b.Namespace).Get(ctx, b.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the endpoints of %s/%s: %w", b.Namespace, b.Name, err)
	}
	return b.publish(slice) // its Endpoints left with an earlier Service of the name
}

// DeleteService removes the Service; its endpoints stay.
func (b Backend) DeleteService(ctx context.Context) error {
	return b.Client.CoreV1().Services(b.Namespace).Delete(ctx, b.Name, metav1.DeleteOptions{})
}

// SetPort changes the port under which the Service is reached.
func (b Backend) SetPort(ctx context.Context, port int32) error {
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/ports/0/port","value":%d}]`, port)
	_, err := b.Client.CoreV1().Services(b.Namespace).Patch(ctx, b.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
	return err
}

// CreateEndpoints makes the EndpointSlice with one ready endpoint. Loopback
// addresses are refused as IPv4, but not as a name: hence the FQDN.
func (b Backend) CreateEndpoints(ctx context.Context) error {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name:   b.Name,
			Labels: map[string]string{discoveryv1.LabelServiceName: b.Name},
		},
		AddressType: discoveryv1.AddressTypeFQDN,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{"127.0.0.1"},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: new(b.Server.Port())}},
	}
	_, err := b.Client.DiscoveryV1().EndpointSlices(b.Namespace).Create(ctx, slice, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the endpoints of %s/%s: %w", b.Namespace, b.Name, err)
	}
	return b.publish(slice)
}

// publish writes the EndpointSlice as the Endpoints object that older API servers route
// by: past the API server, which refuses loopback addresses there.
func (b Backend) publish(slice *discoveryv1.EndpointSlice) error {
	if b.Server.Put == nil {
		return nil
	}
	subsets := []map[string]any{}
	for _, e := range slice.Endpoints {
		kind := "notReadyAddresses"
		if *e.Conditions.Ready {
			kind = "addresses"
		}
		subsets = append(subsets, map[string]any{
			kind:    []map[string]any{{"ip": e.Addresses[0]}},
			"ports": []map[string]any{{"name": *slice.Ports[0].Name, "port": *slice.Ports[0].Port, "protocol": "TCP"}},
		})
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Endpoints", "subsets": subsets,
		"metadata": map[string]any{"namespace": b.Namespace, "name": b.Name},
	})
	if err != nil {
		return fmt.Errorf("writing the endpoints of %s/%s: %w", b.Namespace, b.Name, err)
	}
	return b.Server.Put("/registry/services/endpoints/"+b.Namespace+"/"+b.Name, text)
}

// DeleteEndpoints removes the EndpointSlice.
func (b Backend) DeleteEndpoints(ctx context.Context) error {
	err := b.Client.DiscoveryV1().EndpointSlices(b.Namespace).Delete(ctx, b.Name, metav1.DeleteOptions{})
	if err != nil {
		return fmt.Errorf("deleting the endpoints of %s/%s: %w", b.Namespace, b.Name, err)
	}
	return b.publish(&discoveryv1.EndpointSlice{})
}

// Ready marks the endpoint ready.
func (b Backend) Ready(ctx context.Context) error { return b.setReady(ctx, new(true)) }

// Unready marks the endpoint not ready.
func (b Backend) Unready(ctx context.Context) error { return b.setReady(ctx, new(false)) }

func (b Backend) setReady(ctx context.Context, ready *bool) error {
	return b.Change(ctx, func(slice *discoveryv1.EndpointSlice) { slice.Endpoints[0].Conditions.Ready = ready })
}

// Change updates the EndpointSlice.
func (b Backend) Change(ctx context.Context, change func(*discoveryv1.EndpointSlice)) error {
	slices := b.Client.DiscoveryV1().EndpointSlices(b.Namespace)
	slice, err := slices.Get(ctx, b.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the endpoints of %s/%s: %w", b.Namespace, b.Name, err)
	}
	change(slice)
	if _, err := slices.Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("changing the endpoints of %s/%s: %w", b.Namespace, b.Name, err)
	}
	return b.publish(slice)
}

// Admission is the clientConfig of an admission webhook served at path.
func (b Backend) Admission(path string) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{
		Service:  &admissionregistrationv1.ServiceReference{Namespace: b.Namespace, Name: b.Name, Path: &path},
		CABundle: b.Server.CABundle(),
	}
}

// Conversion is the conversion of a CRD whose objects are converted at path.
func (b Backend) Conversion(path string) *apiextensionsv1.CustomResourceConversion {
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				Service:  &apiextensionsv1.ServiceReference{Namespace: b.Namespace, Name: b.Name, Path: &path},
				CABundle: b.Server.CABundle(),
			},
		},
	}
}
