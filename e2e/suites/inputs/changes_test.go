package inputs

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
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
			Gained, Lost []struct{ Namespaces []string }
			Fields       []struct{ Field, Before, After string }
		}
	}
	Added, Resolved []struct{ Check string }
}

// TestDiffAgainstTheCluster: what diff says of a manifest and the cluster is what the
// API server does once it is applied, by who is refused before and after.
func TestDiffAgainstTheCluster(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	was, now := w.Backend(t, "diff-was"), w.Backend(t, "diff-now") // whose requests are refused, as the Service is missing
	hook := testenv.Hook(was, "/allow", testenv.Rule("", "configmaps"))
	w.Validate(t, "diff-cluster", hook)
	hook.NamespaceSelector, hook.TimeoutSeconds = testenv.Hook(now, "/allow").NamespaceSelector, new(int32(7))
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
	refused := func() (out []string) {
		for _, namespace := range []string{was.Namespace, now.Namespace} {
			if _, err := w.CreateConfigMap(t, namespace); err != nil {
				out = append(out, namespace)
			}
		}
		return out
	}
	testenv.Eventually(t, func() error { return w.Refused(t, was.Namespace, "failed calling webhook") })
	before := refused()

	c, code := diff()
	if len(c.Registrations) != 1 || len(c.Registrations[0].Webhooks) != 1 {
		t.Fatalf("%+v", c)
	}
	change := c.Registrations[0].Webhooks[0]
	if code != 0 || len(change.Gained) != 1 || len(change.Lost) != 1 {
		t.Fatalf("exit code %d: %+v", code, change)
	}
	if timeout := change.Fields[len(change.Fields)-1]; timeout.Field != "timeoutSeconds" || timeout.Before != "10" || timeout.After != "7" {
		t.Errorf("the last field is %+v", timeout)
	}
	client := w.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	configuration, err := client.Get(t.Context(), "diff-cluster", metav1.GetOptions{})
	testenv.Must(t, err)
	configuration.Webhooks = []admissionv1.ValidatingWebhook{hook}
	_, err = client.Update(t.Context(), configuration, metav1.UpdateOptions{})
	testenv.Must(t, err)
	testenv.Eventually(t, func() error { return w.Refused(t, now.Namespace, "failed calling webhook") })
	if lost, gained := change.Lost[0].Namespaces, change.Gained[0].Namespaces; !slices.Equal(lost, before) || !slices.Equal(gained, refused()) {
		t.Errorf("lost in %q, gained in %q: the API server refused in %q, then in %q", lost, gained, before, refused())
	}
	if again, _ := diff(); len(again.Registrations) > 0 {
		t.Errorf("what was applied still differs: %+v", again.Registrations)
	}

	hook.Rules = append(hook.Rules, testenv.Rule("", "secrets"))
	if added, code := diff(); code != 3 || len(added.Added) == 0 {
		t.Errorf("exit code %d, want 3, as it sees secrets: %+v", code, added.Added)
	}
}

// TestAgent asks the tools about a cluster, as an agent does: by the SDK's client, which
// starts the binary.
func TestAgent(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	b := w.Backend(t, "agent")
	w.Validate(t, "agent", testenv.Hook(b, "/allow", testenv.Rule("", "configmaps")))
	_, err := w.CreateConfigMap(t, b.Namespace)
	testenv.Must(t, err)
	testenv.Must(t, b.DeleteService(t.Context()))

	command := exec.Command(testenv.Binary(t), "mcp", "--kubeconfig", w.Plane.Kubeconfig())
	session, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: command}, nil)
	testenv.Must(t, err)
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
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.args})
		testenv.Must(t, err)
		text, err := json.Marshal(r.Content)
		testenv.Must(t, err)
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
