package arguments

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// withWidgets is the Matcher of a stock API server that also serves a CRD.
func withWidgets() *admission.Matcher {
	crd := kubetest.CRD("example.com", "widgets", "v1")
	crd.Spec.Names.ShortNames = []string{"wd"}
	return admission.New(inventory.Objects{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}}.Snapshot(time.Time{}))
}

func TestTypedRequest(t *testing.T) {
	for _, test := range []struct{ operation, resource, want, note string }{
		{"create", "pods", "CREATE v1 pods", ""},
		{"CREATE", "pod", "CREATE v1 pods", ""},
		{"patch", "deploy", "UPDATE v1 deployments.apps", "where the object does not exist, and the client may create it, a server-side apply of deployments.apps is a CREATE"},
		{"update", "Deployment", "UPDATE v1 deployments.apps", ""},
		{"update", "deployments.apps/scale", "UPDATE v1 deployments.apps/scale", ""},
		{"delete", "hpa", "DELETE v2 horizontalpodautoscalers.autoscaling", ""},
		{"create", "pods/exec", "CONNECT v1 pods/exec", "admission sees every request to pods/exec as CONNECT"},
		{"get", "pods/exec", "CONNECT v1 pods/exec", "admission sees every request to pods/exec as CONNECT"},
		{"connect", "nodes/proxy", "CONNECT v1 nodes/proxy", ""},
		{"create", "events", "CREATE v1 events", "events is taken to be events; there is also events.events.k8s.io"},
		{"create", "wd", "CREATE v1 widgets.example.com", ""},
		{"create", "Widget", "CREATE v1 widgets.example.com", ""},
	} {
		r, err := Request(withWidgets(), test.operation, test.resource, admission.Subject{})
		if err != nil {
			t.Errorf("%s %s: %v", test.operation, test.resource, err)
			continue
		}
		if got := fmt.Sprintf("%s %s %s", r.Operation, r.Version, r.Resource); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.operation, test.resource, got, test.want)
		}
		if got := strings.Join(r.Notes, "; "); got != test.note {
			t.Errorf("%s %s: note %q, want %q", test.operation, test.resource, got, test.note)
		}
	}
}

func TestTypedRequestErrors(t *testing.T) {
	for _, test := range []struct{ operation, resource, want string }{
		{"create", "podz", "did you mean pods"},
		{"create", "deployment.extensions", "did you mean deployments.apps"},
		{"create", "pods/exce", "did you mean pods/attach"},
		{"create", "quux", `reading resource "quux": no CRD of it is in the input, and no rule names it`},
		{"get", "pods", "no webhook is ever called for reading"},
		{"make", "pods", "must be one of create, update, patch, apply, scale, delete, connect"},
		{"connect", "pods", "it takes create, update, delete"},
		{"delete", "pods/status", "it takes update"},
		{"update", "tokenreviews", "it takes create"},
	} {
		_, err := Request(withWidgets(), test.operation, test.resource, admission.Subject{})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: %v, want %q", test.operation, test.resource, err, test.want)
		}
	}
}
