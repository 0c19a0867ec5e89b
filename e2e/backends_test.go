package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/webhook-auditor/webhook-auditor/e2e/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/webhook"
)

// trouble is a way to lose a backend and to get it back.
type trouble struct {
	name, check  string
	breaks, cure func(webhook.Backend, context.Context) error
	error        string // what the API server says
}

var troubles = []trouble{
	{
		name:   "service missing",
		check:  "service-missing",
		breaks: webhook.Backend.DeleteService,
		cure:   webhook.Backend.CreateService,
		error:  `service "hook" not found`,
	},
	{
		name:   "port missing",
		check:  "service-port-missing",
		breaks: func(b webhook.Backend, ctx context.Context) error { return b.SetPort(ctx, 444) },
		cure:   func(b webhook.Backend, ctx context.Context) error { return b.SetPort(ctx, webhook.Port) },
		error:  `no service port 443 found for service "hook"`,
	},
	{
		name:   "endpoints missing",
		check:  "no-ready-endpoints",
		breaks: webhook.Backend.DeleteEndpoints,
		cure:   webhook.Backend.CreateEndpoints,
		error:  `no endpoints available for service "hook"`,
	},
	{
		name:   "endpoints unready",
		check:  "no-ready-endpoints",
		breaks: webhook.Backend.Unready,
		cure:   webhook.Backend.Ready,
		error:  `no endpoints available for service "hook"`,
	},
}

// subject is a registered webhook, and a request that needs it.
type subject struct {
	labels  metrics.Labels
	request func() error
}

// subjects register the same backend as each type of webhook.
var subjects = map[string]func(*testing.T, *world, webhook.Backend) subject{
	"validating": func(t *testing.T, w *world, b webhook.Backend) subject {
		h := hook(b, "/allow/backends", rule("", "configmaps"))
		w.validate(t, b.Namespace, h)
		return subject{identity("validating", b.Namespace, h.Name), w.creatingConfigMaps(t, b)}
	},
	"admit": func(t *testing.T, w *world, b webhook.Backend) subject {
		h := mutating(hook(b, "/allow/backends", rule("", "configmaps")))
		w.mutate(t, b.Namespace, h)
		return subject{identity("admit", b.Namespace, h.Name), w.creatingConfigMaps(t, b)}
	},
	"conversion": func(t *testing.T, w *world, b webhook.Backend) subject {
		group := b.Namespace + ".example.com"
		name := w.widgets(t, group, b.Conversion("/convert/backends"))
		return subject{identity("conversion", name, name), w.convertingWidgets(t, group)}
	},
}

func (w *world) creatingConfigMaps(t *testing.T, b webhook.Backend) func() error {
	return func() error {
		_, err := w.createConfigMap(t, b.Namespace)
		return err
	}
}

// convertingWidgets writes a widget in one version and reads it in the other.
// The write matters: as long as nobody writes, the watch caches go on serving
// what they converted before the webhook died.
func (w *world) convertingWidgets(t *testing.T, group string) func() error {
	return func() error {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(group + "/v1")
		object.SetKind("Widget")
		object.SetGenerateName("e2e-")
		made, err := w.widgetClient(group, "v1").Create(t.Context(), object, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		_, err = w.widgetClient(group, "v2").Get(t.Context(), made.GetName(), metav1.GetOptions{})
		return err
	}
}

func TestBackends(t *testing.T) {
	t.Parallel()
	w := use(t, stock)
	for kind, register := range subjects {
		for i, trouble := range troubles {
			t.Run(kind+"/"+trouble.name, func(t *testing.T) {
				t.Parallel()
				b := w.backend(t, fmt.Sprintf("backends-%s-%d", kind, i))
				trouble.comesAndGoes(t, w, b, register(t, w, b))
			})
		}
	}
}

// TestAggregatedBackends: the API server passes calls to Service
// default/kubernetes on to what an APIService names, and without that APIService
// answers that there is no such thing.
func TestAggregatedBackends(t *testing.T) {
	w := use(t, stock)
	b := w.backend(t, "backends-aggregated")
	h := hook(b, "", rule("", "configmaps"))
	h.ClientConfig.Service.Namespace, h.ClientConfig.Service.Name = metav1.NamespaceDefault, "kubernetes"
	h.ClientConfig.Service.Path = new("/apis/nowhere.e2e.example.com/v1/reviews")
	h.ClientConfig.CABundle = w.plane.Config().CAData
	w.validate(t, b.Namespace, h)
	eventually(t, func() error {
		if _, err := w.createConfigMap(t, b.Namespace); err == nil || !strings.Contains(err.Error(), "could not find the requested resource") {
			return fmt.Errorf("want what nobody serves, have %v", err)
		}
		return nil
	})
	watcher := w.watch(t)
	labels := identity("validating", b.Namespace, h.Name)
	watcher.finds("service-missing", "critical", labels)
	w.unregister(t, b.Namespace)
	watcher.forgets("service-missing", labels)
}

// comesAndGoes breaks the backend twice and mends it twice, and wants the
// auditor to say each time what the API server does.
func (x trouble) comesAndGoes(t *testing.T, w *world, b webhook.Backend, s subject) {
	watcher := w.watch(t)
	watcher.sees("backend is ready", metrics.Equals(backendReady, s.labels, 1))
	watcher.forgets(x.check, s.labels)
	eventually(t, s.request)
	for range 2 {
		must(t, x.breaks(b, t.Context()))
		watcher.finds(x.check, "critical", s.labels)
		watcher.sees("backend is not ready", metrics.Equals(backendReady, s.labels, 0))
		eventually(t, func() error {
			if err := s.request(); err == nil || !strings.Contains(err.Error(), x.error) {
				return fmt.Errorf("want an error with %q, have %v", x.error, err)
			}
			return nil
		})
		must(t, x.cure(b, t.Context()))
		watcher.forgets(x.check, s.labels)
		watcher.sees("backend is ready", metrics.Equals(backendReady, s.labels, 1))
		eventually(t, s.request)
	}
}
