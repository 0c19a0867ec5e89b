package install

import (
	"fmt"
	"regexp"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/world"
)

func TestInstall(t *testing.T) {
	for _, test := range []struct {
		name, namespace string
		from            []string
		prepare         func(testing.TB, *world.World)
		operator        bool
	}{
		{"install.yaml", "webhook-auditor", []string{"-f", manifests + "install.yaml"}, func(testing.TB, *world.World) {}, false},
		{"overlays/kubernetes", "webhook-auditor", []string{"-k", manifests + "overlays/kubernetes"}, prometheusOperator, false},
		{"overlays/openshift", "openshift-webhook-auditor", []string{"-k", manifests + "overlays/openshift"}, func(t testing.TB, w *world.World) {
			openShift(t, w)
			prometheusOperator(t, w)
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := broken(t)
			test.prepare(t, w)
			kubectl(t, w, append([]string{"apply"}, test.from...)...)
			kubectl(t, w, append([]string{"diff"}, test.from...)...) // fails if to apply it again would change anything
			runs(t, w, test.namespace)
			works(t, w, test.namespace)
			if test.operator {
				w.Reaches(t, metav1.Condition{Type: "Available", Status: metav1.ConditionTrue})
			}
			kubectl(t, w, append([]string{"delete"}, test.from...)...)
			leaves(t, w)
		})
	}
}

// works runs the auditor as it is installed, and wants it to tell what is
// broken in all its ways, and never to be refused anything.
func works(t *testing.T, w *world.World, namespace string) {
	t.Helper()
	a := start(t, w, namespace, "--degraded.inertia=0s")
	token := scraper(t, w, "scraper")
	world.Eventually(t, world.Patience, func() error {
		scrape, err := a.scrape(t.Context(), token)
		if err != nil {
			return err
		}
		return metrics.Present("webhook_auditor_finding", metrics.Labels{"check": "service-missing", "configuration": "validating"})(scrape)
	})
	world.Eventually(t, world.Patience, func() error { return line(t, w) })
	w.Announced(t, "validating", "Warning", "service-missing")
	world.Eventually(t, world.Patience, func() error {
		lease, err := w.Kube.CoordinationV1().Leases(namespace).Get(t.Context(), account, metav1.GetOptions{})
		if err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
			err = fmt.Errorf("nobody holds the lease")
		}
		return err
	})
	world.Must(t, a.Stop())
	if log := a.Output(); regexp.MustCompile(`(?i)forbidden|level=(warn|error)`).MatchString(log) {
		t.Errorf("the auditor complains:\n%s", log)
	}
}

// state is what kubectl get tells in a line.
var state = regexp.MustCompile(`^NAME +DEGRADED +REASON +CRITICAL +WARNING +INFO +SINCE
cluster +True +MutatingAdmissionWebhookConfigurationError_WebhookServiceNotFound::ValidatingAdmissionWebhookConfigurationError_WebhookServiceNotFound +2 +\d+ +\d+ +\d+s
$`)

func line(t *testing.T, w *world.World) error {
	t.Helper()
	if got := kubectl(t, w, "get", "webhookaudit"); !state.MatchString(got) {
		return fmt.Errorf("kubectl get webhookaudit:\n%s", got)
	}
	return nil
}

// leaves wants nothing to be left once the auditor is uninstalled: a
// ClusterOperator that nobody writes to would page for ever.
func leaves(t *testing.T, w *world.World) {
	t.Helper()
	const all = "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,roles,rolebindings,deployments,services,configmaps"
	world.Eventually(t, world.Patience, func() error {
		left := kubectl(t, w, "get", all, "--all-namespaces", "--selector=app.kubernetes.io/name=webhook-auditor", "--output=name")
		if left != "" {
			return fmt.Errorf("still there:\n%s", left)
		}
		for _, target := range world.Targets {
			if _, _, err := w.Status(t.Context(), target); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s is still there: %v", target.Resource.Resource, err)
			}
		}
		return nil
	})
}
