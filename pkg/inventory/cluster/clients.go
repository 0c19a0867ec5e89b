package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster/client"
)

// Clients talk to one API server. NewClients makes them.
type Clients struct {
	host                                                                         string
	admission, apiextensions, aggregator, core, apps, slices, policy, networking rest.Interface
	metadata                                                                     metadata.Interface
	// connections are all that are open; nil in tests without any.
	connections *connrotation.Dialer
}

// connectTimeout bounds the first call, and dialTimeout each attempt to open a
// connection, as in client-go.
const (
	connectTimeout = 5 * time.Second
	dialTimeout    = 30 * time.Second
)

// NewClients returns clients of the API server that the config names. They use
// protobuf unless the config sets another content type, and no client-side rate
// limit unless the config sets QPS: with client-go's default of five requests a
// second the start would take minutes.
func NewClients(config *rest.Config) (Clients, error) {
	config = rest.CopyConfig(config)
	if config.QPS == 0 {
		config.QPS = -1
	}
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	// Warnings of the API server concern writes.
	config.WarningHandler = rest.NoWarnings{}
	connections := connrotation.NewDialer((&net.Dialer{Timeout: dialTimeout}).DialContext)
	config.Dial = connections.DialContext
	transport, err := rest.TransportFor(config)
	if err != nil {
		return Clients{}, fmt.Errorf("preparing to reach %s: %w", config.Host, err)
	}
	c, err := newClients(config, &http.Client{Transport: transport, Timeout: config.Timeout})
	if err != nil {
		return Clients{}, fmt.Errorf("preparing to reach %s: %w", config.Host, err)
	}
	c.connections = connections
	return c, nil
}

// connect opens the connection that all calls share: calls that begin together
// without one would each make a TLS handshake. Its failure is that of the calls.
func (c Clients) connect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	c.core.Get().AbsPath(versionPath).MaxRetries(0).Do(ctx)
}

func newClients(config *rest.Config, h *http.Client) (Clients, error) {
	c := Clients{host: config.Host}
	var errs [9]error
	c.admission, errs[0] = client.Group(config, h, admissionv1.SchemeGroupVersion)
	c.apiextensions, errs[1] = client.Group(config, h, apiextensionsv1.SchemeGroupVersion)
	c.aggregator, errs[2] = client.Group(config, h, apiregistrationv1.SchemeGroupVersion)
	c.metadata, errs[3] = metadata.NewForConfigAndClient(config, h)
	c.core, errs[4] = client.Group(config, h, corev1.SchemeGroupVersion)
	c.slices, errs[5] = client.Group(config, h, discoveryv1.SchemeGroupVersion)
	c.apps, errs[6] = client.Group(config, h, appsv1.SchemeGroupVersion)
	c.policy, errs[7] = client.Group(config, h, policyv1.SchemeGroupVersion)
	c.networking, errs[8] = client.Group(config, h, networkingv1.SchemeGroupVersion)
	return c, cmp.Or(errs[:]...) // an invalid URL fails for all clients alike
}

// Selects reports whether the selector selects an object, in the namespace where it is not "".
func (c Clients) Selects(ctx context.Context, resource schema.GroupVersionResource, namespace,
	selector string,
) (bool, error) {
	list, err := c.metadata.Resource(resource).Namespace(namespace).List(ctx,
		metav1.ListOptions{LabelSelector: selector, Limit: 1})
	if err != nil {
		return false, err
	}
	return len(list.Items) > 0, nil
}

// Metadata returns the metadata of an object, in the namespace where it is not "".
func (c Clients) Metadata(ctx context.Context, resource schema.GroupVersionResource, namespace,
	name string,
) (map[string]any, error) {
	object, err := c.metadata.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(&object.ObjectMeta)
}
