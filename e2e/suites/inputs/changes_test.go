package inputs

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// changes are what is read of "diff -o json".
type changes struct {
	Registrations []struct {
		Configuration string
		Webhooks      []struct {
			Name         string
			Gained, Lost []struct{ Resource string }
			NotCompared  []string
			Fields       []struct{ Field, Before, After string }
		}
	}
	Added, Resolved []struct{ Check string }
}

// TestDiffAgainstTheCluster: resources that diff calls gained are refused by the API
// server once the manifest is applied, and were not; of a selector that changes it
// compares no requests.
func TestDiffAgainstTheCluster(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	was, now := w.Backend(t, "diff-was"), w.Backend(t, "diff-now") // whose requests are refused, as the Service is missing
	hook := testenv.Hook(was, "/allow", testenv.Rule("", "configmaps"))
	w.Validate(t, "diff-cluster", hook)
	hook.NamespaceSelector, hook.TimeoutSeconds = testenv.Hook(now, "/allow").NamespaceSelector, new(int32(7))
	hook.Rules = append(hook.Rules, testenv.Rule("", "secrets"))
	testenv.Must(t, was.DeleteService(t.Context()))
	diff := func() (c changes, code int) {
		manifest, err := yaml.Marshal(admissionv1.ValidatingWebhookConfiguration{
			TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"},
			ObjectMeta: metav1.ObjectMeta{Name: "diff-cluster"}, Webhooks: []admissionv1.ValidatingWebhook{hook},
		})
		testenv.Must(t, err)
		got, err := auditor.Piped(t.Context(), strings.NewReader(string(manifest)), testenv.Binary(t), "diff", "-", "--kubeconfig", w.Plane.Kubeconfig(), "-o", "json", "--fail-on=info")
		testenv.Must(t, err)
		testenv.Must(t, json.Unmarshal([]byte(got.Stdout), &c))
		return c, got.Code
	}
	secret := func(namespace string) error {
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
		_, err := w.Kube.CoreV1().Secrets(namespace).Create(t.Context(), object, metav1.CreateOptions{})
		return err
	}
	testenv.Eventually(t, func() error { return w.Refused(t, was.Namespace, "failed calling webhook") })
	if err := secret(was.Namespace); err != nil {
		t.Errorf("secrets are refused before they are gained: %v", err)
	}

	c, code := diff()
	if len(c.Registrations) != 1 || len(c.Registrations[0].Webhooks) != 1 || code != 3 || len(c.Added) == 0 {
		t.Fatalf("exit code %d, want 3, as it sees secrets: %+v", code, c)
	}
	change := c.Registrations[0].Webhooks[0]
	if len(change.Lost) != 0 || len(change.Gained) != 1 || change.Gained[0].Resource != "secrets" || !slices.Equal(change.NotCompared, []string{"namespaceSelector"}) {
		t.Fatalf("%+v", change)
	}
	if timeout := change.Fields[len(change.Fields)-1]; timeout.Field != "timeoutSeconds" || timeout.Before != "10" || timeout.After != "7" {
		t.Errorf("the last field is %+v", timeout)
	}
	client := w.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	configuration := testenv.Get(client.Get(t.Context(), "diff-cluster", metav1.GetOptions{}))(t)
	configuration.Webhooks = []admissionv1.ValidatingWebhook{hook}
	testenv.Get(client.Update(t.Context(), configuration, metav1.UpdateOptions{}))(t)
	testenv.Eventually(t, func() error { return w.Refused(t, now.Namespace, "failed calling webhook") })
	if err := secret(now.Namespace); err == nil {
		t.Error("secrets are gained, and not refused")
	}
	if again, _ := diff(); len(again.Registrations) > 0 {
		t.Errorf("what was applied still differs: %+v", again.Registrations)
	}
}

// TestAgent asks the tools about a cluster, as an agent does: by the SDK's client, which
// starts the binary.
func TestAgent(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	b := w.Backend(t, "agent")
	w.Validate(t, "agent", testenv.Hook(b, "/allow", testenv.Rule("", "configmaps")))
	testenv.Get(w.CreateConfigMap(t, b.Namespace))(t)
	testenv.Must(t, b.DeleteService(t.Context()))

	command := exec.Command(testenv.Binary(t), "mcp", "--kubeconfig", w.Plane.Kubeconfig())
	session := testenv.Get(mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: command}, nil))(t)
	defer session.Close()
	testenv.Eventually(t, func() error { return w.Refused(t, b.Namespace, "failed calling webhook") })
	name := b.Namespace + ".e2e.example.com"
	for _, c := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"audit", map[string]any{"targets": []string{"validatingwebhookconfiguration/agent"}}, "service-missing"},
		{"explain", map[string]any{"operation": "create", "resource": "configmaps", "namespace": b.Namespace}, name},
		{"explain", map[string]any{"error": w.Refused(t, b.Namespace, "no such text").Error()}, "agent/hook"},
		{"impact", map[string]any{"delete": []string{"agent"}}, name},
		{"diff", map[string]any{"manifests": w.manifestOf(t, "agent")}, "No registration of a webhook changes."},
		{"top", nil, name},
		{"checks", nil, "service-missing"},
	} {
		r := testenv.Get(session.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.args}))(t)
		text := testenv.Get(json.Marshal(r.Content))(t)
		if r.IsError || !strings.Contains(string(text), c.want) {
			t.Errorf("%s %v: no %q in %s", c.tool, c.args, c.want, text)
		}
	}
	if touched := w.Kubectl(t, "get", "validatingwebhookconfiguration", "agent", "-o", "jsonpath={.metadata.generation}"); touched != "1" {
		t.Errorf("the configuration is of generation %s", touched)
	}
}

// manifestOf is a configuration as kubectl prints it.
func (w environment) manifestOf(t *testing.T, name string) string {
	t.Helper()
	return w.Kubectl(t, "get", "validatingwebhookconfiguration", name, "-o", "yaml")
}
