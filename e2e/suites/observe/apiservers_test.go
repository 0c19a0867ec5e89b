package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/proxy"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// several are API servers on one etcd behind a load balancer, and the requests
// that each of them gets.
type several struct {
	environment
	kubeconfig string
	addresses  []string // of the API servers
	balancer   string
	traffic    *traffic
}

// called is the webhook that all requests meet.
const called = "called.observe.example.com"

// newSeveral starts three API servers until the end of the test. The first has one
// client, the second two and the third three.
func newSeveral(t *testing.T) several {
	t.Helper()
	w := environment{testenv.New(t, cluster.Options{WithoutControllers: true})}
	s := several{environment: w, traffic: &traffic{pause: 50 * time.Millisecond, answered: map[string][]time.Time{}}}
	configs := []*rest.Config{w.Plane.Config()}
	for range 2 {
		config := testenv.Get(w.Plane.Join(t.Context()))(t)
		configs = append(configs, config)
	}
	for _, config := range configs {
		s.addresses = append(s.addresses, strings.TrimPrefix(config.Host, "https://"))
	}
	balancer := testenv.Get(proxy.StartBalancer(s.addresses...))(t)
	t.Cleanup(func() { testenv.Must(t, balancer.Close()) })
	behind := w.Plane.Config()
	behind.Host, s.balancer = "https://"+balancer.Address, balancer.Address
	s.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	testenv.Must(t, cluster.WriteKubeconfig(s.kubeconfig, behind))

	b := w.Backend(t, "several")
	h := testenv.Hook(b, "/deny/several", testenv.Rule("", "configmaps"))
	h.Name, h.FailurePolicy = called, new(admissionv1.Fail)
	h.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: b.Namespace}}
	w.Validate(t, "observe-several", h)
	s.send(t, configs, b.Namespace)
	return s
}

// counted is the name under which the requests to an API server are counted; it is
// the value of a label.
func counted(address string) string { return strings.ReplaceAll(address, ":", "-") }

// send has the clients send requests until the end of the test, each to its API
// server, once all of these call the webhook.
func (s several) send(t *testing.T, configs []*rest.Config, namespace string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	t.Cleanup(func() { stop(); clients.Wait() })
	for i, config := range configs {
		client := testenv.Get(kubernetes.NewForConfig(config))(t)
		other := *s.Env
		other.Kube = client
		one := environment{&other}
		testenv.Eventually(t, func() error { return one.Refused(t, namespace, "denied") })
		for range i + 1 {
			clients.Go(func() { s.traffic.send(ctx, one, namespace, kind{name: counted(s.addresses[i])}) })
		}
	}
}

// endpoints makes these the endpoints of Service default/kubernetes.
func (s several) endpoints(t *testing.T, addresses []string) {
	t.Helper()
	slices := s.Kube.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	for i, address := range addresses {
		host, port, err := net.SplitHostPort(address)
		testenv.Must(t, err)
		number := testenv.Get(strconv.ParseInt(port, 10, 32))(t)
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: fmt.Sprintf("kubernetes-%d", i), Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
			AddressType: discoveryv1.AddressTypeFQDN, // a loopback address is refused as IPv4
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{host}}},
			Ports:       []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(number))}},
		}
		testenv.Gone(t, slices.Delete(t.Context(), slice.Name, metav1.DeleteOptions{}))
		testenv.Get(slices.Create(t.Context(), slice, metav1.CreateOptions{}))(t)
	}
}

func closed(t *testing.T, n int) []string {
	t.Helper()
	ports := testenv.Get(process.FreePorts(n))(t)
	var out []string
	for _, port := range ports {
		out = append(out, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return out
}

// top asks for what is observed of the webhook.
func (s several) top(t *testing.T) (observed, source) {
	t.Helper()
	result := testenv.Command(t, "top", "-o", "json", "--observe-for=5s", "--kubeconfig="+s.kubeconfig)
	var out top
	if err := json.Unmarshal([]byte(result.Stdout), &out); err != nil {
		t.Fatalf("%v: %s%s", err, result.Stdout, result.Stderr)
	}
	for _, l := range out.Webhooks {
		if l.Name == called {
			return l.Observed, out.Observed
		}
	}
	t.Fatalf("%s is not among %+v: %s", called, out.Webhooks, result.Stderr)
	return observed{}, source{}
}

func near(got, want float64) bool { return want > 0 && math.Abs(got-want) <= 0.1*want }

// TestSeveralAPIServers: what is observed is of one API server where a load balancer
// alone is known, of all where each can be asked, and says how many these are.
func TestSeveralAPIServers(t *testing.T) {
	t.Parallel()
	s := newSeveral(t)

	o, from := s.top(t)
	if len(from.Servers) != 1 || from.Servers[0].Address != s.balancer || from.OfServers != 0 {
		t.Errorf("without endpoints: observed by %+v", from)
	}
	testenv.Must(t, s.ofOne(o, from))

	s.endpoints(t, closed(t, 3))
	result := testenv.Command(t, "top", "--observe-for=1s", "--kubeconfig="+s.kubeconfig)
	if want := ": 1 of 3 API servers; the others may call webhooks too."; !testenv.ContainsAll(result.Stdout, "Observed by API server "+s.balancer, want) {
		t.Errorf("endpoints that cannot be reached: want %q in:\n%s%s", want, result.Stdout, result.Stderr)
	}

	s.endpoints(t, append(closed(t, 1), s.addresses[1:]...))
	o, from = s.top(t)
	if len(from.Servers) != 2 || from.OfServers != 3 {
		t.Errorf("an endpoint that cannot be reached: observed by %+v", from)
	}
	testenv.Must(t, s.ofAll(o, from))

	s.endpoints(t, s.addresses)
	o, from = s.top(t)
	if len(from.Servers) != 3 || from.OfServers != 3 {
		t.Errorf("observed by %+v", from)
	}
	testenv.Must(t, s.ofAll(o, from))
}

// ofOne wants the calls of one API server.
func (s several) ofOne(o observed, origin source) error {
	var sent []float64
	for _, address := range s.addresses {
		n := s.traffic.countBetween(counted(address), origin.Servers[0].From, origin.Servers[0].To)
		if near(o.Calls, n) {
			return nil
		}
		sent = append(sent, n)
	}
	return fmt.Errorf("%g calls, of what was sent to each API server: %g", o.Calls, sent)
}

// ofAll wants the calls of all API servers that were asked.
func (s several) ofAll(o observed, origin source) error {
	sent, rate := 0.0, 0.0
	for _, server := range origin.Servers {
		n := s.traffic.countBetween(counted(server.Address), server.From, server.To)
		if n == 0 {
			return errors.New("nothing was sent to " + server.Address)
		}
		sent, rate = sent+n, rate+n/server.To.Sub(server.From).Seconds()
	}
	if !near(o.Calls, sent) || !near(o.RefusedCalls, sent) || !near(o.CallsPerSecond, rate) {
		return fmt.Errorf("%g calls, %g refused, %g a second; sent were %g, %g a second", o.Calls, o.RefusedCalls, o.CallsPerSecond, sent, rate)
	}
	return nil
}
