package findings

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
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
var subjects = map[string]func(*testing.T, environment, webhook.Backend) subject{
	"validating": func(t *testing.T, w environment, b webhook.Backend) subject {
		h := testenv.Hook(b, "/allow/backends", testenv.Rule("", "configmaps"))
		w.Validate(t, b.Namespace, h)
		return subject{testenv.Identity("validating", b.Namespace, h.Name), w.creatingConfigMaps(t, b)}
	},
	"admit": func(t *testing.T, w environment, b webhook.Backend) subject {
		h := testenv.Mutating(testenv.Hook(b, "/allow/backends", testenv.Rule("", "configmaps")))
		w.Mutate(t, b.Namespace, h)
		return subject{testenv.Identity("admit", b.Namespace, h.Name), w.creatingConfigMaps(t, b)}
	},
	"conversion": func(t *testing.T, w environment, b webhook.Backend) subject {
		group := b.Namespace + ".example.com"
		name := w.Widgets(t, group, b.Conversion("/convert/backends"))
		return subject{testenv.Identity("conversion", name, name), w.convertingWidgets(t, group)}
	},
}

func (w environment) creatingConfigMaps(t *testing.T, b webhook.Backend) func() error {
	return func() error {
		_, err := w.CreateConfigMap(t, b.Namespace)
		return err
	}
}

// convertingWidgets writes a widget in one version and reads it in the other.
// The write matters: as long as no client writes, the watch caches go on serving
// what they converted before the webhook died.
func (w environment) convertingWidgets(t *testing.T, group string) func() error {
	return func() error {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(group + "/v1")
		object.SetKind("Widget")
		object.SetGenerateName("e2e-")
		made, err := w.WidgetClient(group, "v1").Create(t.Context(), object, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		_, err = w.WidgetClient(group, "v2").Get(t.Context(), made.GetName(), metav1.GetOptions{})
		return err
	}
}

func TestBackends(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	for kind, register := range subjects {
		for i, trouble := range troubles {
			t.Run(kind+"/"+trouble.name, func(t *testing.T) {
				t.Parallel()
				b := w.Backend(t, fmt.Sprintf("backends-%s-%d", kind, i))
				trouble.comesAndGoes(t, w, b, register(t, w, b))
			})
		}
	}
}

// TestAggregatedBackends: the API server passes calls to Service
// default/kubernetes on to what an APIService names, and without that APIService
// answers that there is no such thing.
func TestAggregatedBackends(t *testing.T) {
	w := environment{stock.Use(t)}
	b := w.Backend(t, "backends-aggregated")
	h := testenv.Hook(b, "", testenv.Rule("", "configmaps"))
	h.ClientConfig.Service.Namespace, h.ClientConfig.Service.Name = metav1.NamespaceDefault, "kubernetes"
	h.ClientConfig.Service.Path = new("/apis/nowhere.e2e.example.com/v1/reviews")
	h.ClientConfig.CABundle = w.Plane.Config().CAData
	w.Validate(t, b.Namespace, h)
	testenv.Eventually(t, func() error {
		if _, err := w.CreateConfigMap(t, b.Namespace); err == nil || !strings.Contains(err.Error(), "could not find the requested resource") {
			return fmt.Errorf("want a resource that is not served, have %v", err)
		}
		return nil
	})
	scraper := w.Scraper(t)
	labels := testenv.Identity("validating", b.Namespace, h.Name)
	scraper.AwaitFinding("service-missing", "critical", labels)
	w.Unregister(t, b.Namespace)
	scraper.AwaitNoFinding("service-missing", labels)
}

// comesAndGoes breaks the backend twice and restores it twice, and wants the
// auditor to say each time what the API server does.
func (x trouble) comesAndGoes(t *testing.T, w environment, b webhook.Backend, s subject) {
	scraper := w.Scraper(t)
	scraper.Await("backend is ready", metrics.Equals(testenv.BackendReady, s.labels, 1))
	scraper.AwaitNoFinding(x.check, s.labels)
	testenv.Eventually(t, s.request)
	for range 2 {
		testenv.Must(t, x.breaks(b, t.Context()))
		scraper.AwaitFinding(x.check, "critical", s.labels)
		scraper.Await("backend is not ready", metrics.Equals(testenv.BackendReady, s.labels, 0))
		testenv.Eventually(t, func() error {
			if err := s.request(); err == nil || !strings.Contains(err.Error(), x.error) {
				return fmt.Errorf("want an error with %q, have %v", x.error, err)
			}
			return nil
		})
		testenv.Must(t, x.cure(b, t.Context()))
		scraper.AwaitNoFinding(x.check, s.labels)
		scraper.Await("backend is ready", metrics.Equals(testenv.BackendReady, s.labels, 1))
		testenv.Eventually(t, s.request)
	}
}
