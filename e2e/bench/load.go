package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
)

// profile is the size of a cluster.
type profile struct {
	Configurations, Hooks int // Hooks in each configuration
	Services, Namespaces  int // Services behind webhooks, in Namespaces
	CRDs, OtherNamespaces int
	// Converting of the CRDs have two versions and a conversion webhook.
	Converting int
	// Unrelated are Services with EndpointSlices that no webhook refers to: a
	// quarter of them in one namespace with Services of webhooks, the rest in all
	// of those namespaces alike.
	Unrelated int
	// Pods are spread over all namespaces.
	Pods int
}

var profiles = map[string]profile{
	"small":  {Configurations: 10, Hooks: 5, Services: 50, Namespaces: 50, CRDs: 10, OtherNamespaces: 50, Pods: 200},
	"medium": {Configurations: 100, Hooks: 5, Services: 100, Namespaces: 50, CRDs: 100, Converting: 30, OtherNamespaces: 500, Unrelated: 1900, Pods: 2000},
	"large":  {Configurations: 1000, Hooks: 5, Services: 500, Namespaces: 50, CRDs: 300, Converting: 85, OtherNamespaces: 4950, Pods: 5000},
}

func profileNames() []string { return slices.Sorted(maps.Keys(profiles)) }

// filled is a control plane with the objects of a profile.
type filled struct {
	plane *cluster.ControlPlane
	size  profile
	kube  kubernetes.Interface
	crds  clientset.Interface
}

// writers is how many requests are under way while the cluster is filled.
const writers = 32

func fill(ctx context.Context, plane *cluster.ControlPlane, size profile) (*filled, error) {
	config := protobuf(plane.Config())
	c := &filled{plane: plane, size: size}
	var err error
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.crds, err = clientset.NewForConfig(config); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		n      int
		create func(context.Context, int) error
	}{
		{size.Namespaces, func(ctx context.Context, i int) error { return c.createNamespace(ctx, hookNamespace(i)) }},
		{size.OtherNamespaces, func(ctx context.Context, i int) error { return c.createNamespace(ctx, fmt.Sprintf("other-%d", i)) }},
		{size.Services, c.createBackend},
		{size.Unrelated, c.createUnrelated},
		{size.Pods, c.createPod},
		{size.CRDs, c.createCRD},
		{size.Configurations, c.createConfiguration},
	} {
		if err := each(ctx, part.n, part.create); err != nil {
			return nil, fmt.Errorf("filling the cluster: %w", err)
		}
	}
	return c, c.rest(ctx)
}

// rest waits until the API server has taken in what it was given: it establishes
// CRDs one by one, and rebuilds its OpenAPI documents after each. After two minutes
// the measurement begins anyway.
func (c *filled) rest(ctx context.Context) error {
	const interval, idle = 3 * time.Second, 0.05 // share of a core
	server := c.plane.APIServer.PID()
	for range 40 {
		before := cpuSeconds(server)
		if err := sleep(ctx, interval); err != nil {
			return err
		}
		if cpuSeconds(server)-before < idle*interval.Seconds() {
			return nil
		}
	}
	return nil
}

// protobuf makes a client without a rate limit.
func protobuf(config *rest.Config) *rest.Config {
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	return config
}

func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func hookNamespace(i int) string { return fmt.Sprintf("hooks-%d", i) }

// service is the namespace and the name of the i-th Service behind webhooks.
func (p profile) service(i int) (namespace, name string) {
	return hookNamespace(i % p.Namespaces), fmt.Sprintf("webhook-%d", i%p.Services/p.Namespaces)
}

func (c *filled) createNamespace(ctx context.Context, name string) error {
	_, err := c.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

func (c *filled) createBackend(ctx context.Context, i int) error {
	namespace, name := c.size.service(i)
	return c.createService(ctx, namespace, name, "")
}

func (c *filled) createUnrelated(ctx context.Context, i int) error {
	namespace := hookNamespace(0)
	if i%4 > 0 {
		namespace = hookNamespace(i % c.size.Namespaces)
	}
	return c.createService(ctx, namespace, fmt.Sprintf("unrelated-%d", i), corev1.ClusterIPNone)
}

func (c *filled) createService(ctx context.Context, namespace, name, clusterIP string) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": name}},
		Spec:       corev1.ServiceSpec{ClusterIP: clusterIP, Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
	}
	if _, err := c.kube.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := c.kube.DiscoveryV1().EndpointSlices(namespace).Create(ctx, endpointSlice(name, true), metav1.CreateOptions{})
	return err
}

