package observe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/apply"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// TestCallReviews holds the review of a webhook to that of the API server, for objects of all
// kinds: as it lets the request pass, and as it denies it, so that the API server answers
// nothing that would have the defaults.
func TestCallReviews(t *testing.T) {
	t.Parallel()
	w := environment{testenv.New(t, cluster.Options{WithoutControllers: true})}
	w.Install(t, testenv.Get(os.ReadFile("testdata/boxes.yaml"))(t))
	b := w.Backend(t, "call-refused")
	w.reachable(t, b)
	rule := testenv.Rule("*", "*")
	rule.Operations = []admissionv1.OperationType{admissionv1.OperationAll}
	hook := testenv.Mutating(testenv.Hook(b, "/refused", rule))
	hook.FailurePolicy = new(admissionv1.Fail)
	hook.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{b.Namespace, "called-new"},
	}}}
	w.Mutate(t, "refused", hook)
	w.Hooks.Behave("/refused", webhook.Behaviour{Deny: "because"})
	testenv.Eventually(t, func() error { return w.Refused(t, b.Namespace, "because") })
	mapper := restmapper.NewDiscoveryRESTMapper(testenv.Get(restmapper.GetAPIGroupResources(w.Kube.Discovery()))(t))
	client := func(object *unstructured.Unstructured) dynamic.ResourceInterface {
		kind := object.GroupVersionKind()
		mapping := testenv.Get(mapper.RESTMapping(kind.GroupKind(), kind.Version))(t)
		if mapping.Scope.Name() != "namespace" {
			return w.Dynamic.Resource(mapping.Resource)
		}
		object.SetNamespace(b.Namespace)
		return w.Dynamic.Resource(mapping.Resource).Namespace(b.Namespace)
	}
	call := func(title, operation string, object *unstructured.Unstructured) {
		for _, deny := range []string{"", "because"} {
			w.Hooks.Behave("/refused", webhook.Behaviour{Deny: deny})
			w.compareReviews(t, fmt.Sprintf("%s: %s, denied %t", title, operation, deny != ""), operation, object, deny != "")
		}
		w.Hooks.Behave("/refused", webhook.Behaviour{})
	}
	for i, object := range testenv.Get(apply.Objects(testenv.Get(os.ReadFile("testdata/objects.yaml"))(t)))(t) {
		stored, title := client(object), fmt.Sprint(i, ": ", object.GroupVersionKind())
		if object.GetName() == "" && object.GetGenerateName() == "" {
			object.SetName("called")
		}
		call(title, "create", object)
		if os.Getenv("OBJECTS") == "" && i%5 > 0 || object.GetName() == "" {
			continue
		}
		call(title, "apply", object)
		current, err := stored.Create(t.Context(), object, metav1.CreateOptions{FieldManager: "other"})
		if err != nil {
			t.Logf("%s: %v", title, err)
			continue
		}
		changed := object.DeepCopy()
		changed.SetName(current.GetName())
		changed.SetLabels(map[string]string{"changed": "yes"})
		for _, operation := range []string{"update", "apply", "delete"} {
			call(title, operation, changed)
		}
		err = stored.Delete(t.Context(), current.GetName(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		if err == nil {
			_, err = stored.Patch(t.Context(), current.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	for pair := range slices.Chunk(testenv.Get(apply.Objects(testenv.Get(os.ReadFile("testdata/applied.yaml"))(t)))(t), 2) {
		testenv.Get(client(pair[0]).Create(t.Context(), pair[0], metav1.CreateOptions{FieldManager: "other"}))(t)
		client(pair[1])
		call("merged "+pair[0].GetKind(), "apply", pair[1])
	}
}

func (w environment) compareReviews(t *testing.T, title, operation string, object *unstructured.Unstructured, isRefused bool) {
	t.Helper()
	w.Hooks.Forget()
	text := testenv.Get(json.Marshal(object))(t)
	printed := testenv.Get(auditor.Piped(t.Context(), bytes.NewReader(text), testenv.Binary(t), "explain", operation, "-f", "-", "--call", "-o", "json", "--kubeconfig", w.Plane.Kubeconfig()))(t)
	isRefused = isRefused || strings.Contains(printed.Stdout, `"code": 4`) // as invalid
	compared, unequal := w.unequalReviews(t, isRefused, false)
	if isUnknown := strings.Contains(printed.Stdout, "its type is not known here"); isUnknown {
		return
	}
	isUnserved := strings.Contains(printed.Stdout, "field not declared in schema") // of an apply
	calls := len(slices.DeleteFunc(w.Hooks.CallsOf("/refused"), func(c webhook.Call) bool { return !c.DryRun }))
	if !isUnserved && (calls != 2 || compared != 1) || isUnserved && calls != 0 {
		t.Errorf("%s: %d calls, want one of the API server and one of explain\n%s%s", title, calls, printed.Stdout, printed.Stderr)
	}
	for _, diff := range unequal {
		t.Errorf("%s: %s", title, diff)
	}
}
