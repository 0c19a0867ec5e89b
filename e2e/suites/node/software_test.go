//go:build linux && node

package node

import (
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/ca"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/nodes"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// operatorConfiguration is what the documentation of prometheus-operator has one register
// ("Admission webhook"), with the CA.
const operatorConfiguration = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: prometheus-operator-rulesvalidation}
webhooks:
- name: prometheusrulevalidate.monitoring.coreos.com
  clientConfig: {caBundle: BUNDLE, service: {name: prometheus-operator-admission-webhook, namespace: default, path: /admission-prometheusrules/validate}}
  failurePolicy: Fail
  namespaceSelector: {}
  rules: [{apiGroups: [monitoring.coreos.com], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [prometheusrules]}]
  admissionReviewVersions: [v1, v1beta1]
  sideEffects: None
`

const wrongRule = `
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: wrong, namespace: default}
spec: {groups: [{name: a, rules: [{alert: A, expr: "sum("}]}]}
`

// TestPrometheusOperator runs its admission webhook with the manifests of its release: it
// validates, the auditor's own rules pass it, and as shipped it has no finding above info.
func TestPrometheusOperator(t *testing.T) {
	testenv.Must(t, real.Pack(t.Context(), "admission-webhook"))
	release := module(t, "prometheus-operator", "github.com/prometheus-operator/prometheus-operator")
	do(t, "apply --server-side -f "+filepath.Join(release, "example", "prometheus-operator-crd"))
	authority, err := ca.New("prometheus-operator")
	testenv.Must(t, err)
	const service = "prometheus-operator-admission-webhook"
	serving{namespace: "default", secret: "admission-webhook-certs", host: service + ".default.svc", lasts: year}.write(t, authority)
	for _, file := range []string{"deployment", "pod-disruption-budget", "service-account", "service"} {
		text, err := os.ReadFile(filepath.Join(release, "example", "admission-webhook", file+".yaml"))
		testenv.Must(t, err)
		manifest := strings.ReplaceAll(string(text), "quay.io/prometheus-operator/admission-webhook:v0.85.0", nodes.ImageName("admission-webhook"))
		apply(t, manifest)
	}
	apply(t, strings.ReplaceAll(operatorConfiguration, "BUNDLE", base64.StdEncoding.EncodeToString(authority.Bundle)))
	t.Cleanup(func() {
		do(t, "delete validatingwebhookconfiguration prometheus-operator-rulesvalidation")
		do(t, "delete deployment,service "+service)
	})
	ready(t, "default", service)
	testenv.EventuallyWithin(t, patience, func() error {
		_, err := kubectlWith(t.Context(), wrongRule, "apply", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), "could not parse expression") {
			return errors.Join(errors.New("a wrong PrometheusRule is not denied"), err)
		}
		return nil
	})
	do(t, "apply -k "+filepath.Join(real.root, "manifests", "overlays", "kubernetes"))
	contains(t, "the PrometheusRules", do(t, "-n "+home+" get prometheusrules,servicemonitors"), "webhook-auditor")
	said := says(t, "audit", "--probe=tls")
	for _, above := range []string{"critical ", "warning "} {
		if strings.Contains(said, above+"prometheus") {
			t.Errorf("as shipped it has a finding\n%s", said)
		}
	}
	t.Logf("%s", said)
}

// module is the folder of a module that a module in e2e/node requires.
func module(t testing.TB, name, path string) string {
	t.Helper()
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path)
	list.Dir = filepath.Join(real.root, "e2e", "node", name)
	list.Env = append(os.Environ(), "GOWORK=off")
	output, err := list.Output()
	testenv.Must(t, err)
	return strings.TrimSpace(string(output))
}
