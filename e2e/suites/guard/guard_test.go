package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/apply"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// These tests run the guard as it is printed but for one field: its
// failurePolicy is Fail, so that an error of the policy cannot pass unseen.

const (
	optIn    = "webhook.openshift.io/run-level-0-opt-in"
	runLevel = "openshift.io/run-level"
)

var exclusion = map[string]any{"key": runLevel, "operator": "NotIn", "values": []any{"0"}}

var guardedKinds = map[string]schema.GroupVersionResource{
	"ValidatingWebhookConfiguration": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
	"MutatingWebhookConfiguration":   {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
}

// installPolicies applies the guard, and what warns, to the environment guarded.
func installPolicies(env *testenv.Env) error {
	for _, name := range []string{"run-level-guard", "registration-warnings"} {
		objects, err := printed(name)
		if err == nil {
			err = apply.Apply(context.Background(), env.Plane.Config(), strict(objects)...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// useGuarded returns the guarded world once the guard changes what is registered, and wants
// it to have made no error by the end of the test.
func useGuarded(t *testing.T) environment {
	t.Helper()
	w := environment{guarded.Use(t)}
	for kind := range guardedKinds {
		testenv.Eventually(t, func() error {
			made, err := w.configurations(kind).Create(t.Context(), configuration(kind, "guard-probe", idle("probe")), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil && len(requirements(hooksOf(made)[0])) != 1 {
				err = fmt.Errorf("the guard does not change a %s yet", kind)
			}
			return err
		})
	}
	t.Cleanup(func() { w.wantNoPolicyErrors(t) })
	return w
}

// printed is what the auditor prints, as objects.
func printed(args ...string) ([]*unstructured.Unstructured, error) {
	path, err := programs.Auditor()
	if err != nil {
		return nil, err
	}
	result, err := auditor.Command(context.Background(), path, append([]string{"print"}, args...)...)
	if err == nil && result.Code != 0 {
		err = fmt.Errorf("printing %s: exit code %d: %s", args[0], result.Code, result.Stderr)
	}
	if err != nil {
		return nil, err
	}
	return apply.Objects([]byte(result.Stdout))
}

// strict makes the policies fail where they cannot be evaluated.
func strict(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	for _, o := range objects {
		if spec, ok := o.Object["spec"].(map[string]any); ok && spec["failurePolicy"] != nil {
			spec["failurePolicy"] = "Fail"
		}
	}
	return objects
}

func (w environment) wantNoPolicyErrors(t *testing.T) {
	t.Helper()
	const checks = "apiserver_mutating_admission_policy_check_total"
	all := w.APIServerMetrics(t, checks).Select(checks, nil)
	if len(all.Select(checks, metrics.Labels{"policy": "webhook-auditor-run-level-guard", "error_type": "no_error"})) == 0 {
		t.Errorf("the API server does not count the guard's checks:\n%s", all)
	}
	for _, s := range all {
		if s.Labels["error_type"] != "no_error" {
			t.Errorf("the guard could not be evaluated: %s", s)
		}
	}
}

func (w environment) configurations(kind string) dynamic.ResourceInterface {
	return w.Dynamic.Resource(guardedKinds[kind])
}

func configuration(kind, name string, hooks ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1",
		"kind":       kind,
		"metadata":   map[string]any{"name": name},
		"webhooks":   hooks,
	}}
}

// idle is a webhook for a resource that is not served.
func idle(name string) map[string]any {
	return map[string]any{
		"name":                    name + ".guard.example.com",
		"clientConfig":            map[string]any{"url": "https://127.0.0.1:1/"},
		"failurePolicy":           "Ignore",
		"sideEffects":             "None",
		"admissionReviewVersions": []any{"v1"},
		"rules": []any{map[string]any{
			"apiGroups": []any{"guard.example.com"}, "apiVersions": []any{"v1"},
			"operations": []any{"CREATE"}, "resources": []any{"things"},
		}},
	}
}

func hooksOf(object *unstructured.Unstructured) []map[string]any {
	var out []map[string]any
	list, _ := object.Object["webhooks"].([]any)
	for _, h := range list {
		out = append(out, h.(map[string]any))
	}
	return out
}

func requirements(hook map[string]any) []any {
	out, _, _ := unstructured.NestedSlice(hook, "namespaceSelector", "matchExpressions")
	return out
}

func (w environment) unregisterLater(t *testing.T, object *unstructured.Unstructured) {
	kind, name := object.GetKind(), object.GetName()
	t.Cleanup(func() {
		testenv.Gone(t, w.configurations(kind).Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
}

// wantRequirements compares the namespaceSelectors of all webhooks.
func wantRequirements(t *testing.T, object *unstructured.Unstructured, want ...any) {
	t.Helper()
	for i, h := range hooksOf(object) {
		if have := requirements(h); text(have) != text(want) {
			t.Fatalf("webhook %d of %s %s requires %s, want %s", i, object.GetKind(), object.GetName(), text(have), text(want))
		}
	}
}

// text writes requirements for people, and to compare them; none as nothing.
func text(requirements []any) string {
	b, err := json.Marshal(append([]any{}, requirements...))
	if err != nil {
		panic(err) // unreachable: they were JSON before
	}
	return string(b)
}

func TestGuardCoversAnyNumberOfWebhooks(t *testing.T) {
	t.Parallel()
	w := useGuarded(t)
	for kind := range guardedKinds {
		for _, n := range []int{0, 1000} {
			t.Run(fmt.Sprintf("%s/%d", kind, n), func(t *testing.T) {
				var hooks []any
				for i := range n {
					hooks = append(hooks, idle(fmt.Sprintf("hook-%d", i)))
				}
				object := configuration(kind, "guard-many", hooks...)
				w.unregisterLater(t, object)
				made := testenv.Get(w.configurations(kind).Create(t.Context(), object, metav1.CreateOptions{}))(t)
				if have := len(hooksOf(made)); have != n {
					t.Fatalf("%d webhooks are left of %d", have, n)
				}
				wantRequirements(t, made, exclusion)
				again := testenv.Get(w.configurations(kind).Update(t.Context(), made, metav1.UpdateOptions{}))(t)
				wantRequirements(t, again, exclusion)
				wantUnchanged(t, made, again)
			})
		}
	}
}

// wantUnchanged wants a write to have changed nothing that clients watch.
func wantUnchanged(t *testing.T, before, after *unstructured.Unstructured) {
	t.Helper()
	if before.GetGeneration() != after.GetGeneration() || before.GetResourceVersion() != after.GetResourceVersion() {
		t.Errorf("generation %d became %d, resourceVersion %s became %s",
			before.GetGeneration(), after.GetGeneration(), before.GetResourceVersion(), after.GetResourceVersion())
	}
}

// TestRunLevelZeroStarts is the enhancement's own test: a webhook for Pods that
// fails, closed, stops no Pod of the control plane, unless it opted in.
func TestRunLevelZeroStarts(t *testing.T) {
	t.Parallel()
	w := useGuarded(t)
	zero := []string{"openshift-kube-apiserver", "openshift-kube-apiserver-operator"}
	for _, name := range zero {
		w.LabelledNamespace(t, name, map[string]string{runLevel: "0"})
	}
	w.Namespace(t, "guard-elsewhere")
	b := webhook.Backend{Client: w.Kube, Namespace: "guard-nowhere", Name: "hook", Server: w.Hooks}
	h := testenv.Hook(b, "/", testenv.Rule("", "pods"))
	h.NamespaceSelector = nil
	w.Validate(t, "guard-pods", h)

	awaitPods := func(refused bool, namespaces ...string) {
		t.Helper()
		for _, ns := range namespaces {
			testenv.Eventually(t, func() error {
				err := w.storePod(t, ns)
				if refused == (err != nil && strings.Contains(err.Error(), "failed calling webhook")) {
					return nil
				}
				return fmt.Errorf("in %s: want the call of the webhook to fail: %t, have %w", ns, refused, err)
			})
		}
	}
	awaitPods(true, "guard-elsewhere")
	awaitPods(false, zero...)
	w.Kubectl(t, "annotate", "validatingwebhookconfiguration", "guard-pods", optIn+"=true")
	awaitPods(true, append(zero, "guard-elsewhere")...)
	w.Kubectl(t, "annotate", "validatingwebhookconfiguration", "guard-pods", optIn+"-")
	awaitPods(false, zero...)
	awaitPods(true, "guard-elsewhere")
}

// storePod creates a Pod for good, not in a dry run.
func (w environment) storePod(t *testing.T, namespace string) error {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}, Spec: testenv.PodSpec()}
	_, err := w.Kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	return err
}
