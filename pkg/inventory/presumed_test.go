package inventory_test

import (
	"reflect"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestPresumed: files need not show what rules name, but the product of the groups and the
// resources of a rule is not all served.
func TestPresumed(t *testing.T) {
	for _, c := range []struct {
		name              string
		groups, resources []string
		crds              []string // resource, group
		presumed          []string
	}{
		{"no CRD of the group", []string{"a.io"}, []string{"widgets"}, nil, []string{"widgets.a.io"}},
		{"another one of the group", []string{"a.io"}, []string{"widgets"}, []string{"gadgets"}, []string{"widgets.a.io"}},
		{"both groups in part", []string{"a.io", "b.io"}, []string{"gadgets", "jets", "widgets"}, []string{"gadgets", "jets"}, []string{"widgets.a.io", "widgets.b.io"}},
		{"beside a built-in group", []string{"", "a.io"}, []string{"pods", "widgets/status"}, []string{"gadgets"}, []string{"widgets.a.io", "widgets.a.io/status"}},
		{"a group of which nothing is shown", []string{"", "c.io"}, []string{"pods"}, []string{"gadgets"}, []string{"pods.c.io"}},
	} {
		rule := kubetest.Rule("", "")
		rule.Rule = admissionv1.Rule{APIGroups: c.groups, APIVersions: []string{"v1"}, Resources: c.resources}
		var crds []*apiextensionsv1.CustomResourceDefinition
		for i, plural := range c.crds {
			crds = append(crds, kubetest.CRD([]string{"a.io", "b.io"}[i], plural, "v1"))
		}
		objects := inventory.Objects{CRDs: crds, Validating: []*admissionv1.ValidatingWebhookConfiguration{
			kubetest.Validating("c", kubetest.Webhook("w.c.io", kubetest.Client("n", "s"), rule)),
		}}
		var presumed []string
		for _, served := range objects.Snapshot(time.Time{}).Served {
			if served.Presumed() {
				presumed = append(presumed, served.String())
			}
		}
		if !reflect.DeepEqual(presumed, c.presumed) {
			t.Errorf("%s: %v is presumed, want %v", c.name, presumed, c.presumed)
		}
	}
}
