package observe

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

const databasePod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pg-1","namespace":"shop"},"spec":{"containers":[{"name":"pg","image":"pg:17","env":[{"name":"PASSWORD","value":"TOPSECRET"}]}]}}`

const databaseDeployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"pg","namespace":"shop"},"spec":{"selector":{"matchLabels":{"app":"pg"}},"template":{"metadata":{"labels":{"app":"pg"}},
	"spec":{"containers":[{"name":"pg","image":"pg:17"}]}}}}`

// changers are webhooks that change the Pods of a database: two fight over its image.
var changers = []struct{ name, patch string }{
	{"images.mirror.example.com", `[{"op":"replace","path":"/spec/containers/0/image","value":"mirror.example.com/pg:17"}]`},
	{"mesh.example.com", `[{"op":"add","path":"/spec/containers/-","value":{"name":"proxy","image":"mesh/proxy:1"}}]`},
	{"pins.policy.example.com", `[{"op":"replace","path":"/spec/containers/0/image","value":"mirror.example.com/pg@sha256:3f5a"}]`},
}

// TestWhoChanged: an operator that never gets the Pod that it writes, in the log of the API
// server and by calls. With RECORD=FOLDER it writes what "webhook-auditor demo --changes" shows.
func TestWhoChanged(t *testing.T) {
	t.Parallel()
	log, flags := auditFlags(t, "Request")
	w := environment{testenv.New(t, cluster.Options{WithoutControllers: true, APIServerFlags: flags})}
	w.Namespace(t, "shop")
	b := w.Backend(t, "hooks")
	w.reachable(t, b)
	rule := testenv.Rule("", "pods")
	var hooks []admissionv1.MutatingWebhook
	for _, c := range changers {
		h := testenv.Mutating(testenv.Hook(b, "/"+c.name, rule))
		h.Name, h.NamespaceSelector = c.name, &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "shop"}}
		hooks = append(hooks, h)
		w.Hooks.Behave("/"+c.name, webhook.Behaviour{Patch: c.patch})
	}
	w.Mutate(t, "changes", hooks...)
	operator := testenv.Get(kubernetes.NewForConfig(testenv.Get(w.Plane.As("system:serviceaccount:pg:operator", "system:masters"))(t)))(t)
	pods := operator.CoreV1().Pods("shop")
	var pod corev1.Pod
	testenv.Must(t, json.Unmarshal([]byte(databasePod), &pod))
	writes := func() (changed bool) {
		created := testenv.Get(pods.Create(t.Context(), &pod, metav1.CreateOptions{}))(t)
		testenv.Must(t, pods.Delete(t.Context(), "pg-1", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
		return strings.Contains(created.Spec.Containers[0].Image, "sha256")
	}
	for range 5 {
		testenv.Eventually(t, func() error { // the webhooks are called
			if !writes() {
				return os.ErrNotExist
			}
			return nil
		})
	}
	id, recorded := "", []byte{}
	testenv.Eventually(t, func() error {
		recorded = recorded[:0]
		for line := range bytes.Lines(testenv.Get(os.ReadFile(log))(t)) {
			var event struct{ AuditID string }
			if bytes.Contains(line, []byte("patch.webhook")) && json.Unmarshal(line, &event) == nil {
				id, recorded = event.AuditID, append(recorded, line...)
			}
		}
		if bytes.Count(recorded, []byte("\n")) < 5 {
			return os.ErrNotExist
		}
		return nil
	})
	kubeconfig := "--kubeconfig=" + w.Plane.Kubeconfig()
	call := []string{"explain", "create", "-f", "-", "--call", kubeconfig}
	object := databasePod
	run := func(args ...string) string {
		printed := testenv.Get(auditor.Piped(t.Context(), strings.NewReader(object), testenv.Binary(t), args...))(t)
		if printed.Code != 0 || strings.Contains(printed.Stdout, "TOPSECRET") {
			t.Errorf("%v: exit code %d, %s%s", args, printed.Code, printed.Stdout, printed.Stderr)
		}
		return printed.Stdout
	}
	for text, want := range map[string][]string{
		run("top", "--audit-log", log, kubeconfig): {
			"times pg/operator", "CREATE pods pg-1 in shop in", "/spec/containers/*/image replaced each time by images.mirror.example.com",
		},
		run("explain", "--audit-log", log, "--request-id", id, "-v", kubeconfig): {
			`"pg:17" → "mirror.example.com/pg:17" (overwritten by pins.policy.example.com)`, "round 0, index 1: mutated",
		},
		run("explain", "create", "-f", "-", kubeconfig): {"steps 1, 2 do not see what a later one adds (reinvocationPolicy Never)"},
		run(call...): {"fight /spec/containers/0/image images.mirror.example.com sets it, and pins.policy.example.com sets it otherwise", "not idempotent mesh.example.com"},
	} {
		if !testenv.ContainsAll(text, want...) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	object = databaseDeployment
	testenv.Must(t, operator.AppsV1().RESTClient().Post().Namespace("shop").Resource("deployments").SetHeader("Content-Type", "application/json").Body([]byte(object)).Do(t.Context()).Error())
	if text := run("explain", "update", "-f", "-", "--call", "--ignore-differences", kubeconfig); !testenv.ContainsAll(text, "let pass", "nothing to ignore: no webhook and no policy changes the object") {
		t.Errorf("of a Deployment:\n%s", text)
	}
	object = databasePod
	if folder := os.Getenv("RECORD"); folder != "" {
		testenv.Must(t, os.WriteFile(filepath.Join(folder, "demo_audit.log"), recorded, 0o600))
		testenv.Must(t, os.WriteFile(filepath.Join(folder, "demo_call.json"), []byte(run(append(call, "-o", "json")...)), 0o600))
		testenv.Must(t, os.WriteFile(filepath.Join(folder, "demo_webhooks.yaml"), []byte(w.Kubectl(t, "get", "mutatingwebhookconfigurations,namespaces", "-o", "yaml")), 0o600))
	}
}
