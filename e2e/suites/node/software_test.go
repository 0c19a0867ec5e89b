//go:build linux && node

package node

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/ca"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/nodes"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// routed is converted when it is read as v1beta1, which has "matchers" of other fields.
const routed = `
apiVersion: monitoring.coreos.com/v1alpha1
kind: AlertmanagerConfig
metadata: {name: routed, namespace: default}
spec: {route: {receiver: none, matchers: [{name: severity, value: page, regex: true}]}, receivers: [{name: none}]}
`

const wrongRule = `
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: wrong, namespace: default}
spec: {groups: [{name: a, rules: [{alert: A, expr: "sum("}]}]}
`

// configurations are those that a document has, as YAML.
var configurations = regexp.MustCompile("(?s)```yaml\n(apiVersion: admissionregistration.k8s.io/v1\n.*?)```")

// TestPrometheusOperator runs its admission webhook with the manifests of its release and
// the configurations of its documentation: it validates, it converts, the auditor's own
// rules pass it, and each finding on it is right.
func TestPrometheusOperator(t *testing.T) {
	testenv.Must(t, real.Import(t.Context(), "admission-webhook"))
	release := module(t, "prometheus-operator", "github.com/prometheus-operator/prometheus-operator")
	shipped := func(path string, replaced ...string) string {
		text := testenv.Get(os.ReadFile(filepath.Join(release, path)))(t)
		return strings.NewReplacer(replaced...).Replace(string(text))
	}
	do(t, "apply --server-side -f "+filepath.Join(release, "example", "prometheus-operator-crd-full"))
	authority := testenv.Get(ca.New("prometheus-operator"))(t)
	const service = "prometheus-operator-admission-webhook"
	serving{namespace: "default", secret: "admission-webhook-certs", host: service + ".default.svc", lasts: year}.write(t, authority)
	for _, file := range []string{"deployment", "pod-disruption-budget", "service-account", "service"} {
		apply(t, shipped("example/admission-webhook/"+file+".yaml", "quay.io/prometheus-operator/admission-webhook:v0.85.0", nodes.ImageName("admission-webhook")))
	}
	const domain, definition = "monitoring.coreos.com", "alertmanagerconfigs.monitoring.coreos.com"
	t.Cleanup(func() {
		do(t, "delete customresourcedefinition "+definition)
		do(t, "delete validatingwebhookconfiguration,mutatingwebhookconfiguration --all")
		do(t, "delete deployment,service,poddisruptionbudget "+service)
	})
	ready(t, "default", service)
	bundle := base64.StdEncoding.EncodeToString(authority.Bundle)
	for _, c := range configurations.FindAllStringSubmatch(shipped("Documentation/platform/webhook.md", "service:", "caBundle: "+bundle+"\n      service:"), -1) {
		apply(t, c[1])
	}
	denied(t, "could not parse expression", wrongRule, "apply", "-f", "-")
	called(t, wrongRule, "could not parse expression")
	if diff := cmp.Diff([]string(nil), findings(t, domain)); diff != "" {
		t.Errorf("findings on it as shipped (-want +got):\n%s", diff)
	}
	apply(t, routed)
	converted := func() (string, error) {
		return kubectl(t.Context(), "get", "alertmanagerconfigs.v1beta1."+domain, "routed", "-o", "jsonpath={.spec.route.matchers}")
	}
	// The patch that the release has calls port 8443 of a Service that has 443 alone, as
	// its documentation says. Nothing is converted, as the API server says too.
	patch := func(replaced ...string) {
		const path = "example/alertmanager-crd-conversion/patch.json"
		_, err := run(t.Context(), shipped(path, append(replaced, `"service": {`, `"caBundle": "`+bundle+`", "service": {`)...),
			"kubectl", "patch", "customresourcedefinition", definition, "--type=merge", "--patch-file=/dev/stdin")
		testenv.Must(t, err)
	}
	patch()
	awaitFinding(t, sought{check: "service-port-missing", configuration: definition})
	testenv.EventuallyWithin(t, patience, func() error {
		if printed, err := converted(); err == nil || !strings.Contains(err.Error(), "8443") {
			return errors.Join(fmt.Errorf("converted: %s", printed), err)
		}
		return nil
	})
	patch("8443", "443")
	awaitFinding(t, sought{check: "service-port-missing", configuration: definition, gone: true})
	testenv.EventuallyWithin(t, patience, func() error { // until the API server knows the conversion
		printed, err := converted()
		if err == nil && !strings.Contains(printed, `"matchType":"=~"`) {
			err = fmt.Errorf("not converted: %s", printed)
		}
		return err
	})
	do(t, "apply -k "+filepath.Join(real.root, "manifests", "overlays", "kubernetes"))
	contains(t, "the PrometheusRules", do(t, "-n "+home+" get prometheusrules,servicemonitors"), "webhook-auditor")
	// Its conversion takes reviews of v1beta1 and v1alpha1 alone: it fails once an API server
	// sends v1 only.
	if diff := cmp.Diff([]string{"info review-version alertmanagerconfigs"}, findings(t, domain)); diff != "" {
		t.Errorf("findings on it with its conversion (-want +got):\n%s", diff)
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
	text := testenv.Get(os.ReadFile(filepath.Join(module(t, "gatekeeper", "github.com/open-policy-agent/gatekeeper/v3"), "deploy", "gatekeeper.yaml")))(t)
	manifest := strings.NewReplacer("openpolicyagent/gatekeeper:v3.23.1", nodes.ImageName("manager"), "imagePullPolicy: Always", "imagePullPolicy: Never").Replace(string(text))
	t.Cleanup(func() {
		do(t, "delete validatingwebhookconfigurations,mutatingwebhookconfigurations -l gatekeeper.sh/system=yes")
		do(t, "delete namespace gatekeeper-system --wait=false")
	})
	testenv.Get(run(t.Context(), manifest, "kubectl", "apply", "--server-side", "-f", "-"))(t)
	ready(t, "gatekeeper-system", "gatekeeper-controller-manager")
	ready(t, "gatekeeper-system", "gatekeeper-audit")
	for _, object := range []string{required, constraint} { // the first makes the kind of the second
		testenv.EventuallyWithin(t, patience, func() error {
			_, err := run(t.Context(), object, "kubectl", "apply", "-f", "-")
			return err
		})
	}
	denied(t, "it has no owner", "", "create", "configmap", "nobodys", "--dry-run=server")
	called(t, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "nobodys", "namespace": "default"}}`, "it has no owner")
	if diff := cmp.Diff(shipped, findings(t, "gatekeeper.sh")); diff != "" {
		t.Errorf("findings on Gatekeeper as shipped (-want +got):\n%s", diff)
	}
	do(t, "-n gatekeeper-system scale deployment gatekeeper-controller-manager --replicas=0")
	denied(t, "check-ignore-label.gatekeeper.sh", "", "create", "namespace", "new", "--dry-run=server")
	do(t, "create configmap nobodys --dry-run=server")
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

// queued is a Job of a queue whose name cannot be.
const queued = `
apiVersion: batch/v1
kind: Job
metadata: {name: queued, namespace: default, labels: {kueue.x-k8s.io/queue-name: No_Name}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: none}]}}}
`

// shippedKueue are the findings on kueue. Its one Pod answers for Pods of all namespaces but
// two, the auditor's too, and fails closed, as the test sees. Its validation of changed Pods
// is not called for those of their subresources.
var shippedKueue = []string{
	"warning blocks-auditor mpod", "warning blocks-auditor vpod",
	"info critical-resource mpod", "info critical-resource vpod",
	"info single-endpoint mpod", "info single-endpoint vpod",
	"info subresource-gap vpod",
}

// TestKueue runs kueue with the manifests of its release: it validates Jobs, and each
// finding on it is right.
func TestKueue(t *testing.T) {
	testenv.Must(t, real.Import(t.Context(), "kueue"))
	text := do(t, "kustomize "+filepath.Join(module(t, "kueue", "sigs.k8s.io/kueue"), "config", "default"))
	manifest := strings.NewReplacer("us-central1-docker.pkg.dev/k8s-staging-images/kueue/kueue:main", nodes.ImageName("kueue"), "imagePullPolicy: Always", "imagePullPolicy: Never", "- /manager", "- /kueue").Replace(text)
	t.Cleanup(func() {
		testenv.Get(run(context.Background(), manifest, "kubectl", "delete", "--ignore-not-found", "--wait=false", "-f", "-"))(t) // some go with the namespace
	})
	apply(t, manifest)
	ready(t, "kueue-system", "kueue-controller-manager")
	denied(t, "vjob.kb.io", queued, "create", "--dry-run=server", "-f", "-")
	testenv.EventuallyWithin(t, patience, func() error { // the API server asks once a minute for the resources that kueue serves
		_, err := run(t.Context(), "", "webhook-auditor", "audit", "--fail-on=never")
		return err
	})
	called(t, queued, "mjob.kb.io")
	if diff := cmp.Diff(shippedKueue, findings(t, "kb.io")); diff != "" {
		t.Errorf("findings on kueue as shipped (-want +got):\n%s", diff)
	}
	do(t, "-n kueue-system scale deployment kueue-controller-manager --replicas=0")
	denied(t, "mpod.kb.io", "", "run", "held", "--namespace="+home, "--image=none", "--dry-run=server")
}

// called holds "explain --call" of an object, through the proxy of the Service, to the API
// server: both refuse it with the same message.
func called(t testing.TB, object, text string) {
	t.Helper()
	printed := testenv.Get(run(t.Context(), object, "webhook-auditor", "explain", "create", "-f", "-", "--call", "-o", "json"))(t)
	var got struct {
		Refused string
		Server  struct{ Message string }
	}
	testenv.Must(t, json.Unmarshal([]byte(printed), &got))
	if got.Refused == "" || got.Refused != got.Server.Message || !strings.Contains(printed, text) {
		t.Errorf("it is refused with %q, by the API server with %q: %s", got.Refused, got.Server.Message, printed)
	}
}

// denied waits until what kubectl asks for is denied with a text.
func denied(t testing.TB, text, stdin string, args ...string) {
	t.Helper()
	testenv.EventuallyWithin(t, patience, func() error {
		_, err := run(t.Context(), stdin, append([]string{"kubectl"}, args...)...)
		if err == nil || !strings.Contains(err.Error(), text) {
			return errors.Join(fmt.Errorf("nothing is denied with %q", text), err)
		}
		return nil
	})
}

// findings are those that audit has on webhooks whose names end so: severity, check, webhook.
func findings(t testing.TB, domain string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(says(t, "audit", "-o", "table")) {
		if fields := strings.Fields(line); strings.Contains(line, domain) {
			out = append(out, fields[0]+" "+fields[1]+" "+strings.TrimSuffix(fields[3], "."+domain))
		}
	}
	return out
}

// module is the folder of a module that a module in e2e/node requires.
func module(t testing.TB, name, path string) string {
	t.Helper()
	folder := testenv.Get(run(t.Context(), "", "env", "GOWORK=off", "go", "list", "-C", filepath.Join(real.root, "e2e", "node", name), "-m", "-f", "{{.Dir}}", path))(t)
	return strings.TrimSpace(folder)
}
