package admission

import (
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// onEverything is a webhook and a policy for every request, on a server of the version.
func onEverything(t *testing.T, version string) *Matcher {
	t.Helper()
	server := must.Get(inventory.ParseVersion(version))(t)
	everything := kubetest.Rule("*", "*/*")
	return New(inventory.Objects{
		Cluster: inventory.Cluster{Server: server},
		Validating: []*admissionv1.ValidatingWebhookConfiguration{
			kubetest.Validating("all", kubetest.Webhook("all.example.com", admissionv1.WebhookClientConfig{URL: new("https://all.example.com")}, everything)),
		},
		ValidatingPolicies:       []*admissionv1.ValidatingAdmissionPolicy{kubetest.Policy("p", everything)},
		ValidatingPolicyBindings: []*admissionv1.ValidatingAdmissionPolicyBinding{kubetest.Binding("p")},
	}.Snapshot(time.Time{}))
}

// asked is what becomes of the webhook and the policy on everything, for a Lease.
func asked(t *testing.T, m *Matcher, lease Subject) (webhook, policy Verdict) {
	t.Helper()
	r := must.Get(m.Request(Create, resource(t, "leases.coordination.k8s.io"), lease))(t)
	c := m.Chain(r)
	for _, step := range append(c.Steps, c.Skipped...) {
		webhook = step.Verdict
	}
	for _, step := range append(c.Policies, c.SkippedPolicies...) {
		policy = step.Verdict
	}
	return webhook, policy
}

// TestExclusions: a rule is for its names, users and namespace; what is not known of a
// request is in the reason, other platforms have no rules, and before 1.33 there are none
// for policies.
func TestExclusions(t *testing.T) {
	const skipped, ofOne = "maybe: exclusionRules: probably skipped by EKS, as EKS Anywhere's exclusion rules do", "maybe: exclusionRules: by some names or users probably skipped by EKS, as EKS Anywhere's exclusion rules do"
	const scheduler = "system:kube-scheduler"
	for _, test := range []struct {
		about, version, namespace, name, user string
		webhook, policy                       string
	}{
		{"all is known", "v1.33.0-eks-1", "kube-system", "kube-scheduler", scheduler, skipped, skipped},
		{"webhooks alone", "v1.32.0-eks-1", "kube-system", "kube-scheduler", scheduler, skipped, "yes"},
		{"the name", "v1.33.0-eks-1", "kube-system", "", scheduler, ofOne, ofOne},
		{"another name", "v1.33.0-eks-1", "kube-system", "other", scheduler, "yes", "yes"},
		{"another namespace", "v1.33.0-eks-1", "shop", "kube-scheduler", scheduler, "yes", "yes"},
		{"another platform", "v1.33.0", "kube-system", "kube-scheduler", scheduler, "yes", "yes"},
	} {
		webhook, policy := asked(t, onEverything(t, test.version), Subject{Namespace: test.namespace, Name: test.name, User: NewUser(test.user, nil)})
		if got := wordsOf(webhook); got != test.webhook {
			t.Errorf("%s: the webhook %s, want %s", test.about, got, test.webhook)
		}
		if got := wordsOf(policy); got != test.policy {
			t.Errorf("%s: the policy %s, want %s", test.about, got, test.policy)
		}
	}
}

func wordsOf(v Verdict) string {
	out := []string{string(v.Match)}
	for _, s := range []string{string(v.Reason), v.Detail} {
		if s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, ": ")
}
