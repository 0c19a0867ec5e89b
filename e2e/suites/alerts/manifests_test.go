package alerts

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// static is the scenario of the webhook that is registered by no object.
const static = "static"

// manifests is the folder from which an API server reads webhooks that no API
// shows.
type manifests string

// flags have an API server read the folder.
func (m manifests) flags(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "admission.yaml")
	testenv.Must(t, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ValidatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    staticManifestsDir: %s
`, m), 0o600))
	return []string{"--admission-control-config-file=" + file}
}

// add writes the manifest of the scenario's webhook, which must name a URL.
func (m manifests) add(s scenario) error {
	c := s.configuration(configMaps)
	c.TypeMeta = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"}
	c.Name = s.name + ".static.k8s.io"
	c.Webhooks[0].ClientConfig = admissionv1.WebhookClientConfig{URL: new(s.Hooks.URL(s.path())), CABundle: s.Hooks.CABundle()}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(m.file(s), text, 0o600)
}

func (m manifests) remove(s scenario) error { return os.Remove(m.file(s)) }

func (m manifests) file(s scenario) string { return filepath.Join(string(m), s.name+".json") }
