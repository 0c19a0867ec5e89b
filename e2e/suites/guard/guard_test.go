package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
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

// exclusion is what the guard adds.
var exclusion = map[string]any{"key": runLevel, "operator": "NotIn", "values": []any{"0"}}

// guardedKinds are the two kinds of webhook configurations.
var guardedKinds = map[string]schema.GroupVersionResource{
	"ValidatingWebhookConfiguration": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
	"MutatingWebhookConfiguration":   {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
}

// installGuard applies the guard to the environment guarded.
func installGuard(env *testenv.Env) error {
	objects, err := printed("run-level-guard")
	if err != nil {
		return err
	}
	return environment{env}.apply(context.Background(), strict(objects)...)
}

// useGuarded returns the guarded world once the guard is awake, and wants it
// to have made no error by the end of the test.
func useGuarded(t *testing.T) environment {
	t.Helper()
	w := environment{guarded.Use(t)}
	w.awaitGuard(t)
	t.Cleanup(func() { w.wantNoPolicyErrors(t) })
	return w
}

// useUnguarded returns the world without a guard, for this test alone, once the
// guard of the last test is gone.
func useUnguarded(t *testing.T) environment {
	t.Helper()
	w := environment{unguarded.UseAlone(t)}
	w.awaitNoGuard(t)
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

func (w environment) apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	return apply.Apply(ctx, w.Plane.Config(), objects...)
}

// awaitGuard waits until the guard changes what is registered.
func (w environment) awaitGuard(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, func() error { return w.probe(t, 1) })
}

// awaitNoGuard waits until the guard changes nothing any more.
func (w environment) awaitNoGuard(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, func() error { return w.probe(t, 0) })
}

// probe registers webhooks of both kinds in a dry run and wants each to get so
// many requirements.
func (w environment) probe(t *testing.T, want int) error {
	for kind := range guardedKinds {
		made, err := w.configurations(kind).Create(t.Context(), configuration(kind, "guard-probe", idle("probe")), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if have := len(requirements(hooksOf(made)[0])); have != want {
			return fmt.Errorf("a %s gets %d requirements, want %d", kind, have, want)
		}
	}
	return nil
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

// configuration is a webhook configuration of either kind.
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

// selecting is the webhook with a namespaceSelector.
func selecting(hook, selector map[string]any) map[string]any {
	hook["namespaceSelector"] = selector
	return hook
}

func expressions(all ...any) map[string]any { return map[string]any{"matchExpressions": all} }

func hooksOf(object *unstructured.Unstructured) []map[string]any {
	var out []map[string]any
	list, _ := object.Object["webhooks"].([]any)
	for _, h := range list {
		out = append(out, h.(map[string]any))
	}
	return out
}

// requirements are those of a webhook's namespaceSelector.
func requirements(hook map[string]any) []any {
	out, _, _ := unstructured.NestedSlice(hook, "namespaceSelector", "matchExpressions")
	return out
}

// register creates the configuration until the end of the test.
func (w environment) register(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	made := testenv.Get(w.configurations(object.GetKind()).Create(t.Context(), object, metav1.CreateOptions{FieldManager: "owner"}))(t)
	w.unregisterLater(t, object)
	return made
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
				made := w.register(t, configuration(kind, "guard-many", hooks...))
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
		w.namespace(t, name, map[string]string{runLevel: "0"})
	}
	w.namespace(t, "guard-elsewhere", nil)
	b := webhook.Backend{Client: w.Kube, Namespace: "guard-nowhere", Name: "hook", Server: w.Hooks}
	h := testenv.Hook(b, "/", testenv.Rule("", "pods"))
	h.NamespaceSelector = nil
	w.Validate(t, "guard-pods", h)

	allowed := func(namespaces ...string) {
		t.Helper()
		for _, ns := range namespaces {
			testenv.Eventually(t, func() error { return w.storePod(t, ns) })
		}
	}
	refused := func(namespaces ...string) {
		t.Helper()
		for _, ns := range namespaces {
			testenv.Eventually(t, func() error {
				if err := w.storePod(t, ns); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
					return fmt.Errorf("in %s: want the call of the webhook to fail, have %v", ns, err)
				}
				return nil
			})
		}
	}
	refused("guard-elsewhere")
	allowed(zero...)
	w.Kubectl(t, "annotate", "validatingwebhookconfiguration", "guard-pods", optIn+"=true")
	refused(slices.Concat(zero, []string{"guard-elsewhere"})...)
	w.Kubectl(t, "annotate", "validatingwebhookconfiguration", "guard-pods", optIn+"-")
	allowed(zero...)
	refused("guard-elsewhere")
}

// namespace makes a namespace until the end of the test.
func (w environment) namespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	w.LabelledNamespace(t, name, labels)
	t.Cleanup(func() {
		testenv.Gone(t, w.Kube.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
}

// storePod creates a Pod for good, not in a dry run.
func (w environment) storePod(t *testing.T, namespace string) error {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}, Spec: testenv.PodSpec()}
	_, err := w.Kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	return err
}
