package findings

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

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
		name := fmt.Sprintf("e2e-%d", time.Now().UnixNano())
		if err := w.CreateWidget(t, group, name); err != nil {
			return err
		}
		_, err := w.WidgetClient(group, "v2").Get(t.Context(), name, metav1.GetOptions{})
		return err
	}
}

func TestBackends(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	for kind, register := range subjects {
		for i, x := range webhook.Breakages {
			t.Run(kind+"/"+x.Name, func(t *testing.T) {
				t.Parallel()
				b := w.Backend(t, fmt.Sprintf("backends-%s-%d", kind, i))
				w.comesAndGoes(t, x, b, register(t, w, b))
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
func (w environment) comesAndGoes(t *testing.T, x webhook.Breakage, b webhook.Backend, s subject) {
	scraper := w.Scraper(t)
	scraper.Await("backend is ready", metrics.Equals(testenv.BackendReady, s.labels, 1))
	scraper.AwaitNoFinding(x.Check, s.labels)
	testenv.Eventually(t, s.request)
	for range 2 {
		testenv.Must(t, x.Break(b, t.Context()))
		scraper.AwaitFinding(x.Check, "critical", s.labels)
		scraper.Await("backend is not ready", metrics.Equals(testenv.BackendReady, s.labels, 0))
		testenv.Eventually(t, func() error {
			if err := s.request(); err == nil || !strings.Contains(err.Error(), x.Error) {
				return fmt.Errorf("want an error with %q, have %v", x.Error, err)
			}
			return nil
		})
		testenv.Must(t, x.Heal(b, t.Context()))
		scraper.AwaitNoFinding(x.Check, s.labels)
		scraper.Await("backend is ready", metrics.Equals(testenv.BackendReady, s.labels, 1))
		testenv.Eventually(t, s.request)
	}
}
