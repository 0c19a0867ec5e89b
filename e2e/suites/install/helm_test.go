package install

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// helm is one of its major versions, for the release webhook-auditor.
type helm struct {
	program, home string
	w             *testenv.Env
}

const (
	released  = "webhook-auditor"
	chart     = manifests + "chart"
	inRelease = "--namespace=" + released
)

func (h helm) run(t *testing.T, args ...string) string {
	t.Helper()
	output, err := h.command(t.Context(), args...)
	if err != nil {
		t.Fatalf("helm %s: %v", strings.Join(args, " "), err)
	}
	return output
}

func (h helm) command(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, h.program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+h.w.Plane.Kubeconfig(), "HELM_CACHE_HOME="+h.home, "HELM_CONFIG_HOME="+h.home, "HELM_DATA_HOME="+h.home)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%w\n%s%s", err, output, stderr.String())
	}
	return string(output), nil
}

// adoption are flags to move from kubectl, besides --take-ownership.
var adoption = map[string][]string{"4": {"--server-side=false"}}

// TestHelm does with each Helm what users do over time, in one cluster.
func TestHelm(t *testing.T) {
	t.Parallel()
	w := broken(t)
	for _, major := range []string{"3", "4"} {
		t.Run("Helm "+major, func(t *testing.T) {
			program := testenv.Get(programs.Helm(major))(t)
			h := helm{program, t.TempDir(), w}
			if version := h.run(t, "version", "--short"); !strings.HasPrefix(version, "v"+major+".") {
				t.Fatalf("it is %s", version)
			}
			t.Run("files", func(t *testing.T) { h.files(t) })
			t.Run("from kubectl apply", func(t *testing.T) { h.adopts(t, adoption[major]...) })
			t.Run("upgrade and rollback", func(t *testing.T) { h.upgrades(t) })
			t.Run("test", func(t *testing.T) { h.scrapes(t, major) })
			t.Run("uninstall", func(t *testing.T) { h.leaves(t) })
		})
	}
}

// files: the chart passes Helm's own lint, and its templates can be applied.
func (h helm) files(t *testing.T) {
	const version = "--kube-version=1.37.1" // only published builds of Helm know one
	for _, values := range []string{"openshift.enabled=false", "openshift.enabled=true"} {
		h.run(t, "lint", "--strict", chart, version, "--namespace=openshift-webhook-auditor", "--set="+values)
	}
	printed := h.run(t, "template", released, chart, version, inRelease, "--set=namespace.create=true")
	path := testenv.File(t, "printed.yaml", printed)
	h.w.Kubectl(t, "apply", "-f", path)
	h.w.Kubectl(t, "delete", "--ignore-not-found", "-f", path) // its namespace may be quicker
}

// adopts moves an installation of kubectl to Helm. Helm 4 applies on the server by
// default, where the fields stay kubectl's: each later change would conflict.
func (h helm) adopts(t *testing.T, flags ...string) {
	h.w.Kubectl(t, "apply", "-f", manifests+"install.yaml")
	if _, err := h.command(t.Context(), "install", released, chart, inRelease); err == nil {
		t.Error("Helm takes what is not its own without --take-ownership")
	}
	before := h.uid(t)
	// The image of install.yaml, so that no Pod is replaced.
	notes := h.run(t, append([]string{"install", released, chart, inRelease, "--take-ownership", "--set=image.tag=latest"}, flags...)...)
	if !testenv.ContainsAll(notes, "rollout status deployment/webhook-auditor", "kubectl get webhookaudit") {
		t.Errorf("the notes are:\n%s", notes)
	}
	if h.uid(t) != before {
		t.Error("the Deployment was created anew")
	}
	runs(t, h.w, released)
}

func (h helm) uid(t *testing.T) string {
	t.Helper()
	return h.w.Kubectl(t, "get", "deployment", released, inRelease, "--output=jsonpath={.metadata.uid}")
}

// upgrades changes values, and takes that back.
func (h helm) upgrades(t *testing.T) {
	const wanted = "--output=jsonpath={.spec.replicas}"
	h.run(t, "upgrade", released, chart, inRelease, "--set=replicas=1,policy.longTimeoutSeconds=7")
	if got := h.w.Kubectl(t, "get", "deployment", released, inRelease, wanted); got != "1" {
		t.Errorf("%s replicas after the upgrade", got)
	}
	if got := h.w.Kubectl(t, "get", "configmap", released, inRelease, "--output=jsonpath={.data}"); !strings.Contains(got, "longTimeoutSeconds: 7") {
		t.Errorf("the Policy after the upgrade is %s", got)
	}
	h.run(t, "rollback", released, "1", inRelease)
	if got := h.w.Kubectl(t, "get", "deployment", released, inRelease, wanted); got != "2" {
		t.Errorf("%s replicas after the rollback", got)
	}
	if got := h.w.Kubectl(t, "get", "configmap", released, inRelease, "--output=jsonpath={.data}"); strings.Contains(got, "longTimeoutSeconds") {
		t.Errorf("the Policy after the rollback is %s", got)
	}
	if _, err := h.command(t.Context(), "upgrade", released, chart, inRelease, "--set=policy.longTimeout=7"); err == nil || !strings.Contains(err.Error(), "longTimeout") {
		t.Errorf("a typing error in the Policy: %v", err)
	}
}

// scrapes runs "helm test" and, as no kubelet does, its Pod.
func (h helm) scrapes(t *testing.T, major string) {
	a := start(t, h.w, released)
	a.awaitFinding(t, scraper(t, h.w, "helm-"+major))
	ended := make(chan error, 1)
	go func() {
		_, err := h.command(t.Context(), "test", released, inRelease, "--timeout=4m")
		ended <- err
	}()
	pods := h.w.Kube.CoreV1().Pods(released)
	var pod *corev1.Pod
	testenv.Eventually(t, func() (err error) {
		pod, err = pods.Get(t.Context(), released+"-test", metav1.GetOptions{})
		return err
	})
	token := testenv.File(t, "token", a.token)
	args := append([]string{}, pod.Spec.Containers[0].Args...)
	if pod.Spec.ServiceAccountName != account || args[1] != "https://webhook-auditor.webhook-auditor.svc:8443/metrics" {
		t.Fatalf("the Pod runs %q as %s", args, pod.Spec.ServiceAccountName)
	}
	args[1] = "https://" + a.address + "/metrics"
	output, err := exec.CommandContext(t.Context(), testenv.Binary(t), append(args, "--token-file="+token)...).CombinedOutput()
	if err != nil || !testenv.ContainsAll(string(output), "2 webhooks; snapshot ") {
		t.Errorf("the Pod would fail: %v\n%s", err, output)
	}
	pod.Status.Phase = corev1.PodSucceeded
	testenv.Get(pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}))(t)
	if err := <-ended; err != nil {
		t.Errorf("helm test: %v", err)
	}
	testenv.Must(t, a.Stop())
}

// leaves uninstalls as the chart's README says.
func (h helm) leaves(t *testing.T) {
	h.run(t, "uninstall", released, inRelease)
	h.w.Kubectl(t, "delete", "namespace", released)
	leaves(t, h.w)
}
