package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/webhook-auditor/webhook-auditor/e2e/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/webhook"
)

// needed is something in kube-system without which no Pod runs.
type needed struct {
	name   string
	labels map[string]string
	// step is how the finding tells that the webhook's Pods need it.
	step         string
	make, unmake func(context.Context, *world, map[string]string) error
}

var everyPodNeeds = []needed{
	{
		"network",
		map[string]string{"k8s-app": "e2e-network"},
		"need DaemonSet kube-system/e2e-network on their node",
		func(ctx context.Context, w *world, labels map[string]string) error {
			spec := podSpec()
			spec.HostNetwork, spec.PriorityClassName = true, "system-node-critical"
			_, err := w.kube.AppsV1().DaemonSets(metav1.NamespaceSystem).Create(ctx, &appsv1.DaemonSet{
				ObjectMeta: metav1.ObjectMeta{Name: "e2e-network"},
				Spec: appsv1.DaemonSetSpec{
					Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
				},
			}, metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context, w *world, _ map[string]string) error {
			return w.kube.AppsV1().DaemonSets(metav1.NamespaceSystem).Delete(ctx, "e2e-network", metav1.DeleteOptions{})
		},
	},
	{
		"dns",
		map[string]string{"k8s-app": "kube-dns"},
		"need Deployment kube-system/e2e-dns to resolve names",
		func(ctx context.Context, w *world, labels map[string]string) error {
			_, err := w.kube.AppsV1().Deployments(metav1.NamespaceSystem).Create(ctx, &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Name: "e2e-dns", Labels: labels},
				Spec: appsv1.DeploymentSpec{
					Replicas: new(int32(0)), // nothing is to be made of it
					Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()},
				},
			}, metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context, w *world, _ map[string]string) error {
			return w.kube.AppsV1().Deployments(metav1.NamespaceSystem).Delete(ctx, "e2e-dns", metav1.DeleteOptions{})
		},
	},
}

// TestDeadlock: a webhook refuses the Pods of what its own Pods need to run. The
// auditor says so as soon as both exist, and no longer; the API server refuses
// those Pods once the webhook is gone, and takes them after the finding's patch.
func TestDeadlock(t *testing.T) {
	w := use(t, stock)
	for _, n := range everyPodNeeds {
		t.Run(n.name, func(t *testing.T) {
			b := w.backend(t, "deadlock-"+n.name)
			w.runs(t, b, "policy")
			h := hook(b, "/allow/deadlock", rule("", "pods"))
			h.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: metav1.NamespaceSystem}}
			h.ObjectSelector = &metav1.LabelSelector{MatchLabels: n.labels}
			w.validate(t, b.Namespace, h)
			labels := identity("validating", b.Namespace, h.Name)
			watcher := w.watch(t)
			watcher.knows(labels)
			watcher.forgets("bootstrap-deadlock", labels)

			must(t, n.make(t.Context(), w, n.labels))
			t.Cleanup(func() { gone(t, n.unmake(context.Background(), w, n.labels)) })
			watcher.finds("bootstrap-deadlock", "warning", labels)
			must(t, n.unmake(t.Context(), w, n.labels))
			watcher.forgets("bootstrap-deadlock", labels)
			must(t, n.make(t.Context(), w, n.labels))
			watcher.finds("bootstrap-deadlock", "warning", labels)
			w.watchesSystem(t, 1)

			must(t, b.DeleteEndpoints(t.Context()))
			eventually(t, func() error {
				if err := w.startsIn(t, metav1.NamespaceSystem, n.labels); err == nil || !strings.Contains(err.Error(), "no endpoints available") {
					return fmt.Errorf("want the Pod to be refused, have %v", err)
				}
				return nil
			})
			w.clear(t, "bootstrap-deadlock", b.Namespace, n.step)
			eventually(t, func() error { return w.startsIn(t, metav1.NamespaceSystem, n.labels) })
			watcher.forgets("bootstrap-deadlock", labels)
			w.watchesSystem(t, 0)
		})
	}
}

// runs puts a Pod behind the Service of a backend.
func (w *world) runs(t *testing.T, b webhook.Backend, app string) {
	t.Helper()
	_, err := w.kube.CoreV1().Services(b.Namespace).Patch(t.Context(), b.Name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"selector":{"app":%q}}}`, app), metav1.PatchOptions{})
	must(t, err)
	_, err = w.kube.CoreV1().Pods(b.Namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: app, Labels: map[string]string{"app": app}}, Spec: podSpec(),
	}, metav1.CreateOptions{})
	must(t, err)
}

// startsIn asks whether a Pod with the labels may be created.
func (w *world) startsIn(t *testing.T, namespace string, labels map[string]string) error {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-", Labels: labels}, Spec: podSpec()}
	_, err := w.kube.CoreV1().Pods(namespace).Create(t.Context(), pod, unstored)
	return err
}

// watchesSystem waits until so many watches of DaemonSets in one namespace are
// open: nobody but the auditor has any.
func (w *world) watchesSystem(t *testing.T, want float64) {
	t.Helper()
	eventually(t, func() error {
		open := w.apiServerMetrics(t, "apiserver_longrunning_requests").Select("apiserver_longrunning_requests", metrics.Labels{"resource": "daemonsets", "scope": "namespace", "verb": "WATCH"}).Sum()
		if open != want {
			return fmt.Errorf("%v watches of DaemonSets, want %v", open, want)
		}
		return nil
	})
}

var patchInFix = regexp.MustCompile(`kubectl patch (\S+) (\S+) --type=json -p '([^']*)'`)

// clear applies the patch that the finding comes with, whose message must tell
// the step.
func (w *world) clear(t *testing.T, check, configuration, step string) {
	t.Helper()
	d, _ := report(t, "--kubeconfig="+w.plane.Kubeconfig())
	i := slices.IndexFunc(d.Findings, func(f reported) bool { return f.Check == check && f.Configuration == configuration })
	if i < 0 {
		t.Fatalf("no %s on %s: %+v", check, configuration, d.Findings)
	}
	f := d.Findings[i]
	if !strings.Contains(f.Message, step) {
		t.Errorf("%q does not tell that the Pods %s", f.Message, step)
	}
	m := patchInFix.FindStringSubmatch(f.Fix)
	if m == nil || m[1] != "validatingwebhookconfiguration" || m[2] != configuration {
		t.Fatalf("no patch of %s in %q", configuration, f.Fix)
	}
	t.Logf("%s\nfix: %s", f.Message, f.Fix)
	_, err := w.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(t.Context(), configuration, types.JSONPatchType, []byte(m[3]), metav1.PatchOptions{})
	must(t, err)
}
