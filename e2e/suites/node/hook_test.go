//go:build linux && node

package node

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/ca"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/nodes"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// hook is a webhook in Pods of its own. Namespace, Service, Deployment and configuration
// have its name, the namespace in which it is called has it with "-used".
type hook struct {
	name      string
	resources string // empty: configmaps
	selector  string // of namespaces, as YAML; empty: the one in which it is called
	preStop   string // of the container, as YAML
	register  string // the manifest that registers it; empty: hookConfiguration
}

const year = 365 * 24 * time.Hour

const hookManifest = `
apiVersion: v1
kind: Namespace
metadata: {name: NAME}
---
apiVersion: v1
kind: Namespace
metadata: {name: NAME-used, labels: {used-by: NAME}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: NAME}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      terminationGracePeriodSeconds: 300 # longer than any preStop hook
      tolerations:
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 5}
      containers:
      - name: hook
        image: IMAGE
        args: [hook]
        env: [{name: DELAY, value: "0s"}]
        ports: [{name: https, containerPort: 8443}]
        readinessProbe: {httpGet: {path: /, port: https, scheme: HTTPS}, periodSeconds: 1}
        lifecycle: {PRESTOP}
        volumeMounts: [{name: tls, mountPath: /tls}]
      volumes: [{name: tls, secret: {secretName: tls}}]
---
apiVersion: v1
kind: Service
metadata: {name: NAME, namespace: NAME}
spec:
  selector: {app: NAME}
  ports: [{name: https, port: 443, targetPort: https}]
`

const hookConfiguration = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NAME, labels: {used-by: NAME}}
webhooks:
- name: NAME.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 10
  clientConfig: {service: {namespace: NAME, name: NAME, path: /}, caBundle: BUNDLE}
  namespaceSelector: {SCOPE}
  rules: [{apiGroups: ["", certificates.k8s.io, coordination.k8s.io, discovery.k8s.io, events.k8s.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [RESOURCES]}]
`

// render fills a manifest in.
func (h hook) render(manifest string, more ...string) string {
	pairs := []string{
		"IMAGE", nodes.ImageName("fixture"), "PRESTOP", h.preStop, "SCOPE", cmp.Or(h.selector, "matchLabels: {used-by: "+h.name+"}"),
		"RESOURCES", cmp.Or(h.resources, "configmaps"), "NAME", h.name,
	}
	return strings.NewReplacer(append(more, pairs...)...).Replace(manifest)
}

// start starts the Pods, registers the webhook once they are ready, and removes all of it
// at the end of the test.
func (h hook) start(t testing.TB) {
	t.Helper()
	authority := testenv.Get(ca.New(h.name))(t)
	apply(t, h.render(hookManifest))
	t.Cleanup(h.remove(t))
	h.certify(t, authority, year)
	ready(t, h.name, h.name)
	h.trust(t, authority)
	h.admitted(t)
	time.Sleep(settling)
}

// remove removes all of it.
func (h hook) remove(t testing.TB) func() {
	return func() {
		do(t, "delete validatingwebhookconfigurations,mutatingwebhookconfigurations -l used-by="+h.name)
		do(t, "delete namespace "+h.name+" "+h.name+"-used --ignore-not-found --wait=false")
		do(t, "-n "+h.name+" delete pods --all --force --grace-period=0 --wait=false") // whatever their preStop hooks
	}
}

// settling is what a webhook is given before it breaks: one that breaks in the second in
// which it comes up is another thing, and kube-proxy is later than the auditor.
const settling = 7 * time.Second

// trust writes the configuration, with a CA.
func (h hook) trust(t testing.TB, authority *ca.Authority) {
	t.Helper()
	apply(t, h.render(cmp.Or(h.register, hookConfiguration), "BUNDLE", base64.StdEncoding.EncodeToString(authority.Bundle)))
}

// certify writes the Secret of the Pods.
func (h hook) certify(t testing.TB, authority *ca.Authority, lasts time.Duration) {
	t.Helper()
	serving{namespace: h.name, secret: "tls", host: h.name + "." + h.name + ".svc", lasts: lasts}.write(t, authority)
}

// serving is a serving certificate; one that has ended lasts less than zero.
type serving struct {
	namespace, secret, host string
	lasts                   time.Duration
}

func (s serving) write(t testing.TB, authority *ca.Authority) {
	t.Helper()
	pair := testenv.Get(authority.ServingUntil(time.Now().Add(s.lasts), s.host))(t)
	encoded := base64.StdEncoding.EncodeToString
	apply(t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": {"namespace": %q, "name": %q}, "data": {"tls.crt": %q, "tls.key": %q}}`,
		s.namespace, s.secret, encoded(pair.Certificate), encoded(pair.Key)))
}

// call sends a request that the webhook is called for, and stores nothing.
func (h hook) call(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if h.resources == "pods" {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "call"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: nodes.ImageName("fixture")}}}}
		_, err := real.Kube.CoreV1().Pods(h.name+"-used").Create(ctx, pod, testenv.DryRun)
		return err
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "call-"}}
	_, err := real.Kube.CoreV1().ConfigMaps(h.name+"-used").Create(ctx, object, testenv.DryRun)
	return err
}

// refused waits until the API server refuses a call with a text, and returns all that it
// says, and after how long it refused a call at all.
func (h hook) refused(ctx context.Context, text string) (string, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	begun := time.Now()
	var answer string
	var first time.Duration
	err := real.Await(ctx, func(ctx context.Context) error {
		err := h.call(ctx)
		if err != nil && first == 0 {
			first = time.Since(begun)
		}
		if err == nil || !strings.Contains(err.Error(), text) {
			return errors.Join(fmt.Errorf("no request was refused with %q", text), err)
		}
		answer = err.Error()
		return nil
	})
	return answer, first, err
}

// admitted waits until calls pass again and returns how long that took.
func (h hook) admitted(t testing.TB) time.Duration {
	t.Helper()
	begun := time.Now()
	testenv.EventuallyWithin(t, 2*patience, func() error { return h.call(t.Context()) })
	return time.Since(begun)
}
