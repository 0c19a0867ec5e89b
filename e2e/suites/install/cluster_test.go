// Package install installs the auditor as its users do, with kubectl and what
// stands in manifests, and runs it as the account that it gets there.
package install

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

const manifests = "../../../manifests/"

// broken is an environment with a critical finding: a dead webhook of either type.
func broken(t testing.TB, flags ...string) *testenv.Env {
	t.Helper()
	testenv.Get(programs.Manifests())(t) // git has not all of what is installed
	w := testenv.New(t, cluster.Options{APIServerFlags: flags})
	b := w.Backend(t, "backend")
	h := testenv.Hook(b, "/allow", testenv.Rule("", "configmaps"))
	h.ClientConfig.Service.Name = "gone"
	w.Validate(t, "validating", h)
	h.Name = "mutating.e2e.example.com"
	w.Mutate(t, "mutating", testenv.Mutating(h))
	return w
}

// openShift gives an environment the APIs and namespaces of OpenShift that the auditor
// is installed into.
func openShift(t testing.TB, w *testenv.Env) {
	t.Helper()
	for _, path := range []string{
		"config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusteroperators.crd.yaml",
		"config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml",
	} {
		w.Install(t, testenv.OpenShift(t, path))
	}
	for _, namespace := range []string{"openshift-monitoring", "openshift-config-managed"} {
		w.Namespace(t, namespace)
	}
}

// prometheusOperator installs the CRDs of the prometheus-operator.
func prometheusOperator(t testing.TB, w *testenv.Env) {
	t.Helper()
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "github.com/prometheus-operator/prometheus-operator@v0.94.1")
	output, err := download.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", download, err, output)
	}
	var module struct{ Dir string }
	testenv.Must(t, json.Unmarshal(output, &module))
	for _, name := range []string{"servicemonitors", "prometheusrules"} {
		w.Install(t, testenv.Get(os.ReadFile(filepath.Join(module.Dir, "example", "prometheus-operator-crd", "monitoring.coreos.com_"+name+".yaml")))(t))
	}
}

// runs wants the Deployment to have its Pods: everything that can refuse a Pod,
// the pod security standards and the quota among it, lets them pass.
func runs(t testing.TB, w *testenv.Env, namespace string) {
	t.Helper()
	granted(t, w, namespace)
	testenv.Eventually(t, func() error {
		pods, err := w.Kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(pods.Items) != 2 {
			return fmt.Errorf("%d Pods, want 2\n%s", len(pods.Items), w.Kubectl(t, "get", "events", "--namespace="+namespace)) // why there are no others
		}
		for _, pod := range pods.Items {
			const systemClusterCritical = 2000000000
			if pod.Spec.Priority == nil || *pod.Spec.Priority != systemClusterCritical {
				t.Errorf("Pod %s has priority %v", pod.Name, pod.Spec.Priority)
			}
		}
		return nil
	})
}

// granted does what the controller of quotas, which does not run here, would
// do first.
func granted(t testing.TB, w *testenv.Env, namespace string) {
	t.Helper()
	quotas := w.Kube.CoreV1().ResourceQuotas(namespace)
	quota := testenv.Get(quotas.Get(t.Context(), "webhook-auditor", metav1.GetOptions{}))(t)
	quota.Status.Hard = quota.Spec.Hard
	quota.Status.Used = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	testenv.Get(quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{}))(t)
}
