package explain

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// TestWhatEndsARequest: the API server ends a request whose webhooks are slow, all
// of failurePolicy Ignore, when explain says so. Two of them take more than the 34 s
// of a write, three more than the 60 s of --request-timeout.
func TestWhatEndsARequest(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	configMaps := func(namespace string) typedcorev1.ConfigMapInterface { return w.Kube.CoreV1().ConfigMaps(namespace) }
	for _, test := range []struct {
		verb string
		// printed are words of explain about the request.
		request, printed string
		// words are those of the error; outlasts is a deadline that does not end it.
		words    string
		outlasts time.Duration
		do       func(ctx context.Context, namespace string) error
	}{
		{"create", "create configmaps", "the 34 s after which the API server ends a write", "did not complete within requested timeout", 30 * time.Second, func(ctx context.Context, n string) error {
			_, err := configMaps(n).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})
			return err
		}},
		{"delete", "delete configmaps", "the 34 s after which the API server ends a write (60 s if it deletes a collection)", "did not complete within requested timeout", 30 * time.Second, func(ctx context.Context, n string) error {
			return configMaps(n).Delete(ctx, "old", metav1.DeleteOptions{})
		}},
		{"deletecollection", "delete configmaps", "(60 s if it deletes a collection)", "", 50 * time.Second, func(ctx context.Context, n string) error {
			return configMaps(n).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=old"})
		}},
		{"connect", "connect pods/exec", "the 30 s after which most clients give up", "does not have a host assigned", 60 * time.Second, func(ctx context.Context, n string) error {
			return w.Kube.CoreV1().RESTClient().Post().Namespace(n).Resource("pods").Name("old").SubResource("exec").Param("command", "true").Param("stdout", "true").Do(ctx).Error()
		}},
	} {
		t.Run(test.verb, func(t *testing.T) {
			t.Parallel()
			b := w.Backend(t, "deadline-"+test.verb)
			testenv.Get(configMaps(b.Namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "old"}}, metav1.CreateOptions{}))(t)
			_, err := w.Kube.CoreV1().Pods(b.Namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
			testenv.Must(t, err)
			rule := testenv.Rule("", "configmaps")
			rule.Operations = []admissionv1.OperationType{admissionv1.OperationAll}
			rule.Resources = append(rule.Resources, "pods/exec")
			var hooks []admissionv1.MutatingWebhook
			for _, name := range []string{"a.", "b.", "c."} {
				h := testenv.Mutating(testenv.Hook(b, "/delay/25s", rule))
				h.Name = name + h.Name
				h.FailurePolicy, h.TimeoutSeconds = new(admissionv1.Ignore), new(int32(30))
				hooks = append(hooks, h)
			}
			w.Mutate(t, b.Namespace, hooks...)
			w.awaitMutating(t, b)
			began := time.Now()
			err = test.do(t.Context(), b.Namespace)
			lasted := time.Since(began)
			t.Logf("%s: %v", lasted.Round(time.Second/10), err)
			if err == nil || !strings.Contains(err.Error(), test.words) || lasted < test.outlasts {
				t.Errorf("ended after %s by %v, want %q, not before %s", lasted, err, test.words, test.outlasts)
			}
			arguments := append([]string{"explain", "--kubeconfig=" + w.Plane.Kubeconfig(), "-n", b.Namespace}, strings.Fields(test.request)...)
			text := strings.Join(strings.Fields(testenv.Command(t, arguments...).Stdout), " ")
			if !strings.Contains(text, test.printed) || test.verb == "connect" && strings.Contains(text, "API server ends") {
				t.Errorf("explain prints %s, want %q", text, test.printed)
			}
		})
	}
}

// awaitMutating waits until the API server knows the mutating webhooks so far: one more
// that is registered after them is called.
func (w environment) awaitMutating(t *testing.T, b webhook.Backend) {
	t.Helper()
	path := "/sentinel/" + b.Namespace
	w.Mutate(t, b.Namespace+"-sentinel", testenv.Mutating(testenv.Hook(b, path, testenv.Rule("", "secrets"))))
	testenv.Eventually(t, func() error {
		_, err := w.Kube.CoreV1().Secrets(b.Namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "sentinel"}}, metav1.CreateOptions{DryRun: dryRun})
		if err == nil && len(w.Hooks.CallsOf(path)) == 0 {
			err = errors.New("the sentinel was not called")
		}
		return err
	})
}
