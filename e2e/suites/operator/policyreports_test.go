package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/kyverno/kyverno/api/policyreport/v1alpha2"            // holds the version of the file below
	_ "github.com/openreports/reports-api/apis/openreports.io/v1alpha1" // so does this
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// reportAPI is an API of policy reports, as its own module has it.
type reportAPI struct {
	name, module, crd string
	resource          schema.GroupVersionResource
}

// policyReport is what the tests read of a report; the two APIs name two fields differently.
type policyReport struct {
	metav1.ObjectMeta `json:"metadata"`
	Summary           struct{ Fail int }
	Results           []struct {
		Policy, Result, Severity, Source string
		Description, Message             string
		Properties                       struct{ Runbook string }
		Subjects, Resources              []corev1.ObjectReference
	}
}

var reportAPIs = []reportAPI{
	{
		"openreports", "github.com/openreports/reports-api", "config/crd/openreports.io_clusterreports.yaml",
		schema.GroupVersionResource{Group: "openreports.io", Version: "v1alpha1", Resource: "clusterreports"},
	},
	{
		"wgpolicy", "github.com/kyverno/kyverno", "config/crds/policyreport/wgpolicyk8s.io_clusterpolicyreports.yaml",
		schema.GroupVersionResource{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "clusterpolicyreports"},
	},
}

// TestPolicyReports writes the reports of each API, with the permissions that
// the manifests grant for it, by the CustomResourceDefinition of its own module.
func TestPolicyReports(t *testing.T) {
	t.Parallel()
	w := testenv.New(t, cluster.Options{WithoutControllers: true})
	w.InstallAPIs(t)
	kubeconfig := asInstalled(t, w)
	for _, api := range reportAPIs {
		t.Run(api.name, func(t *testing.T) { api.test(t, w, kubeconfig) })
	}
}

// asInstalled is the kubeconfig of an account that has what the manifests grant.
func asInstalled(t *testing.T, w *testenv.Env) string {
	t.Helper()
	w.Install(t, testenv.ManifestFile(t, "base/rbac.yaml"))
	config, err := w.Plane.As("system:serviceaccount:" + testenv.Home + ":webhook-auditor")
	testenv.Must(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	testenv.Must(t, cluster.WriteKubeconfig(kubeconfig, config))
	return kubeconfig
}

func (api reportAPI) test(t *testing.T, w *testenv.Env, kubeconfig string) {
	w.Install(t, testenv.ManifestFile(t, "parts/"+api.name+"/rbac.yaml"))
	flags := append(slices.Clone(elected), "--policy-reports="+api.name)
	leader := testenv.RunAs(t, kubeconfig, flags...)
	b := w.Backend(t, "reported-"+api.name)
	testenv.Must(t, b.DeleteService(t.Context()))
	w.Validate(t, b.Namespace, testenv.Hook(b, "/allow", testenv.Rule("", "configmaps")))
	t.Run("without the API", func(t *testing.T) { api.isMissing(t, leader) })
	w.Install(t, testenv.ModuleFile(t, api.module, api.crd))
	t.Run("findings appear and go", func(t *testing.T) { api.follows(t, w, b) })
}

// isMissing wants the log to say once what is missing, and how to get it.
func (api reportAPI) isMissing(t *testing.T, a *auditor.Auditor) {
	want := fmt.Sprintf("does not serve %s %s: install its CustomResourceDefinition", api.resource.GroupVersion(), api.resource.Resource)
	testenv.Eventually(t, func() error {
		if n := strings.Count(a.Output(), want); n != 1 {
			return fmt.Errorf("the log says %d times %q:\n%s", n, want, a.Output())
		}
		return nil
	})
	_, err := a.Scrape(t.Context())
	testenv.Must(t, err)
}

// follows breaks a backend and repairs it.
func (api reportAPI) follows(t *testing.T, w *testenv.Env, b webhook.Backend) {
	made, err := w.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), b.Namespace, metav1.GetOptions{})
	testenv.Must(t, err)
	testenv.Eventually(t, func() error {
		found, err := api.get(t.Context(), w)
		if err != nil {
			return err
		}
		for _, r := range found.Results {
			about, message := slices.Concat(r.Subjects, r.Resources), r.Description+r.Message
			if r.Policy == "service-missing" && r.Result == "fail" && r.Severity == "critical" && r.Source == "webhook-auditor" && found.Summary.Fail == 1 &&
				strings.HasPrefix(message, "webhook "+b.Namespace) && strings.HasSuffix(r.Properties.Runbook, "/service-missing.md") &&
				len(about) == 1 && about[0].Kind == "ValidatingWebhookConfiguration" && about[0].Name == b.Namespace && about[0].UID == made.UID {
				return nil
			}
		}
		return fmt.Errorf("no such finding in %+v", found)
	})
	testenv.Must(t, b.CreateService(t.Context()))
	testenv.Eventually(t, func() error {
		found, err := api.get(t.Context(), w)
		if err == nil && found.Summary.Fail != 0 {
			err = fmt.Errorf("it still fails: %+v", found)
		}
		return err
	})
	found, err := api.get(t.Context(), w)
	testenv.Must(t, err)
	if found.Labels["app.kubernetes.io/managed-by"] != "webhook-auditor" || len(found.OwnerReferences) != 1 || found.OwnerReferences[0].Name != testenv.Home {
		t.Errorf("labels %v, owners %v", found.Labels, found.OwnerReferences)
	}
	again, err := w.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), b.Namespace, metav1.GetOptions{})
	testenv.Must(t, err)
	if again.ResourceVersion != made.ResourceVersion {
		t.Errorf("the configuration was changed: resource version %s, then %s", made.ResourceVersion, again.ResourceVersion)
	}
}

func (api reportAPI) get(ctx context.Context, w *testenv.Env) (policyReport, error) {
	found, err := w.Dynamic.Resource(api.resource).Get(ctx, "webhook-auditor", metav1.GetOptions{})
	if err != nil {
		return policyReport{}, err
	}
	text, err := found.MarshalJSON()
	if err != nil {
		return policyReport{}, err
	}
	var out policyReport
	return out, json.Unmarshal(text, &out)
}
