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
		Server: server,
		Validating: []*admissionv1.ValidatingWebhookConfiguration{
			kubetest.Validating("all", kubetest.Webhook("all.example.com", admissionv1.WebhookClientConfig{URL: new("https://all.example.com")}, everything)),
		},
		ValidatingPolicies:       []*admissionv1.ValidatingAdmissionPolicy{kubetest.Policy("p", everything)},
		ValidatingPolicyBindings: []*admissionv1.ValidatingAdmissionPolicyBinding{kubetest.Binding("p")},
	}.Snapshot(time.Time{}))
}

// excludedKinds are the resources of the kinds that rules of EKS name.
var excludedKinds = map[string]string{
	"TokenRequest":               "serviceaccounts/token",
	"ServiceAccount":             "serviceaccounts",
	"Lease":                      "leases.coordination.k8s.io",
	"FlowSchema":                 "flowschemas.flowcontrol.apiserver.k8s.io",
	"PriorityLevelConfiguration": "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
	"ClusterRole":                "clusterroles.rbac.authorization.k8s.io",
	"ClusterRoleBinding":         "clusterrolebindings.rbac.authorization.k8s.io",
	"Role":                       "roles.rbac.authorization.k8s.io",
	"RoleBinding":                "rolebindings.rbac.authorization.k8s.io",
	"APIService":                 "apiservices.apiregistration.k8s.io",
	"Pod":                        "pods",
	"DaemonSet":                  "daemonsets.apps",
	"Deployment":                 "deployments.apps",
}

// asked is what becomes of the webhook and the policy on everything.
func asked(t *testing.T, m *Matcher, e inventory.Exclusion, name, user string) (webhook, policy Verdict) {
	t.Helper()
	r := must.Get(m.Request(Create, resource(t, excludedKinds[e.Kind]), Subject{Namespace: e.Namespace, Name: name, User: NewUser(user, nil)}))(t)
	c := m.Chain(r)
	for _, step := range append(c.Steps, c.Skipped...) {
		webhook = step.Verdict
	}
	for _, step := range append(c.Policies, c.SkippedPolicies...) {
		policy = step.Verdict
	}
	return webhook, policy
}

// TestEKSExclusions: each rule keeps each of its names from webhooks, and no other name,
// user or namespace.
func TestEKSExclusions(t *testing.T) {
	m := onEverything(t, "v1.33.1-eks-1fbb135")
	rules := m.Snapshot.Exclusions
	if len(rules) != 17 {
		t.Fatalf("%d rules", len(rules))
	}
	for _, e := range rules {
		wants := Maybe
		if e.Kind == "TokenRequest" {
			wants = Yes // the kind is of authentication.k8s.io, the rule of the group of Pods
		}
		for _, name := range e.Names {
			name, user := strings.ReplaceAll(name, "*", "any"), strings.ReplaceAll(e.Username, "*", "other")
			for _, got := range both(asked(t, m, e, name, user)) {
				if got.Match != wants || wants == Maybe && !strings.Contains(got.Detail, "probably skipped by EKS") {
					t.Errorf("%s %s of %s: %+v", e.Kind, name, user, got)
				}
			}
		}
		elsewhere := e
		elsewhere.Namespace = strings.ReplaceAll(e.Namespace, "kube-", "other-")
		for _, other := range []struct {
			inventory.Exclusion
			name, user string
			differs    bool
		}{
			{e, "other", e.Username, e.Names[0] != inventory.Any},
			{e, e.Names[0], "other", e.Username != inventory.Any},
			{elsewhere, e.Names[0], e.Username, e.Scope == inventory.NamespaceScope},
		} {
			if !other.differs {
				continue
			}
			for _, got := range both(asked(t, m, other.Exclusion, other.name, other.user)) {
				if got.Match != Yes {
					t.Errorf("%s %s of %s in %s: %+v", e.Kind, other.name, other.user, other.Namespace, got)
				}
			}
		}
	}
}

func both(a, b Verdict) []Verdict { return []Verdict{a, b} }

// TestExclusions: what is not known of a request is in the reason, other platforms have no rules,
// and before 1.33 there are none for policies.
func TestExclusions(t *testing.T) {
	const skipped, ofOne = "maybe: exclusionRules: probably skipped by EKS, as EKS Anywhere's exclusion rules do", "maybe: exclusionRules: requests to kube-controller-manager, kube-scheduler, cilium-operator-resource-lock, cert-manager-controller, cert-manager-cainjector-leader-election are probably skipped by EKS, as EKS Anywhere's exclusion rules do"
	lease := inventory.Exclusion{Kind: "Lease", Namespace: "kube-system"}
	for _, test := range []struct {
		about, version, name, user string
		webhook, policy            string
	}{
		{"all is known", "v1.33.0-eks-1", "kube-scheduler", "system:kube-scheduler", skipped, skipped},
		{"webhooks alone", "v1.32.0-eks-1", "kube-scheduler", "system:kube-scheduler", skipped, "yes"},
		{"the name", "v1.33.0-eks-1", "", "system:kube-scheduler", ofOne, ofOne},
		{"another platform", "v1.33.0", "kube-scheduler", "system:kube-scheduler", "yes", "yes"},
	} {
		webhook, policy := asked(t, onEverything(t, test.version), lease, test.name, test.user)
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
