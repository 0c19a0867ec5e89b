package classify

import (
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// TestVirtualDecisions: every resource of the class says what it decides, and
// nothing else does.
func TestVirtualDecisions(t *testing.T) {
	var want, got []inventory.Resource
	want = slices.Clone(defaultClasses()[ClassVirtual])
	for _, d := range virtualDecisions {
		got = append(got, d.resource)
	}
	slices.SortFunc(want, inventory.Resource.Compare)
	slices.SortFunc(got, inventory.Resource.Compare)
	expect.Equal(t, want, got) // the class, and what is decided
}

// TestVirtualMessages: only what the scheduler writes stops it in the message, and
// only what the Policy adds has no such sentence.
func TestVirtualMessages(t *testing.T) {
	bindings := decidedBy([]inventory.Resource{legacyBindings}, true)
	if strings.Contains(bindings, "no new Pod") || !strings.Contains(bindings, "kube-scheduler does not use") {
		t.Errorf("bindings: %s", bindings)
	}
	both := []inventory.Resource{legacyBindings, placement}
	if got := decidedBy(both, true); !strings.HasPrefix(got, "pods/binding: ") || !strings.Contains(got, "no new Pod") {
		t.Errorf("pods/binding, refused: %s", got)
	}
	if got := decidedBy(both, false); strings.Contains(got, "no new Pod") {
		t.Errorf("pods/binding, delayed: %s", got)
	}
	expect.Equal(t, "pods/eviction", decidedBy([]inventory.Resource{{Name: "pods", Subresource: "eviction"}}, true)) // of the Policy
	if got := decidedBy(defaultClasses()[ClassVirtual], true); strings.Count(got, ";") != maxListed || !strings.HasSuffix(got, "and 13 more") {
		t.Errorf("all: %s", got)
	}
}

// TestRequestsTo: excluding pods/binding must not exclude
// Pods; a resource that is excluded takes its subresources along.
func TestRequestsTo(t *testing.T) {
	pods, binding := inventory.Resource{Name: "pods"}, inventory.Resource{Name: "pods", Subresource: "binding"}
	for _, test := range []struct {
		exclude, left, gone []inventory.Resource
	}{
		{[]inventory.Resource{binding}, []inventory.Resource{pods, {Name: "pods", Subresource: "status"}, {Name: "services"}}, []inventory.Resource{binding}},
		{[]inventory.Resource{pods, binding}, []inventory.Resource{{Name: "services"}}, []inventory.Resource{pods, binding, {Name: "pods", Subresource: "status"}}},
		{[]inventory.Resource{legacyBindings, binding}, []inventory.Resource{pods}, []inventory.Resource{legacyBindings, binding}},
	} {
		s := files(t, registering(`{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: ["*/*"]}`)+
			"  matchConditions: [{name: exclude, expression: '!("+requestsTo(test.exclude)+")'}]\n")
		matched := resourceNames(admission.New(s).MatchedResources(s.Webhooks[0]))
		for _, r := range test.left {
			if !slices.Contains(matched, r) {
				t.Errorf("%s excludes %s", requestsTo(test.exclude), r)
			}
		}
		for _, r := range test.gone {
			if slices.Contains(matched, r) {
				t.Errorf("%s does not exclude %s", requestsTo(test.exclude), r)
			}
		}
	}
}

// registering is a configuration whose only webhook has the rule; more fields of
// the webhook may follow.
func registering(rule string) string {
	return `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: one}
webhooks:
- name: one.example.com
  clientConfig: {url: "https://hooks.example.com/"}
  rules: [` + rule + `]
  sideEffects: None
  admissionReviewVersions: [v1]
`
}
