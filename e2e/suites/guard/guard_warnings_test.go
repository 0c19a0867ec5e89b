package guard

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestRegistrationWarnings: the API server passes the warnings on, whatever the
// number of webhooks, and none of others. Which there are is tested in manifests.
func TestRegistrationWarnings(t *testing.T) {
	t.Parallel()
	w := environment{unguarded.Use(t)}
	policy, err := printed("registration-warnings")
	testenv.Must(t, err)
	testenv.Must(t, w.apply(t.Context(), strict(policy)...))
	crowd, others := make([]any, 1000), make([]any, 1000)
	for i := range crowd {
		hook := idle(fmt.Sprintf("hook-%d", i))
		hook["rules"] = []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"secrets"}}}
		crowd[i], others[i] = hook, idle(fmt.Sprintf("hook-%d", i))
	}
	for kind := range guardedKinds {
		t.Run(kind, func(t *testing.T) {
			testenv.Eventually(t, func() error { // the policy is awake
				if printed := w.warned(t, kind, crowd); strings.Count(printed, "registration-warnings'") != 1 || !strings.Contains(printed, "resources: 1000 webhooks; they") {
					return fmt.Errorf("prints %q of 1000 webhooks for secrets", printed)
				}
				return nil
			})
			if printed := w.warned(t, kind, others); printed != "" {
				t.Errorf("prints %q of webhooks for nothing of the cluster's", printed)
			}
		})
	}
}

// warned is what the API server warns of when the webhooks are registered, in a dry run.
func (w environment) warned(t *testing.T, kind string, hooks []any) string {
	t.Helper()
	var printed bytes.Buffer
	config := w.Plane.Config()
	config.WarningHandler = rest.NewWarningWriter(&printed, rest.WarningWriterOptions{})
	client, err := dynamic.NewForConfig(config)
	testenv.Must(t, err)
	_, err = client.Resource(guardedKinds[kind]).Create(t.Context(), configuration(kind, "guard-warned", hooks...), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	testenv.Must(t, err)
	return printed.String()
}
