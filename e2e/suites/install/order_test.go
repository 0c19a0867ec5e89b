package install

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// orderedCharts are charts whose first installation fails, and one that works: each
// by what works with it.
var orderedCharts = []struct{ name, works string }{
	{"sorted", "Helm 3"},
	{"converted", ""},
	{"last", "all"},
}

// TestInstallOrder installs charts with each Helm, and as they are rendered with
// kubectl, and compares what the API server refuses with what the auditor says of
// their manifests. No backend ever serves: with no controller nothing runs.
func TestInstallOrder(t *testing.T) {
	t.Parallel()
	w := testenv.New(t, cluster.Options{})
	for _, major := range []string{"3", "4"} {
		program := testenv.Get(programs.Helm(major))(t)
		h := helm{program, t.TempDir(), w}
		for _, chart := range orderedCharts {
			t.Run(chart.name+" with Helm "+major, func(t *testing.T) {
				o := h.render(t, chart.name)
				if (o.finding == nil) != (chart.works == "all") || o.finding != nil && chart.works != "" && strings.Contains(o.finding.Message, chart.works) {
					t.Errorf("found: %+v, want that it works with %q", o.finding, chart.works)
				}
				t.Run("helm install", func(t *testing.T) { o.installs(t, "Helm "+major) })
				t.Run("kubectl apply", func(t *testing.T) { o.applies(t) })
			})
		}
	}
}

// order is a chart as Helm renders it, and the finding on that.
type order struct {
	helm
	chart, crds, namespace, rendered string
	finding                          *testenv.ReportedFinding
}

func (h helm) render(t *testing.T, chart string) order {
	t.Helper()
	o := order{helm: h, chart: filepath.Join("testdata", "charts", chart), namespace: "order-" + chart}
	o.crds = filepath.Join(o.chart, "crds")
	text := h.run(t, "template", "order", o.chart, "--include-crds", "--namespace="+o.namespace)
	o.rendered = testenv.File(t, "rendered.yaml", text)
	report, _ := testenv.Report(t, o.rendered)
	for i, f := range report.Findings {
		if f.Check == "install-order" {
			o.finding = &report.Findings[i]
		}
	}
	_, err := h.w.TryKubectl(t.Context(), "create", "namespace", o.namespace)
	if err != nil && !strings.Contains(err.Error(), "already exists") {
		t.Fatal(err)
	}
	return o
}

func (o order) installs(t *testing.T, installer string) {
	_, err := o.command(t.Context(), "install", "order", o.chart, "--namespace="+o.namespace)
	o.compare(t, installer, err)
	_, _ = o.command(t.Context(), "uninstall", "order", "--namespace="+o.namespace) // what is left is deleted here
	o.leave(t)
}

// applies applies what was rendered, once its CRDs are served.
func (o order) applies(t *testing.T) {
	o.w.Kubectl(t, "apply", "-f", o.crds)
	o.w.Kubectl(t, "wait", "--for=condition=Established", "-f", o.crds)
	_, err := o.w.TryKubectl(t.Context(), "apply", "-f", o.rendered)
	o.compare(t, "kubectl apply", err)
	o.leave(t)
}

// compare wants the installation to fail by the webhook where the finding says so, and
// each object that it does not name to be there otherwise.
func (o order) compare(t *testing.T, installer string, err error) {
	t.Helper()
	message := ""
	if o.finding != nil {
		message = o.finding.Message
	}
	_, fails, _ := strings.Cut(message, "fails with ")
	predicted := strings.Contains(fails, installer)
	refused := err != nil && testenv.ContainsAll(err.Error(), "webhook", "order")
	if err != nil && !refused {
		t.Fatalf("another error: %v", err)
	}
	if predicted != refused {
		t.Errorf("refused: %t (%v), predicted: %t: %s", refused, err, predicted, message)
	}
	kind := map[string]string{"sorted": "Gadget", "last": "Widget", "converted": "Gizmo"}[filepath.Base(o.chart)]
	there := o.w.Kubectl(t, "get", strings.ToLower(kind)+"s.v1.order.example.com", "--namespace="+o.namespace, "--output=name")
	if created := strings.Contains(there, "/first"); created == predicted {
		t.Errorf("there is %q, predicted: %s", there, message)
	}
	if named := kind + " " + o.namespace + "/first"; predicted && !strings.Contains(message, named) {
		t.Errorf("%s is not named: %s", named, message)
	}
}

func (o order) leave(t *testing.T) {
	t.Helper()
	o.w.Kubectl(t, "delete", "validatingwebhookconfigurations", "--all")
	o.w.Kubectl(t, "delete", "--ignore-not-found", "-f", o.rendered)
	o.w.Kubectl(t, "delete", "secrets", "--selector=owner=helm", "--namespace="+o.namespace)
}
