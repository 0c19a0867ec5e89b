package findings

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// needed is something in kube-system without which no Pod runs.
type needed struct {
	name     string
	labels   map[string]string
	step     string // how the finding says that the webhook's Pods need it
	manifest string
}

var everyPodNeeds = []needed{
	{"network", map[string]string{"k8s-app": "e2e-network"}, "need DaemonSet kube-system/e2e-network on their node", `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: e2e-network, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: e2e-network}}
  template:
    metadata: {labels: {k8s-app: e2e-network}}
    spec: {hostNetwork: true, priorityClassName: system-node-critical, containers: [{name: main, image: example.com/main:v1}]}
`},
	{"dns", map[string]string{"k8s-app": "kube-dns"}, "need Deployment kube-system/e2e-dns to resolve names", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: e2e-dns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  replicas: 0 # nothing is to be made of it
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec: {containers: [{name: main, image: example.com/main:v1}]}
`},
}

// TestDeadlock: a webhook refuses the Pods of what its own Pods need to run. The
// auditor says so as soon as both exist, and no longer; the API server refuses
// those Pods once the webhook is gone, and takes them after the finding's patch.
func TestDeadlock(t *testing.T) {
	w := environment{stock.Use(t)}
	for _, n := range everyPodNeeds {
		t.Run(n.name, func(t *testing.T) {
			b := w.Backend(t, "deadlock-"+n.name)
			w.runs(t, b, "policy")
			h := testenv.Hook(b, "/allow/deadlock", testenv.Rule("", "pods"))
			h.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: metav1.NamespaceSystem}}
			h.ObjectSelector = &metav1.LabelSelector{MatchLabels: n.labels}
			w.Validate(t, b.Namespace, h)
			labels := testenv.Identity("validating", b.Namespace, h.Name)
			scraper := w.Scraper(t)
			scraper.AwaitWebhook(labels)
			scraper.AwaitNoFinding("bootstrap-deadlock", labels)

			file := testenv.File(t, "needed.yaml", n.manifest)
			w.Kubectl(t, "apply", "-f", file)
			t.Cleanup(func() { testenv.Get(w.TryKubectl(context.Background(), "delete", "-f", file))(t) })
			scraper.AwaitFinding("bootstrap-deadlock", "warning", labels)
			w.Kubectl(t, "delete", "-f", file)
			scraper.AwaitNoFinding("bootstrap-deadlock", labels)
			w.Kubectl(t, "apply", "-f", file)
			scraper.AwaitFinding("bootstrap-deadlock", "warning", labels)

			testenv.Must(t, b.DeleteEndpoints(t.Context()))
			testenv.Eventually(t, func() error {
				if err := w.startsIn(t, metav1.NamespaceSystem, n.labels); err == nil || !strings.Contains(err.Error(), "no endpoints available") {
					return fmt.Errorf("want the Pod to be refused, have %v", err)
				}
				return nil
			})
			w.clear(t, "bootstrap-deadlock", b.Namespace, n.step)
			testenv.Eventually(t, func() error { return w.startsIn(t, metav1.NamespaceSystem, n.labels) })
			scraper.AwaitNoFinding("bootstrap-deadlock", labels)
		})
	}
}

// runs puts a Pod behind the Service of a backend.
func (w environment) runs(t *testing.T, b webhook.Backend, app string) {
	t.Helper()
	testenv.Get(w.Kube.CoreV1().Services(b.Namespace).Patch(t.Context(), b.Name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"selector":{"app":%q}}}`, app), metav1.PatchOptions{}))(t)
	_, err := w.Kube.CoreV1().Pods(b.Namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: app, Labels: map[string]string{"app": app}}, Spec: testenv.PodSpec(),
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
}

// startsIn asks whether a Pod with the labels may be created.
func (w environment) startsIn(t *testing.T, namespace string, labels map[string]string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-", Labels: labels}, Spec: testenv.PodSpec()}
	_, err := w.Kube.CoreV1().Pods(namespace).Create(t.Context(), pod, testenv.DryRun)
	return err
}

var patchInFix = regexp.MustCompile(`kubectl patch (\S+) (\S+) --type=json -p '([^']*)'`)

// clear applies the patch that the finding comes with, whose message must have
// the step.
func (w environment) clear(t *testing.T, check, configuration, step string) {
	t.Helper()
	d, _ := testenv.Report(t, "--kubeconfig="+w.Plane.Kubeconfig())
	i := slices.IndexFunc(d.Findings, func(f testenv.ReportedFinding) bool { return f.Check == check && f.Configuration == configuration })
	if i < 0 {
		t.Fatalf("no %s on %s: %+v", check, configuration, d.Findings)
	}
	f := d.Findings[i]
	if !strings.Contains(f.Message, step) {
		t.Errorf("%q does not say that the Pods %s", f.Message, step)
	}
	m := patchInFix.FindStringSubmatch(f.Fix)
	if m == nil || m[1] != "validatingwebhookconfiguration" || m[2] != configuration {
		t.Fatalf("no patch of %s in %q", configuration, f.Fix)
	}
	t.Logf("%s\nfix: %s", f.Message, f.Fix)
	testenv.Get(w.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(t.Context(), configuration, types.JSONPatchType, []byte(m[3]), metav1.PatchOptions{}))(t)
}
