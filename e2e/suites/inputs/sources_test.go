package inputs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestDump audits what kubectl writes of a namespace, and the configuration, which kubectl
// leaves out: one of its webhooks has no ready endpoint, which is not dumped, the Service of
// the other is missing. A must-gather and archives are tested in pkg/inventory/manifest.
func TestDump(t *testing.T) {
	const scene = "sources"
	w := environment{stock.Use(t)}
	b := w.Backend(t, scene)
	testenv.Must(t, b.Unready(t.Context()))
	here := testenv.Hook(b, "/allow/sources", testenv.Rule("", "configmaps"))
	gone := *here.DeepCopy()
	gone.Name, gone.ClientConfig.Service.Name = "gone."+here.Name, "gone"
	gone.FailurePolicy, here.FailurePolicy = new(admissionv1.Fail), new(admissionv1.Fail)
	w.Validate(t, scene, here, gone)

	dump := filepath.Join(t.TempDir(), "dump")
	w.Kubectl(t, "cluster-info", "dump", "--namespaces", scene, "--output-directory", dump)
	configuration := filepath.Join(t.TempDir(), "configuration.yaml")
	testenv.Must(t, os.WriteFile(configuration, []byte(w.Kubectl(t, "get", "validatingwebhookconfiguration", scene, "-o", "yaml")), 0o600))
	d, got := testenv.Report(t, "--fail-on=never", "--aggregator-routing=true", dump, configuration)
	if got.Code != 0 || len(d.Errors) > 0 || len(d.Inputs) != 2 {
		t.Fatalf("exit code %d, errors %v, inputs %v", got.Code, d.Errors, d.Inputs)
	}
	if in := d.Inputs[0]; in.Kind != "cluster-info dump" || in.Path != dump || in.Objects == 0 {
		t.Errorf("%s was taken for %+v", dump, in)
	}
	lacks := strings.Join(d.Inputs[0].Lacks, "; ")
	if !testenv.ContainsAll(lacks, "no webhook configurations", "no EndpointSlices", "no Namespaces", "no CustomResourceDefinitions") || strings.Contains(lacks, "no Services") {
		t.Errorf("reported as missing: %s", lacks)
	}
	if !d.HasWebhookOf(scene) || !d.HasFinding("service-missing", scene) || slices.ContainsFunc([]string{"no-ready-endpoints", "ca-bundle-invalid"}, func(check string) bool { return d.HasFinding(check, scene) }) {
		t.Errorf("webhooks %v, findings %+v", d.Webhooks, d.Findings)
	}
	if d.Inputs[0].Taken.IsZero() || time.Since(d.Taken) > time.Hour || d.Taken.After(time.Now()) {
		t.Errorf("collected at %s, evaluated as of %s", d.Inputs[0].Taken, d.Taken)
	}
	if text := testenv.Command(t, "audit", "-v", "--fail-on=never", dump, configuration).Stdout; !testenv.ContainsAll(text, "Read "+dump+" as cluster-info dump: ") {
		t.Errorf("the report does not say what it was made from:\n%s", text)
	}
}
