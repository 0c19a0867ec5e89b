package cluster

import (
	"context"
	"fmt"
	"net/http"
	"time"

	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	"k8s.io/client-go/discovery"
	admissionclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	sliceclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
)

// Clients talk to one API server. NewClients makes them.
type Clients struct {
	host          string
	admission     *admissionclient.AdmissionregistrationV1Client
	apiextensions *apiextensionsclient.ApiextensionsV1Client
	aggregator    *apiregistrationclient.ApiregistrationV1Client
	core          *coreclient.CoreV1Client
	apps          *appsclient.AppsV1Client
	slices        *sliceclient.DiscoveryV1Client
	metadata      metadata.Interface
	discovery     *discovery.DiscoveryClient
	// lists has room for the lists of scopes that are under way.
	lists chan struct{}
}

// parallelLists is how many lists of scopes are under way at a time. Nearly all of
// such a list is waiting: the API server answers once its cache has caught up with
// etcd, which takes up to 100 ms.
const parallelLists = 64

// connectTimeout bounds the first call.
const connectTimeout = 5 * time.Second

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
	small := rest.CopyConfig(config)
	small.Wrap(func(next http.RoundTripper) http.RoundTripper { return uncompressed{next} })
	large, err1 := rest.HTTPClientFor(config)
	plain, err2 := rest.HTTPClientFor(small)
	c, err3 := newClients(config, large, plain)
	if err := first(err1, err2, err3); err != nil {
		return Clients{}, fmt.Errorf("preparing to reach %s: %w", config.Host, err)
	}
	return c, nil
}

// uncompressed asks for responses without compression, over the same connection as
// the others: each of the many small streams would keep 40 kB for the dictionary.
type uncompressed struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (u uncompressed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Accept-Encoding", "identity")
	return u.next.RoundTrip(r)
}

// connect opens the connection that all calls share: calls that begin together
// without one would each make a TLS handshake. Its failure is that of the calls.
func (c Clients) connect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	c.discovery.RESTClient().Get().AbsPath(versionPath).MaxRetries(0).Do(ctx)
}

func newClients(config *rest.Config, large, small *http.Client) (Clients, error) {
	c := Clients{host: config.Host, lists: make(chan struct{}, parallelLists)}
	var errs [8]error
	c.admission, errs[0] = admissionclient.NewForConfigAndClient(config, large)
	c.apiextensions, errs[1] = apiextensionsclient.NewForConfigAndClient(config, large)
	c.aggregator, errs[2] = apiregistrationclient.NewForConfigAndClient(config, large)
	c.metadata, errs[3] = metadata.NewForConfigAndClient(config, large)
	c.discovery, errs[4] = discovery.NewDiscoveryClientForConfigAndClient(config, large)
	c.core, errs[5] = coreclient.NewForConfigAndClient(config, small)
	c.slices, errs[6] = sliceclient.NewForConfigAndClient(config, small)
	c.apps, errs[7] = appsclient.NewForConfigAndClient(config, small)
	return c, first(errs[:]...)
}

// first returns the first error, nil if there is none: an invalid URL fails for all
// clients alike.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
