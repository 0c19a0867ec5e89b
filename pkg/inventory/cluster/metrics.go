package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster/client"
)

const (
	// endpointsTimeout is how long asking for the API servers' addresses may take,
	// and dialing them.
	endpointsTimeout = 3 * time.Second
	// apiServerName is in the serving certificate of each API server.
	apiServerName = "kubernetes.default.svc"
)

// MetricsServers returns the API servers to ask for metrics, and how many the
// cluster has, 0 where that is unknown. These are the endpoints of Service
// default/kubernetes that answer with a certificate that the config trusts; where
// there are none, or one, it is the address of the config.
func MetricsServers(ctx context.Context, config *rest.Config) ([]inventory.MetricsServer, int, error) {
	own, err := metricsServer(config)
	if err != nil {
		return nil, 0, err
	}
	addresses := apiServers(ctx, config)
	if len(addresses) < 2 {
		return []inventory.MetricsServer{own}, len(addresses), nil
	}
	var out []inventory.MetricsServer
	for _, direct := range reachable(ctx, config, addresses) {
		server, err := metricsServer(direct)
		if err != nil {
			return nil, 0, err
		}
		out = append(out, server)
	}
	if len(out) == 0 {
		out = []inventory.MetricsServer{own}
	}
	return out, len(addresses), nil
}

// CountAPIServers returns how many API servers the cluster has, 0 where that is
// not known.
func CountAPIServers(ctx context.Context, config *rest.Config) int {
	return len(apiServers(ctx, config))
}

func metricsServer(config *rest.Config) (inventory.MetricsServer, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	server, err := client.Group(config, nil, corev1.SchemeGroupVersion)
	if err != nil {
		return inventory.MetricsServer{}, err
	}
	base := server.Get().URL()
	return inventory.MetricsServer{
		Address: base.Host,
		Fetch: func(ctx context.Context) (io.ReadCloser, error) {
			body, err := server.Get().AbsPath("/metrics").
				SetHeader("Accept", "text/plain;version=0.0.4").MaxRetries(0).Stream(ctx)
			if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
				err = fmt.Errorf("%w: grant get on the nonResourceURL /metrics, as the ClusterRole system:monitoring does", err)
			}
			return body, err
		},
	}, nil
}

// apiServers returns the addresses of the API servers, sorted; none where they
// cannot be read.
func apiServers(ctx context.Context, config *rest.Config) []string {
	ctx, cancel := context.WithTimeout(ctx, endpointsTimeout)
	defer cancel()
	group, err := client.Group(config, nil, discoveryv1.SchemeGroupVersion)
	if err != nil {
		return nil
	}
	endpointSlices := client.Lister[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](group, "endpointslices",
		metav1.NamespaceDefault)
	list, err := endpointSlices.List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"})
	if err != nil {
		return nil
	}
	found := map[string]bool{}
	for _, slice := range list.Items {
		for _, port := range slice.Ports {
			for _, e := range slice.Endpoints {
				if ptr.Deref(e.Conditions.Ready, true) && len(e.Addresses) > 0 {
					found[net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(ptr.Deref(port.Port, 443))))] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// reachable returns configs of the addresses that answer as API servers of the
// cluster. A config that does not verify certificates is not used for them: its
// credentials would go to whatever answers there.
func reachable(ctx context.Context, config *rest.Config, addresses []string) []*rest.Config {
	if config.Insecure || config.Proxy != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, endpointsTimeout)
	defer cancel()
	answering := make([]*rest.Config, len(addresses))
	var group sync.WaitGroup
	for i, address := range addresses {
		group.Go(func() { answering[i] = direct(ctx, config, address) })
	}
	group.Wait()
	return slices.DeleteFunc(answering, func(c *rest.Config) bool { return c == nil })
}

// direct returns the config of one API server, nil where it does not answer with
// a certificate that the config trusts.
func direct(ctx context.Context, config *rest.Config, address string) *rest.Config {
	out := rest.CopyConfig(config)
	out.Host = "https://" + address
	out.ServerName = apiServerName
	trust, err := rest.TLSConfigFor(out)
	if err != nil || trust == nil {
		return nil
	}
	dialer := tls.Dialer{Config: trust}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil
	}
	conn.Close()
	return out
}
