package findings

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/openshift/api/config/v1/zz_generated.crd-manifests" // holds the version of the CRDs below
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/apply"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestOpenShiftResources registers webhooks on resources of OpenShift. As long
// as they are not served nothing is reported; OpenShift's own CRDs bring the
// findings, and take them along.
func TestOpenShiftResources(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		check, namespace, group, resource, manifest string
	}{
		{
			"critical-resource", "os-quota", "quota.openshift.io", "clusterresourcequotas",
			"payload-manifests/crds/0000_03_config-operator_01_clusterresourcequotas.crd.yaml",
		},
		{
			"critical-resource", "os-counts", "apiserver.openshift.io", "apirequestcounts",
			"apiserver/v1/zz_generated.crd-manifests/kube-apiserver_apirequestcounts.crd.yaml",
		},
		{
			"sensitive-resource", "os-routes", "route.openshift.io", "routes",
			"route/v1/zz_generated.crd-manifests/routes.crd.yaml",
		},
		{
			"core-resource", "openshift-e2e-config", "config.openshift.io", "apiservers",
			"payload-manifests/crds/0000_10_config-operator_01_apiservers-Default.crd.yaml",
		},
		{
			"core-resource", "openshift-e2e-operators", "config.openshift.io", "clusteroperators",
			"config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusteroperators.crd.yaml",
		},
	} {
		t.Run(test.resource, func(t *testing.T) {
			t.Parallel()
			w := environment{older.Use(t)} // where no test counts what may not be read
			b := w.Backend(t, test.namespace)
			h := testenv.Hook(b, "/allow/openshift", testenv.Rule(test.group, test.resource))
			w.Validate(t, b.Namespace, h)
			labels := testenv.Identity("validating", b.Namespace, h.Name)
			scraper := w.Scraper(t)
			scraper.AwaitWebhook(labels)
			scraper.Await("no finding", metrics.Absent(testenv.Finding, testenv.With(labels, metrics.Labels{"check": test.check})))
			crd := w.install(t, test.manifest)
			scraper.AwaitFinding(test.check, "info", labels)
			testenv.Must(t, w.CRDs.ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), crd, metav1.DeleteOptions{}))
			w.Unserved(t, test.group, test.resource)
			scraper.AwaitNoFinding(test.check, labels)
		})
	}
}

// install applies a CRD of the module github.com/openshift/api until the end of
// the test.
func (w environment) install(t *testing.T, manifest string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(openShiftAPI(t), filepath.FromSlash(manifest)))
	testenv.Must(t, err)
	objects, err := apply.Objects(text)
	testenv.Must(t, err)
	client, err := apply.New(w.Plane.Config())
	testenv.Must(t, err)
	testenv.Must(t, client.Apply(t.Context(), objects...))
	name := objects[0].GetName()
	t.Cleanup(func() { w.Uninstall(t, name) })
	return name
}

// openShiftAPI is where the module's files are.
func openShiftAPI(t *testing.T) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/openshift/api").Output()
	testenv.Must(t, err)
	return strings.TrimSpace(string(output))
}
