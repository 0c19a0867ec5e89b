//go:build linux && node

package node

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
// validates, the auditor's own rules pass it, and as shipped it has no finding.
func TestPrometheusOperator(t *testing.T) {
	testenv.Must(t, real.Import(t.Context(), "admission-webhook"))
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
		_, err := run(t.Context(), wrongRule, "kubectl", "apply", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), "could not parse expression") {
			return errors.Join(errors.New("a wrong PrometheusRule is not denied"), err)
		}
		return nil
	})
	do(t, "apply -k "+filepath.Join(real.root, "manifests", "overlays", "kubernetes"))
	contains(t, "the PrometheusRules", do(t, "-n "+home+" get prometheusrules,servicemonitors"), "webhook-auditor")
	if said := says(t, "audit", "-o", "table"); strings.Contains(said, service) || strings.Contains(said, "prometheusrulevalidate") {
		t.Errorf("as shipped it has a finding\n%s", said)
	}
}

// required is a constraint template; constraint has each ConfigMap of a namespace have an owner.
const required = `
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: owned}
spec:
  crd: {spec: {names: {kind: Owned}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package owned
      violation[{"msg": "it has no owner"}] { not input.review.object.metadata.labels.owner }
`

const constraint = `
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Owned
metadata: {name: owned}
spec: {match: {kinds: [{apiGroups: [""], kinds: [ConfigMap]}], namespaces: [default]}}
`

// TestGatekeeper runs Gatekeeper with the manifest of its release: it writes its own
// certificates, it denies, and each finding on it is right.
func TestGatekeeper(t *testing.T) {
	testenv.Must(t, real.Import(t.Context(), "manager"))
	text, err := os.ReadFile(filepath.Join(module(t, "gatekeeper", "github.com/open-policy-agent/gatekeeper/v3"), "deploy", "gatekeeper.yaml"))
	testenv.Must(t, err)
	manifest := strings.NewReplacer("openpolicyagent/gatekeeper:v3.23.1", nodes.ImageName("manager"), "imagePullPolicy: Always", "imagePullPolicy: Never").Replace(string(text))
	t.Cleanup(func() {
		do(t, "delete validatingwebhookconfigurations,mutatingwebhookconfigurations -l gatekeeper.sh/system=yes")
		do(t, "delete namespace gatekeeper-system --wait=false")
	})
	_, err = run(t.Context(), manifest, "kubectl", "apply", "--server-side", "-f", "-")
	testenv.Must(t, err)
	ready(t, "gatekeeper-system", "gatekeeper-controller-manager")
	ready(t, "gatekeeper-system", "gatekeeper-audit")
	for _, object := range []string{required, constraint} { // the first makes the kind of the second
		testenv.EventuallyWithin(t, patience, func() error {
			_, err := run(t.Context(), object, "kubectl", "apply", "-f", "-")
			return err
		})
	}
	testenv.EventuallyWithin(t, patience, func() error {
		if _, err := kubectl(t.Context(), "create", "configmap", "nobodys", "--dry-run=server"); err == nil || !strings.Contains(err.Error(), "it has no owner") {
			return errors.Join(errors.New("a ConfigMap without an owner is not denied"), err)
		}
		return nil
	})
	var findings []string
	for line := range strings.Lines(says(t, "audit", "-o", "table")) {
		if fields := strings.Fields(line); strings.Contains(line, "gatekeeper.sh") {
			findings = append(findings, fields[0]+" "+fields[1]+" "+strings.TrimSuffix(fields[3], ".gatekeeper.sh"))
		}
	}
	if diff := cmp.Diff(shipped, findings); diff != "" {
		t.Errorf("findings on Gatekeeper as shipped (-want +got):\n%s", diff)
	}
	do(t, "-n gatekeeper-system scale deployment gatekeeper-controller-manager --replicas=0")
	testenv.EventuallyWithin(t, patience, func() error {
		if _, err := kubectl(t.Context(), "create", "namespace", "new", "--dry-run=server"); err == nil || !strings.Contains(err.Error(), "check-ignore-label.gatekeeper.sh") {
			return errors.Join(errors.New("while it is down, namespaces are not refused"), err)
		}
		_, err := kubectl(t.Context(), "create", "configmap", "nobodys", "--dry-run=server")
		return err
	})
}

// shipped are the findings on Gatekeeper. One of its webhooks fails closed, as the test sees.
// The others fail open, ask for all resources and all of their contents, and are called for
// bindings, so that the scheduler waits for them: that is how Gatekeeper works, hence info.
var shipped = []string{
	"warning control-plane-path check-ignore-label",
	"info critical-resource mutation", "info critical-resource validation",
	"info over-broad mutation", "info over-broad validation",
	"info sensitive-resource mutation", "info sensitive-resource validation",
	"info virtual-resource mutation", "info virtual-resource validation",
}

// module is the folder of a module that a module in e2e/node requires.
func module(t testing.TB, name, path string) string {
	t.Helper()
	folder, err := run(t.Context(), "", "env", "GOWORK=off", "go", "list", "-C", filepath.Join(real.root, "e2e", "node", name), "-m", "-f", "{{.Dir}}", path)
	testenv.Must(t, err)
	return strings.TrimSpace(folder)
}