func endpointSlice(service string, ready bool) *discoveryv1.EndpointSlice {
	port, portName := int32(8443), "https"
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
}

// createPod creates a Pod of about 3 kB: a third of what many clusters have.
func (c *filled) createPod(ctx context.Context, i int) error {
	namespace := fmt.Sprintf("other-%d", i%c.size.OtherNamespaces)
	if i%10 == 0 {
		namespace = hookNamespace(i / 10 % c.size.Namespaces)
	}
	app := map[string]string{"app.kubernetes.io/name": fmt.Sprintf("app-%d", i%100), "pod-template-hash": "5d59d67564"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i), Labels: app}}
	for n := range 2 {
		container := corev1.Container{
			Name: fmt.Sprintf("container-%d", n), Image: "registry.example.com/team/app:v1.2.3",
			Ports: []corev1.ContainerPort{{Name: fmt.Sprintf("port-%d", n), ContainerPort: int32(8443 + n)}},
		}
		for e := range 20 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", e), Value: strings.Repeat("value ", 5)})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
	}
	_, err := c.kube.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// crdBytes is about the size of a CRD that operators bring, nearly all schema.
const crdBytes = 33_000

func (c *filled) createCRD(ctx context.Context, i int) error {
	const fields, overhead = 100, 130 // bytes of a field without its description
	properties := map[string]apiextensionsv1.JSONSchemaProps{}
	for n := range fields {
		properties[fmt.Sprintf("field%03d", n)] = apiextensionsv1.JSONSchemaProps{
			Type:        "string",
			Description: strings.Repeat("lorem ipsum ", (crdBytes/fields-overhead)/12),
		}
	}
	group := crdGroup(i)
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}},
			}},
		},
	}
	if i < c.size.Converting {
		c.convert(crd, i)
	}
	_, err := c.crds.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, crd, metav1.CreateOptions{})
	return err
}

// convert gives the CRD an older version, and a webhook that converts it.
func (c *filled) convert(crd *apiextensionsv1.CustomResourceDefinition, i int) {
	older := crd.Spec.Versions[0]
	older.Name, older.Storage = "v1beta1", false
	crd.Spec.Versions = append(crd.Spec.Versions, older)
	namespace, name := c.size.service(i)
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: namespace, Name: name}},
			ConversionReviewVersions: []string{"v1"},
		},
	}
}

func crdGroup(i int) string { return fmt.Sprintf("bench-%d.example.com", i) }

func (c *filled) createConfiguration(ctx context.Context, i int) error {
	configuration := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configurationName(i)}}
	for n := range c.size.Hooks {
		hook, err := c.webhook(i, n)
		if err != nil {
			return err
		}
		configuration.Webhooks = append(configuration.Webhooks, hook)
	}
	_, err := c.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, configuration, metav1.CreateOptions{})
	return err
}

func configurationName(i int) string { return fmt.Sprintf("bench-%d", i) }

// webhook registers for what operators intercept: their own resources mostly, and
// in every tenth configuration Pods.
func (c *filled) webhook(i, n int) (admissionv1.ValidatingWebhook, error) {
	group, resource := crdGroup((i*c.size.Hooks+n)%c.size.CRDs), "widgets"
	if n == 0 && i%10 == 0 {
		group, resource = "", "pods"
	}
	bundle, err := caBundle()
	if err != nil {
		return admissionv1.ValidatingWebhook{}, err
	}
	namespace, name := c.size.service(i*c.size.Hooks + n)
	none, path := admissionv1.SideEffectClassNone, "/validate"
	return admissionv1.ValidatingWebhook{
		Name: fmt.Sprintf("hook-%d.bench-%d.example.com", n, i),
		ClientConfig: admissionv1.WebhookClientConfig{
			CABundle: bundle,
			Service:  &admissionv1.ServiceReference{Namespace: namespace, Name: name, Path: &path},
		},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}},
		}},
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"},
		}}},
		SideEffects:             &none,
		AdmissionReviewVersions: []string{"v1"},
	}, nil
}

// caBundle is a CA certificate of its own, as cert-manager makes one per webhook.
func caBundle() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
