// Package scale measures what a large cluster costs.
package scale

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// The size of the cluster that BenchmarkScale makes.
const (
	scaleCRDs           = 300
	scaleCRDBytes       = 33_000
	scaleConversions    = 30 // of the CRDs
	scaleConfigurations = 500
	scaleHooks          = 10 // in each configuration
	scaleServices       = 50 // that the configurations share
	scaleChanges        = 120
)

// BenchmarkScale measures what a large cluster costs: the memory of the auditor
// and how soon an isolated change shows on /metrics. It takes five minutes, and
// runs only with -bench:
//
//	go test -run '^$' -bench Scale -timeout 30m .
func BenchmarkScale(b *testing.B) {
	b.Run("WatchList", func(b *testing.B) { measureScale(b) })
	b.Run("paged lists", func(b *testing.B) { measureScale(b, "--feature-gates=WatchList=false") })
}

func measureScale(b *testing.B, flags ...string) {
	b.Setenv("GOMAXPROCS", strconv.Itoa(runtime.GOMAXPROCS(0))) // nothing else runs
	big := newBigCluster(b, flags...)
	testenv.Binary(b) // is built before the clock starts
	begun := time.Now()
	a := big.Run(b)
	b.ReportMetric(milliseconds(time.Since(begun)), "ready-ms")
	b.ReportMetric(memory(b, a.PID(), "VmHWM"), "start-peak-MiB")
	b.ReportMetric(float64(scrapes(b, a))/1e6, "scrape-MB")
	delays := big.delays(b, a)
	slices.Sort(delays)
	for _, percent := range []int{50, 99, 100} {
		b.ReportMetric(milliseconds(delays[(len(delays)-1)*percent/100]), fmt.Sprintf("p%d-ms", percent))
	}
	time.Sleep(time.Minute) // settle, on purpose
	b.ReportMetric(memory(b, a.PID(), "VmRSS"), "settled-MiB")
	b.ReportMetric(memory(b, a.PID(), "RssFile"), "settled-file-MiB")
	b.ReportMetric(memory(b, a.PID(), "VmHWM"), "peak-MiB")
	b.ReportMetric(0, "ns/op") // means nothing here
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// memory reads one line of what Linux reports of a process, in MiB.
func memory(b *testing.B, pid int, line string) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	testenv.Must(b, err)
	_, rest, _ := strings.Cut(string(text), line+":")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	testenv.Must(b, err)
	return float64(kilobytes) / 1024
}

// scrapes asks for everything every five seconds, as several replicas of
// Prometheus do, for a minute, and returns how large a scrape is.
func scrapes(b *testing.B, a *auditor.Auditor) int {
	b.Helper()
	size := 0
	for range 12 {
		size = len(fetch(b, a.URL+"/metrics"))
		time.Sleep(5 * time.Second)
	}
	return size
}

func fetch(b *testing.B, url string) string {
	b.Helper()
	response, err := http.Get(url)
	testenv.Must(b, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	testenv.Must(b, err)
	return string(body)
}

// bigCluster is a control plane full of CRDs and webhooks.
type bigCluster struct{ *testenv.Env }

func newBigCluster(b *testing.B, flags ...string) bigCluster {
	b.Helper()
	big := bigCluster{testenv.New(b, cluster.Options{APIServerFlags: flags, WithoutControllers: true})}
	each(b, scaleServices, func(ctx context.Context, i int) error { return big.backend(i).Create(ctx) })
	each(b, scaleCRDs, big.createCRD)
	each(b, scaleConfigurations, big.createConfiguration)
	return big
}

// each does something n times, eight at a time.
func each(b *testing.B, n int, do func(context.Context, int) error) {
	b.Helper()
	errs := make(chan error, n)
	places := make(chan int)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := range places {
				errs <- do(b.Context(), i)
			}
		})
	}
	for i := range n {
		places <- i
	}
	close(places)
	workers.Wait()
	close(errs)
	for err := range errs {
		testenv.Must(b, err)
	}
}

func (c bigCluster) backend(i int) webhook.Backend {
	return webhook.Backend{Client: c.Kube, Namespace: fmt.Sprintf("scale-%03d", i%scaleServices), Name: "hook", Server: c.Hooks}
}

