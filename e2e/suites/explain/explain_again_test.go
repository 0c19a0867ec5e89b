package explain

import (
	"encoding/json"
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// TestALoneWebhookIsCalledAgain: the API server gives the container that a
// webhook added the limits of the namespace, and calls the webhook once more
// because of that. Both calls are in the worst case that explain prints.
func TestALoneWebhookIsCalledAgain(t *testing.T) {
	const path = "/sidecar"
	w := environment{stock.Use(t)}
	b := w.Backend(t, "explain-again")
	limits := corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("1")}
	_, err := w.Kube.CoreV1().LimitRanges(b.Namespace).Create(t.Context(), &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "limits"},
		Spec:       corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: limits, DefaultRequest: limits}}},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
	w.Hooks.Behave(path, webhook.Behaviour{Patch: `[{"op":"add","path":"/spec/initContainers","value":[{"name":"sidecar","image":"example.com/sidecar:v1"}]}]`})
	h := testenv.Mutating(testenv.Hook(b, path, testenv.Rule("", "pods")))
	h.TimeoutSeconds = new(int32(7))
	h.ReinvocationPolicy = new(admissionv1.IfNeededReinvocationPolicy)
	w.Mutate(t, b.Namespace, h)

	testenv.Eventually(t, func() error {
		w.Hooks.Forget()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "app"}, Spec: testenv.PodSpec()}
		_, err := w.Kube.CoreV1().Pods(b.Namespace).Create(t.Context(), pod, testenv.DryRun)
		if n := len(w.Hooks.CallsOf(path)); err != nil || n != 2 {
			return fmt.Errorf("%d calls, want 2: %v", n, err)
		}
		return nil
	})
	explained := testenv.Command(t, "explain", "create", "pods", "--namespace="+b.Namespace, "--kubeconfig="+w.Plane.Kubeconfig(), "-o=json")
	var chain struct{ BudgetSeconds int }
	if err := json.Unmarshal([]byte(explained.Stdout), &chain); err != nil || chain.BudgetSeconds != 14 {
		t.Errorf("want a worst case of 14 s, have %v, %+v", err, explained)
	}
}
