package install

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

type way struct {
	name, namespace string
	source          []string
	prepare         func(testing.TB, *testenv.Env)
	operator        bool
	// uninstall does what people do instead of deleting what they applied.
	uninstall func(*testing.T, *testenv.Env)
}

var ways = []way{
	{
		name: "install.yaml", namespace: "webhook-auditor", source: []string{"-f", manifests + "install.yaml"},
		prepare: func(testing.TB, *testenv.Env) {},
	},
	{
		name: "overlays/kubernetes", namespace: "webhook-auditor", source: []string{"-k", manifests + "overlays/kubernetes"},
		prepare: prometheusOperator,
		uninstall: func(t *testing.T, w *testenv.Env) {
			w.Kubectl(t, "delete", "namespace", "webhook-auditor")
			forgotten(t, w)
		},
	},
	{
		name: "overlays/openshift", namespace: home, source: []string{"-k", manifests + "overlays/openshift"},
		prepare: openShift, operator: true,
	},
}

// TestInstall installs the auditor in each way, has it work, and uninstalls it,
// in one cluster.
func TestInstall(t *testing.T) {
	t.Parallel()
	w := broken(t)
	for i, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			way.prepare(t, w)
			w.Kubectl(t, "delete", "events", "--all", "--namespace=default")
			w.Kubectl(t, append([]string{"apply"}, way.source...)...)
			w.Kubectl(t, append([]string{"diff"}, way.source...)...) // fails if to apply it again would change anything
			runs(t, w, way.namespace)
			a := start(t, w, way.namespace, "--degraded.inertia=0s")
			a.works(t, w, way.namespace, fmt.Sprintf("scraper-%d", i))
			if way.operator {
				w.WaitForCondition(t, metav1.Condition{Type: "Available", Status: metav1.ConditionTrue})
			}
			if way.uninstall != nil {
				testenv.Must(t, a.Stop()) // as the kubelet would
				way.uninstall(t, w)
			}
			w.Kubectl(t, append([]string{"delete", "--ignore-not-found"}, way.source...)...)
			testenv.Must(t, a.Stop()) // in vain it tried to write since then
			leaves(t, w)
		})
	}
}

// works wants the auditor to report what is broken in all its ways, with a
// certificate of its own making as with one that is given, and never to be
// refused anything.
func (a *auditor) works(t *testing.T, w *testenv.Env, namespace, reader string) {
	t.Helper()
	token := scraper(t, w, reader)
	a.awaitFinding(t, token)
	a.serving(t)
	a.awaitFinding(t, token)
	testenv.Eventually(t, func() error { return line(t, w) })
	w.WaitForEvent(t, "validating", "Warning", "service-missing")
	a.hangsUp(t)
	testenv.Eventually(t, func() error {
		lease, err := w.Kube.CoordinationV1().Leases(namespace).Get(t.Context(), account, metav1.GetOptions{})
		if err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
			err = fmt.Errorf("the lease has no holder")
		}
		return err
	})
	log := a.Output()
	if regexp.MustCompile(`(?i)forbidden|level=(warn|error)`).MatchString(log) {
		t.Errorf("the auditor complains:\n%s", log)
	}
	for _, words := range []string{"serving with a self-signed certificate", "serving with the certificate of the files"} {
		if !strings.Contains(log, words) {
			t.Errorf("the log does not say %q:\n%s", words, log)
		}
	}
}

// hangsUp wants a connection to end that announces a body and never sends it.
func (a *auditor) hangsUp(t *testing.T) {
	t.Helper()
	connection := testenv.Get(tls.Dial("tcp", a.address, &tls.Config{InsecureSkipVerify: true}))(t)
	defer connection.Close()
	testenv.Must(t, connection.SetReadDeadline(time.Now().Add(2*testenv.MaxWait))) // its limit of 30 s and more
	testenv.Get(fmt.Fprint(connection, "GET /metrics HTTP/1.1\r\nHost: auditor\r\nContent-Length: 1000\r\n\r\n"))(t)
	if _, err := io.Copy(io.Discard, connection); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("it is held open")
	}
}

// awaitFinding waits until a scrape has what is broken.
func (a *auditor) awaitFinding(t *testing.T, token string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		scrape, err := a.scrape(t.Context(), token)
		if err != nil {
			return err
		}
		return metrics.Present("webhook_auditor_finding", metrics.Labels{"check": "service-missing", "configuration": "validating"})(scrape)
	})
}

// states are what kubectl get prints, in a short line and in a long one.
var states = map[string]*regexp.Regexp{
	"": regexp.MustCompile(`^NAME +DEGRADED +CRITICAL +WARNING +INFO +SINCE
cluster +True +2 +\d+ +\d+ +\d+s
$`),
	"--output=wide": regexp.MustCompile(`^NAME +DEGRADED +CRITICAL +WARNING +INFO +SINCE +WEBHOOKS +VERSION +REASON +MESSAGE *
cluster +True +2 +\d+ +\d+ +\d+s +2 +\S+ +MutatingAdmissionWebhookConfigurationError_WebhookServiceNotFound::ValidatingAdmissionWebhookConfigurationError_WebhookServiceNotFound +\S.*
$`),
}

// terminal is how wide the short line may be.
const terminal = 80

func line(t *testing.T, w *testenv.Env) error {
	t.Helper()
	for form, want := range states {
		args := append([]string{"get", "webhookaudit"}, strings.Fields(form)...)
		got := w.Kubectl(t, args...)
		if !want.MatchString(got) {
			return fmt.Errorf("kubectl %s:\n%s", strings.Join(args, " "), got)
		}
		for row := range strings.Lines(got) {
			if form == "" && len(row) > terminal {
				t.Errorf("%d characters, want at most %d: %s", len(row), terminal, row)
			}
		}
		t.Logf("kubectl %s:\n%s", strings.Join(args, " "), got)
	}
	return nil
}

// leaves wants nothing to be left once the auditor is uninstalled: a
// ClusterOperator that is no longer written would page for ever.
func leaves(t *testing.T, w *testenv.Env) {
	t.Helper()
	const all = "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,roles,rolebindings,deployments,services,configmaps"
	testenv.Eventually(t, func() error {
		left := w.Kubectl(t, "get", all, "--all-namespaces", "--selector=app.kubernetes.io/name=webhook-auditor", "--output=name")
		if left != "" {
			return fmt.Errorf("still there:\n%s", left)
		}
		return nil
	})
	forgotten(t, w)
}

// forgotten wants what the auditor wrote to leave with its namespace.
func forgotten(t *testing.T, w *testenv.Env) {
	t.Helper()
	for _, target := range testenv.Targets {
		testenv.EventuallyWithin(t, 3*testenv.MaxWait, func() error { // the garbage collector learns of CRDs by and by
			if _, _, err := w.Status(t.Context(), target); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s is still there: %v", target.Resource.Resource, err)
			}
			return nil
		})
	}
}
