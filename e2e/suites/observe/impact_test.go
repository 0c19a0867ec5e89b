package observe

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// consequences are what "impact --down -o json" prints.
type consequences struct {
	Effects []struct {
		Name, Outcome string
		Requests      []struct {
			Resource   string
			Operations []string
		}
		Namespaces []string
	}
	Appearing, Disappearing []finding
}

type finding struct{ Check, Severity, Name string }

// outcomes say by "resource namespace" what becomes of creating an object.
func (c consequences) outcomes() map[string]string {
	out := map[string]string{}
	for _, e := range c.Effects {
		for _, r := range e.Requests {
			for _, namespace := range e.Namespaces {
				if slices.Contains(r.Operations, "CREATE") {
					out[r.Resource+" "+namespace] = e.Outcome
				}
			}
		}
	}
	return out
}

var created = map[string]func(w environment, t *testing.T, namespace string) error{
	"configmaps": func(w environment, t *testing.T, namespace string) error {
		_, err := w.CreateConfigMap(t, namespace)
		return err
	},
	"secrets": func(w environment, t *testing.T, namespace string) error {
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
		_, err := w.Kube.CoreV1().Secrets(namespace).Create(t.Context(), object, metav1.CreateOptions{})
		return err
	},
	"serviceaccounts": func(w environment, t *testing.T, namespace string) error {
		object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
		_, err := w.Kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), object, metav1.CreateOptions{})
		return err
	},
}

// webhooks registers a validating webhook that fails closed, one that fails open
// and a mutating one whose backend is another; all are called in the namespace of
// the first.
func (w environment) webhooks(t *testing.T, down, up webhook.Backend) {
	t.Helper()
	guarded := down.Namespace
	hook := func(b webhook.Backend, name string) admissionv1.ValidatingWebhook {
		h := testenv.Hook(b, "/allow/impact-"+name, testenv.Rule("", name))
		h.Name = name + ".impact.example.com"
		h.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: guarded}}
		return h
	}
	open := hook(down, "secrets")
	open.FailurePolicy = new(admissionv1.Ignore)
	w.Validate(t, "impact-closed", hook(down, "configmaps"))
	w.Validate(t, "impact-open", open)
	w.Mutate(t, "impact-other", testenv.Mutating(hook(up, "serviceaccounts")))
	for name, create := range created {
		testenv.Eventually(t, func() error {
			if err := create(w, t, guarded); err != nil {
				return err
			}
			if len(w.Hooks.CallsOf("/allow/impact-"+name)) == 0 {
				return fmt.Errorf("the webhook on %s is not called", name)
			}
			return nil
		})
	}
}

func impact(t *testing.T, w environment, args ...string) (consequences, auditor.Result) {
	t.Helper()
	result := testenv.Command(t, append([]string{"impact", "-o", "json", "--kubeconfig=" + w.Plane.Kubeconfig()}, args...)...)
	var out consequences
	if err := json.Unmarshal([]byte(result.Stdout), &out); err != nil {
		t.Fatalf("%v: %s%s", err, result.Stdout, result.Stderr)
	}
	return out, result
}

// TestImpactSaysWhatTheAPIServerDoes: what is predicted of a backend that goes
// away, by name and by its node, is what the API server does once it is gone.
func TestImpactSaysWhatTheAPIServerDoes(t *testing.T) {
	const guarded, outside = "impact-guarded", "impact-outside"
	w := environment{stock.UseAlone(t)}
	down, up := w.Backend(t, guarded), w.Backend(t, outside)
	testenv.Must(t, w.onNode(t, down, "worker-1"))
	testenv.Must(t, w.onNode(t, up, "worker-2"))
	w.webhooks(t, down, up)

	predicted, result := impact(t, w, "--down="+guarded+"/hook")
	if result.Code != 3 {
		t.Errorf("exit code %d, want 3: a critical finding appears", result.Code)
	}
	drained, _ := impact(t, w, "--down-node=worker-1")
	if a, b := fmt.Sprint(predicted), fmt.Sprint(drained); a != b {
		t.Errorf("of the Service: %s\nof its node: %s", a, b)
	}
	want := map[string]string{"configmaps " + guarded: "refused", "secrets " + guarded: "unchecked"}
	if got := predicted.outcomes(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("predicted %v, want %v", got, want)
	}
	before := findings(t, w)

	testenv.Must(t, down.DeleteEndpoints(t.Context()))
	testenv.Eventually(t, func() error { return w.Refused(t, guarded, "failed calling webhook") })
	for resource, create := range created {
		for _, namespace := range []string{guarded, outside} {
			outcome := predicted.outcomes()[resource+" "+namespace]
			w.Hooks.Forget()
			err := create(w, t, namespace)
			called := len(w.Hooks.CallsOf("/allow/impact-"+resource)) > 0
			switch {
			case outcome == "refused" && (err == nil || !strings.Contains(err.Error(), "failed calling webhook")):
				t.Errorf("%s in %s: predicted to be refused, is %v", resource, namespace, err)
			case outcome != "refused" && err != nil:
				t.Errorf("%s in %s: predicted %q, is %v", resource, namespace, outcome, err)
			case outcome == "unchecked" && called:
				t.Errorf("%s in %s: predicted to be unchecked, and its webhook is called", resource, namespace)
			case outcome == "" && namespace == guarded && !called:
				t.Errorf("%s in %s: predicted to be as before, and its webhook is not called", resource, namespace)
			}
		}
	}
	after := findings(t, w)
	if got, want := fmt.Sprint(missing(before, after)), fmt.Sprint(sorted(predicted.Appearing)); got != want {
		t.Errorf("findings that appear: %s, predicted %s", got, want)
	}
	if got, want := fmt.Sprint(missing(after, before)), fmt.Sprint(sorted(predicted.Disappearing)); got != want {
		t.Errorf("findings that go: %s, predicted %s", got, want)
	}
}

// onNode places the endpoint of a backend.
func (w environment) onNode(t *testing.T, b webhook.Backend, node string) error {
	t.Helper()
	client := w.Kube.DiscoveryV1().EndpointSlices(b.Namespace)
	slice, err := client.Get(t.Context(), b.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	slice.Endpoints[0].NodeName = &node
	_, err = client.Update(t.Context(), slice, metav1.UpdateOptions{})
	return err
}

// findings are those of the auditor about the webhooks of this test.
func findings(t *testing.T, w environment) []finding {
	t.Helper()
	document, _ := testenv.Report(t, "--kubeconfig="+w.Plane.Kubeconfig())
	var out []finding
	for _, f := range document.Findings {
		out = append(out, finding{f.Check, f.Severity, f.Name})
	}
	return sorted(out)
}

func sorted(list []finding) []finding {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b finding) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return list
}

func missing(a, b []finding) []finding {
	return slices.DeleteFunc(slices.Clone(b), func(f finding) bool { return slices.Contains(a, f) })
}