// createCRD makes a CRD as operators bring them: nearly all of it is schema.
func (c bigCluster) createCRD(ctx context.Context, i int) error {
	const fields, overhead = 100, 130 // bytes of a field without its description
	properties := map[string]apiextensionsv1.JSONSchemaProps{}
	for n := range fields {
		properties[fmt.Sprintf("field%03d", n)] = apiextensionsv1.JSONSchemaProps{
			Type:        "string",
			Description: strings.Repeat("lorem ipsum ", (scaleCRDBytes/fields-overhead)/12),
		}
	}
	group := fmt.Sprintf("scale-%03d.example.com", i)
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group:    group,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Scope:    apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{testenv.WidgetVersion("v1"), testenv.WidgetVersion("v2")},
		},
	}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties = properties
	if i < scaleConversions {
		crd.Spec.Conversion = c.backend(i).Conversion("/convert")
	}
	_, err := c.CRDs.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, crd, metav1.CreateOptions{})
	return err
}

// createConfiguration registers webhooks on what operators look at: their own
// resources mostly, the workloads of others now and then.
func (c bigCluster) createConfiguration(ctx context.Context, i int) error {
	configuration := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("scale-%03d", i)}}
	for n := range scaleHooks {
		on := testenv.Rule(fmt.Sprintf("scale-%03d.example.com", (i*scaleHooks+n)%scaleCRDs), "widgets")
		switch n {
		case 0:
			on = testenv.Rule("", "pods")
		case 1:
			on = testenv.Rule("apps", "*")
		case 2:
			on = testenv.Rule("", "secrets")
		}
		h := testenv.Hook(c.backend(i), fmt.Sprintf("/allow/%d/%d", i, n), on)
		h.Name = fmt.Sprintf("hook-%d.scale-%03d.example.com", n, i)
		h.ClientConfig.CABundle = slices.Concat(c.Hooks.CABundle(), c.Hooks.CABundle(), c.Hooks.CABundle())
		h.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"},
		}}}
		configuration.Webhooks = append(configuration.Webhooks, h)
	}
	_, err := c.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, configuration, metav1.CreateOptions{})
	return err
}

// delays loses and regains an endpoint over and over, with pauses in between,
// and measures from the time the API server acknowledges the change to the
// time an answer of /metrics shows it. What is asked for is one family, so
// that the questions cost little of what they measure.
func (c bigCluster) delays(b *testing.B, a *auditor.Auditor) []time.Duration {
	b.Helper()
	backend := webhook.Backend{Client: c.Kube, Namespace: "scale-changing", Name: "hook", Server: c.Hooks}
	testenv.Must(b, backend.Create(b.Context()))
	configuration := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: backend.Namespace},
		Webhooks:   []admissionv1.ValidatingWebhook{testenv.Hook(backend, "/allow", testenv.Rule("example.com", "changes"))},
	}
	_, err := c.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(b.Context(), configuration, metav1.CreateOptions{})
	testenv.Must(b, err)
	_, err = a.Eventually(b.Context(), metrics.Equals(testenv.BackendReady, testenv.Identity("validating", backend.Namespace, configuration.Webhooks[0].Name), 1))
	testenv.Must(b, err)
	var out []time.Duration
	for n := range scaleChanges {
		change := backend.Unready
		if n%2 == 1 {
			change = backend.Ready
		}
		time.Sleep(isolation)
		before := criticals(b, a)
		testenv.Must(b, change(b.Context()))
		acknowledged := time.Now()
		for criticals(b, a) == before {
			if time.Since(acknowledged) > testenv.Patience {
				b.Fatalf("change %d does not show on /metrics", n)
			}
			time.Sleep(glance)
		}
		out = append(out, time.Since(acknowledged))
	}
	return out
}

const (
	// isolation is how long nothing changes before the next change: longer than
	// the auditor's --settle.
	isolation = 250 * time.Millisecond
	// glance is the pause between two looks at /metrics.
	glance = time.Millisecond
)

// criticals is the one series that the change moves; to ask for it alone is
// cheap.
func criticals(b *testing.B, a *auditor.Auditor) string {
	b.Helper()
	const total = auditor.Prefix + "findings"
	for line := range strings.Lines(fetch(b, a.URL+"/metrics?name[]="+total)) {
		if strings.HasPrefix(line, total+"{") && testenv.ContainsAll(line, `severity="critical"`, `acknowledged="false"`) {
			return line
		}
	}
	b.Fatalf("no %s on /metrics", total)
	return ""
}
