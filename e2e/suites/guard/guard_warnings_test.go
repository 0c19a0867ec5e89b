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
	w := useGuarded(t)
	crowd, others := make([]any, 1000), make([]any, 1000)
	for i := range crowd {
		hook := idle(fmt.Sprintf("hook-%d", i))
		hook["rules"] = []any{map[string]any{
			"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"secrets"},
		}}
		crowd[i], others[i] = hook, idle(fmt.Sprintf("hook-%d", i))
	}
	for kind := range guardedKinds {
		testenv.Eventually(t, func() error {
			printed, err := w.dryRun(t, configuration(kind, "guard-warned", crowd...))
			if err == nil && (len(printed) != 1 || !strings.Contains(printed[0], "resources: 1000 webhooks; they")) {
				err = fmt.Errorf("registering a crowd as a %s prints %q", kind, printed)
			}
			return err
		})
		if printed := testenv.Get(w.dryRun(t, configuration(kind, "guard-warned", others...)))(t); len(printed) > 0 {
			t.Errorf("registering others as a %s prints %q", kind, printed)
		}
	}
}
