// Package scale holds that many webhooks behind many Services are reported as few
// are. What they cost is measured by e2e/bench.
package scale

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// The cluster has so many configurations of so many webhooks each, one Service for
// each configuration, in namespaces in turn. Of each tenth Service the endpoints
// are not ready, and each twentieth, the fifth and so on, does not exist.
const (
	configurations = 200
	each           = 10
	namespaces     = 40
)

func unready(i int) bool { return i%10 == 0 }
func missing(i int) bool { return i%20 == 5 }

// watches is the most that the auditor opens, whatever the number of Services: one of
// each kind, and one of the Pods of each namespace.
const watches = 16 + namespaces

// TestScale audits 2,000 webhooks: the watching auditor and "audit" find the
// webhooks with broken backends, all of them and no other, and follow a repair.
func TestScale(t *testing.T) {
	w := testenv.New(t, cluster.Options{})
	c := filled(t, w)
	before := watchesOf(t, w)
	scraper := w.Scraper(t)
	scraper.Await("all webhooks", func(m metrics.Metrics) error {
		return counted("webhooks", len(m.Select(testenv.WebhookInfo, nil)), configurations*each)
	})
	scraper.Await("all findings", func(m metrics.Metrics) error {
		return errors.Join(
			found(m, "no-ready-endpoints", unready),
			found(m, "service-missing", missing),
		)
	})
	if opened := watchesOf(t, w) - before; opened > watches {
		t.Errorf("the auditor opens %v watches: must be %d at most, for they follow kinds and namespaces, not Services", opened, watches)
	}
	d, _ := testenv.Report(t, "--kubeconfig="+w.Plane.Kubeconfig())
	reported := map[string]int{}
	for _, f := range d.Findings {
		reported[f.Check]++
	}
	if len(d.Webhooks) != configurations*each || reported["no-ready-endpoints"] != each*configurations/10 || reported["service-missing"] != each*configurations/20 {
		t.Errorf("audit reports %d webhooks with %v", len(d.Webhooks), reported)
	}

	testenv.Must(t, c.createService(t.Context(), 5))
	scraper.Await("a Service is created", func(m metrics.Metrics) error {
		return found(m, "service-missing", func(i int) bool { return missing(i) && i != 5 })
	})
}

// found says whether the check reports the webhooks of these configurations and of no other.
func found(m metrics.Metrics, check string, broken func(int) bool) error {
	var want []string
	for i := range configurations {
		if broken(i) {
			want = append(want, configuration(i))
		}
	}
	got := map[string]int{}
	for _, s := range m.Select(testenv.Finding, metrics.Labels{"check": check}) {
		got[s.Labels["configuration"]]++
	}
	for name, webhooks := range got {
		if err := counted(check+" of "+name, webhooks, each); err != nil {
			return err
		}
	}
	slices.Sort(want)
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		return fmt.Errorf("%s is found of %q, want %q", check, names, want)
	}
	return nil
}

func counted(what string, got, want int) error {
	if got != want {
		return fmt.Errorf("%d %s, want %d", got, what, want)
	}
	return nil
}

// watchesOf is how many watches the API server has open.
func watchesOf(t *testing.T, w *testenv.Env) float64 {
	t.Helper()
	return w.APIServerMetrics(t, "apiserver_longrunning_requests").Select("apiserver_longrunning_requests", metrics.Labels{"verb": "WATCH"}).Sum()
}

// client creates the objects.
type client struct{ kubernetes.Interface }

// filled creates all objects.
func filled(t *testing.T, w *testenv.Env) client {
	t.Helper()
	config := w.Plane.Config()
	config.QPS = -1 // no limit
	kube, err := kubernetes.NewForConfig(config)
	testenv.Must(t, err)
	c := client{kube}
	testenv.Must(t, forEach(t.Context(), namespaces, c.createNamespace))
	testenv.Must(t, forEach(t.Context(), configurations, func(ctx context.Context, i int) error {
		if missing(i) {
			return nil
		}
		return c.createService(ctx, i)
	}))
	testenv.Must(t, forEach(t.Context(), configurations, c.createConfiguration))
	return c
}

func forEach(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func namespace(i int) string     { return fmt.Sprintf("hooks-%d", i%namespaces) }
func configuration(i int) string { return fmt.Sprintf("scale-%d", i) }

func (c client) createNamespace(ctx context.Context, i int) error {
	_, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace(i)}}, metav1.CreateOptions{})
	return err
}

// createService creates a Service and its EndpointSlice.
func (c client) createService(ctx context.Context, i int) error {
	meta := metav1.ObjectMeta{Name: configuration(i)}
	_, err := c.CoreV1().Services(namespace(i)).Create(ctx, &corev1.Service{
		ObjectMeta: meta,
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	meta.Labels = map[string]string{discoveryv1.LabelServiceName: meta.Name}
	_, err = c.DiscoveryV1().EndpointSlices(namespace(i)).Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  meta,
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(8443))}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}, Conditions: discoveryv1.EndpointConditions{Ready: new(!unready(i))}}},
	}, metav1.CreateOptions{})
	return err
}

func (c client) createConfiguration(ctx context.Context, i int) error {
	hook := admissionv1.ValidatingWebhook{
		ClientConfig:            admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: namespace(i), Name: configuration(i)}},
		Rules:                   []admissionv1.RuleWithOperations{testenv.Rule("scale.example.com", "widgets")},
		SideEffects:             new(admissionv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
	}
	made := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configuration(i)}}
	for n := range each {
		hook.Name = fmt.Sprintf("w%d.%s.example.com", n, made.Name)
		made.Webhooks = append(made.Webhooks, hook)
	}
	_, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, made, metav1.CreateOptions{})
	return err
}
