package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster/client"
)

// Clients talk to one API server. NewClients makes them.
type Clients struct {
	config   *rest.Config
	http     *http.Client
	core     rest.Interface
	metadata metadata.Interface
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
// limit unless the config sets QPS, which then is that of all of them together: with
// client-go's default of five requests a second the start would take minutes.
func NewClients(config *rest.Config) (Clients, error) {
	config = rest.CopyConfig(config)
	if config.QPS == 0 {
		config.QPS = -1
	}
	if config.QPS > 0 && config.RateLimiter == nil { // client-go makes one for each client
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, cmp.Or(config.Burst, rest.DefaultBurst))
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
	c := Clients{
		config: config, http: &http.Client{Transport: transport, Timeout: config.Timeout}, connections: connections,
	}
	if c.core, err = client.Group(config, c.http, corev1.SchemeGroupVersion); err != nil {
		return Clients{}, err
	}
	if c.metadata, err = metadata.NewForConfigAndClient(config, c.http); err != nil {
		return Clients{}, fmt.Errorf("preparing to reach %s: %w", config.Host, err)
	}
	return c, nil
}

// connect opens the connection that all calls share: calls that begin together
// without one would each make a TLS handshake. Its failure is that of the calls.
func (c Clients) connect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	c.core.Get().AbsPath(versionPath).MaxRetries(0).Do(ctx)
}

func (c Clients) Selects(ctx context.Context, resource schema.GroupVersionResource, namespace,
	selector string,
) (bool, error) {
	list, err := c.metadata.Resource(resource).Namespace(namespace).List(ctx,
		metav1.ListOptions{LabelSelector: selector, Limit: 1})
	return err == nil && len(list.Items) > 0, err
}

func (c Clients) Metadata(ctx context.Context, resource schema.GroupVersionResource, namespace,
	name string,
) (map[string]any, error) {
	object, err := c.metadata.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(&object.ObjectMeta)
}
