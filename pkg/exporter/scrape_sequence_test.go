package exporter

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// TestScrapesInARow: what is scraped after a change is what a scraper answers that knows
// nothing of the Reports before.
func TestScrapesInARow(t *testing.T) {
	o := reporttest.Crowd(t)
	o.Validating = o.Validating[:12]
	edit := func(i int, change func(*admissionv1.ValidatingWebhookConfiguration)) {
		o.Validating[i] = o.Validating[i].DeepCopy()
		change(o.Validating[i])
	}
	probes := map[inventory.Ref]inventory.Probe{}
	random := rand.New(rand.NewPCG(7, 7))
	changes := map[string]func(i int){
		"timeout": func(i int) {
			edit(i, func(c *admissionv1.ValidatingWebhookConfiguration) {
				c.Webhooks[0].TimeoutSeconds = new(random.Int32N(29) + 1)
			})
		},
		"failurePolicy": func(i int) {
			edit(i, func(c *admissionv1.ValidatingWebhookConfiguration) {
				c.Webhooks[1].FailurePolicy = new(admissionv1.Ignore)
			})
		},
		"name of another": func(i int) {
			edit(i, func(c *admissionv1.ValidatingWebhookConfiguration) { c.Webhooks[2].Name = "one.name.example.com" })
		},
		"order": func(i int) {
			edit(i, func(c *admissionv1.ValidatingWebhookConfiguration) { slices.Reverse(c.Webhooks) })
		},
		"rules": func(i int) {
			edit(i, func(c *admissionv1.ValidatingWebhookConfiguration) { c.Webhooks[3].Rules[0].Resources = []string{"*"} })
		},
		"owner": func(i int) {
			edit(i, func(c *admissionv1.ValidatingWebhookConfiguration) {
				c.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/instance": fmt.Sprint(random.Int())}
			})
		},
		"CA bundle": func(i int) {
			edit(i, func(c *admissionv1.ValidatingWebhookConfiguration) { c.Webhooks[4].ClientConfig.CABundle = nil })
		},
		"last endpoint": func(i int) {
			o.EndpointSlices[i] = reporttest.EndpointSlice(fmt.Sprintf("scale-%03d", i), random.IntN(2) == 0)
		},
		"probe": func(i int) {
			c := o.Validating[i]
			ref := inventory.Ref{Type: inventory.Validating, Configuration: c.Name, Name: c.Webhooks[0].Name}
			probes = maps.Clone(probes)
			probes[ref] = inventory.Probe{Answer: inventory.AnswerTLS, Took: time.Duration(random.IntN(5)) * time.Second}
		},
		"deleted": func(i int) { o.Validating = slices.Delete(o.Validating, i, i+1) },
		"added":   func(i int) { o.Validating = append(o.Validating, reporttest.Crowded(20+random.IntN(20), nil)) },
	}
	names := slices.Sorted(maps.Keys(changes))
	builder, evaluator := inventory.Builder{}, classify.NewEvaluator(classify.DefaultPolicy())
	var matcher *admission.Matcher
	var now *classify.Report
	current := func() *classify.Report { return now }
	s := newScraper(collector{current, Families, prometheus.NewRegistry()}, http.NotFoundHandler())
	scraped := func(s http.Handler) []byte {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.Bytes()
	}
	for n := range 300 {
		change := names[random.IntN(len(names))]
		o.EndpointSlices, o.Validating = slices.Clone(o.EndpointSlices), slices.Clone(o.Validating)
		changes[change](random.IntN(min(10, len(o.Validating))))
		if len(o.Validating) < 5 {
			o.Validating = append(o.Validating, reporttest.Crowd(t).Validating[:10]...)
		}
		snapshot := builder.Snapshot(o, reporttest.Taken)
		snapshot.Probes = probes
		matcher = matcher.Next(snapshot)
		now = must.Get(evaluator.Evaluate(t.Context(), matcher))(t)
		if n%3 == 2 {
			continue // not each Report is scraped
		}
		fresh := newScraper(collector{current, Families, prometheus.NewRegistry()}, http.NotFoundHandler())
		if want, got := scraped(fresh), scraped(s); !bytes.Equal(want, got) {
			t.Fatalf("change %d, of %s: -want +got:\n%s", n, change, cmp.Diff(string(want), string(got)))
		}
	}
}
