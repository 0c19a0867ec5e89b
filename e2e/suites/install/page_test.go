package install

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// TestPageOnOpenShift applies the status page of OpenShift as an API server with
// OpenShift's definitions takes it, and runs the auditor in it with its grants:
// the page shows what is broken, and nothing is refused or written.
func TestPageOnOpenShift(t *testing.T) {
	t.Parallel()
	w := broken(t)
	openShift(t, w)
	for _, path := range []string{"route/v1/zz_generated.crd-manifests/routes.crd.yaml", "console/v1/zz_generated.crd-manifests/00_consolelinks.crd.yaml"} {
		w.Install(t, testenv.OpenShift(t, path))
	}
	w.Namespace(t, home)
	const page = "webhook-auditor-page"
	w.Kubectl(t, "apply", "--server-side", "--validate=strict", "-k", manifests+"parts/openshift-page")
	made := testenv.Get(w.Kube.AppsV1().Deployments(home).Get(t.Context(), page, metav1.GetOptions{}))(t)
	args := made.Spec.Template.Spec.Containers[0].Args
	if !slices.Contains(args, "--web.listen-address=127.0.0.1:8080") || slices.Contains(args, "--leader-elect") {
		t.Errorf("the auditor runs with %q: want it on loopback, and writing nothing", args)
	}
	config := testenv.Get(w.Plane.As("system:serviceaccount:"+home+":"+page, "system:serviceaccounts", "system:authenticated"))(t)
	a := testenv.RunAs(t, testenv.Kubeconfig(t, config))
	testenv.Eventually(t, func() error {
		text, err := a.Page(t.Context(), "/webhooks/validating/validating/backend.e2e.example.com")
		if err == nil && !strings.Contains(text, "service-missing") {
			err = fmt.Errorf("the page lacks the finding:\n%s", text)
		}
		return err
	})
	if regexp.MustCompile(`(?i)forbidden|level=(warn|error)`).MatchString(a.Output()) {
		t.Errorf("the auditor complains:\n%s", a.Output())
	}
}
