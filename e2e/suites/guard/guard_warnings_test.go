package guard

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// warn installs the warnings until the end of the test.
func (w environment) warn(t *testing.T) {
	t.Helper()
	policy := testenv.Get(printed("registration-warnings"))(t)
	testenv.Must(t, w.apply(t.Context(), strict(policy)...))
	t.Cleanup(func() { w.uninstallObjects(t, policy) })
	testenv.Eventually(t, func() error { return w.wantWarning(t, "secrets.guard.example.com") })
}

// wantWarning registers a webhook for secrets, in a dry run.
func (w environment) wantWarning(t *testing.T, want string) error {
	t.Helper()
	printed, err := w.dryRun(t, configuration("ValidatingWebhookConfiguration", "guard-warned", covering("secrets")))
	if err == nil && !strings.Contains(strings.Join(printed, "\n"), want) {
		err = fmt.Errorf("want the warning %q, have %q", want, printed)
	}
	return err
}

// covering is a webhook for the creation of a core resource.
func covering(resource string) map[string]any {
	hook := idle(resource)
	hook["rules"] = []any{map[string]any{
		"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{resource},
	}}
	return hook
}

// dryRun registers the configuration in a dry run and returns what the policy
// warns of.
func (w environment) dryRun(t *testing.T, object *unstructured.Unstructured) ([]string, error) {
	t.Helper()
	received := &warnings{}
	config := w.Plane.Config()
	config.WarningHandler = received
	client := testenv.Get(dynamic.NewForConfig(config))(t)
	_, err := client.Resource(guardedKinds[object.GetKind()]).Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return received.byPolicy(), err
}

// warnings collects what the API server warns of.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

// HandleWarningHeader keeps one warning.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, text)
}

func (w *warnings) byPolicy() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.lines), func(line string) bool {
		return !strings.Contains(line, "ValidatingAdmissionPolicy 'webhook-auditor-registration-warnings'")
	})
}

// TestRegistrationWarnings: the API server passes the warnings on, whatever the
// number of webhooks. Which there are is tested in manifests.
func TestRegistrationWarnings(t *testing.T) {
	t.Parallel()
	w := useUnguarded(t)
	w.warn(t)
	crowd, others := make([]any, 1000), make([]any, 1000)
	for i := range crowd {
		hook := covering("secrets")
		hook["name"] = fmt.Sprintf("hook-%d.guard.example.com", i)
		crowd[i] = hook
		others[i] = idle(fmt.Sprintf("hook-%d", i))
	}
	for name, test := range map[string]struct {
		hooks []any
		want  string
	}{
		"crowd":           {crowd, "resources: 1000 webhooks; they"},
		"crowd of others": {others, ""},
	} {
		for kind := range guardedKinds {
			t.Run(name+"/"+kind, func(t *testing.T) {
				printed := testenv.Get(w.dryRun(t, configuration(kind, "guard-warned", test.hooks...)))(t)
				if test.want == "" && len(printed) > 0 || len(printed) > 1 || !strings.Contains(strings.Join(printed, ""), test.want) {
					t.Errorf("prints %q, want %q", printed, test.want)
				}
			})
		}
	}
}
