package install

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

const (
	home = "openshift-webhook-auditor"
	// reviews is a configuration on what the newest servers send nowhere.
	reviews = "reviews"
	// gates is where the API server shows what it sends.
	gates = "/metrics"
)

// grant is one verb on one thing that the auditor's account may do, in a
// namespace or, without one, in the whole cluster.
type grant struct {
	namespace string
	rbacv1.PolicyRule
}

func (g grant) verb() string { return g.Verbs[0] }

// thing is what is granted, as RBAC names it.
func (g grant) thing() string { return slices.Concat(g.Resources, g.NonResourceURLs)[0] }

// kind is what is granted with its group.
func (g grant) kind() string {
	if len(g.Resources) == 0 || g.APIGroups[0] == "" {
		return g.thing()
	}
	return g.thing() + "." + g.APIGroups[0]
}

func (g grant) String() string { return g.verb() + " " + g.kind() }

// refused is how the log says that the grant is missing. That of the metrics is
// missed in silence: without them the version decides whether reviews are sent to.
func (g grant) refused() *regexp.Regexp {
	if g.thing() == gates {
		return regexp.MustCompile("")
	}
	return regexp.MustCompile(regexp.QuoteMeta(g.String()+" is forbidden") + "|" +
		regexp.QuoteMeta(fmt.Sprintf(`cannot %s resource \"%s\"`, g.verb(), g.thing())))
}

// TestEachPermission takes one permission after the other away: each is needed,
// the log says which is missing, and the rest works. The API server sends
// reviews to webhooks, which only its metrics show.
func TestEachPermission(t *testing.T) {
	t.Parallel()
	w := broken(t, "--feature-gates=ExcludeAdmissionWebhookVirtualResources=false")
	h := testenv.Hook(w.Backend(t, "reviewed"), "/allow", testenv.Rule("authentication.k8s.io", "tokenreviews"))
	w.Validate(t, reviews, h)
	openShift(t, w)
	prometheusOperator(t, w)
	w.Kubectl(t, "apply", "--server-side", "-k", manifests+"overlays/openshift")
	token := scraper(t, w, "scraper")
	all := grants(t, w)
	noWildcards(t, all)
	// What is created once is missed only by those who come first.
	first := func(g grant) bool {
		applied := len(g.ResourceNames) > 0 && !strings.HasSuffix(g.thing(), "/status")
		return g.verb() == "create" && (applied || slices.Contains(g.Resources, "events")) || g.verb() == "patch" && applied
	}
	var runs []*run
	for i, without := range all {
		r := &run{name: fmt.Sprintf("lacks-%d", i), missing: without, rest: slices.Delete(slices.Clone(all), i, i+1)}
		if !first(without) {
			runs = append(runs, r)
			continue
		}
		t.Run(without.String(), func(t *testing.T) {
			for _, target := range testenv.Targets {
				w.Kubectl(t, "delete", target.Resource.Resource, target.Name, "--ignore-not-found")
			}
			w.Kubectl(t, "delete", "events", "--all", "--namespace=default")
			r.start(t, w)
			r.lacks(t, token)
		})
	}
	const together = 8 // they mostly wait
	for some := range slices.Chunk(runs, together) {
		for _, r := range some {
			r.start(t, w)
		}
		for _, r := range some {
			t.Run(r.missing.String(), func(t *testing.T) { r.lacks(t, token) })
			testenv.Must(t, r.Stop())
		}
	}
}

// run is an auditor that runs with all grants but one.
type run struct {
	*auditor
	name    string
	missing grant
	rest    []grant
}

func (r *run) start(t *testing.T, w *testenv.Env) {
	t.Helper()
	bind(t, w, r.name, r.rest)
	r.auditor = start(t, w, r.name, "--log.level=debug")
}

// grants are what the auditor's account may do.
func grants(t *testing.T, w *testenv.Env) []grant {
	t.Helper()
	var out []grant
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: home, Name: account}
	everywhere := testenv.Get(w.Kube.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{}))(t)
	for _, b := range everywhere.Items {
		if slices.Contains(b.Subjects, subject) {
			role := testenv.Get(w.Kube.RbacV1().ClusterRoles().Get(t.Context(), b.RoleRef.Name, metav1.GetOptions{}))(t)
			out = append(out, split("", role.Rules)...)
		}
	}
	somewhere := testenv.Get(w.Kube.RbacV1().RoleBindings("").List(t.Context(), metav1.ListOptions{}))(t)
	for _, b := range somewhere.Items {
		if slices.Contains(b.Subjects, subject) {
			role := testenv.Get(w.Kube.RbacV1().Roles(b.Namespace).Get(t.Context(), b.RoleRef.Name, metav1.GetOptions{}))(t)
			out = append(out, split(b.Namespace, role.Rules)...)
		}
	}
	return out
}

// split makes one grant of each verb on each thing.
func split(namespace string, rules []rbacv1.PolicyRule) []grant {
	var out []grant
	for _, r := range rules {
		for _, verb := range r.Verbs {
			for _, path := range r.NonResourceURLs {
				out = append(out, grant{namespace, rbacv1.PolicyRule{NonResourceURLs: []string{path}, Verbs: []string{verb}}})
			}
			for _, resource := range r.Resources {
				out = append(out, grant{namespace, rbacv1.PolicyRule{
					APIGroups: r.APIGroups, Resources: []string{resource}, ResourceNames: r.ResourceNames, Verbs: []string{verb},
				}})
			}
		}
	}
	return out
}

// noWildcards wants every grant to name one thing, and no Secrets.
func noWildcards(t *testing.T, all []grant) {
	t.Helper()
	if len(all) < 20 {
		t.Errorf("%d grants are found, which cannot be all", len(all))
	}
	for _, g := range all {
		if words := fmt.Sprint(g.APIGroups, g.Resources, g.NonResourceURLs, g.Verbs); strings.Contains(words, "*") || strings.Contains(words, "secrets") {
			t.Errorf("%s is granted", words)
		}
	}
}

// lacks wants the log to say which grant is missing, and the rest to work.
func (r *run) lacks(t *testing.T, token string) {
	t.Helper()
	without := r.missing
	testenv.Eventually(t, func() error {
		if without.thing() == "tokenreviews" || without.thing() == "subjectaccessreviews" {
			if _, err := r.scrape(t.Context(), token); err == nil {
				return fmt.Errorf("the scrape is not refused")
			}
		}
		if !without.refused().MatchString(r.Output()) {
			return fmt.Errorf("the log does not say that %s is missing", without)
		}
		return nil
	})
	if without.thing() != "configmaps" {
		token = "" // a certificate will do
	}
	testenv.Eventually(t, func() error {
		scrape, err := r.scrape(t.Context(), token)
		if err != nil {
			return err
		}
		return remains(scrape, without)
	})
}

// remains wants the metrics to have what can still be seen.
func remains(m metrics.Metrics, missing grant) error {
	for configuration, kind := range map[string]string{
		"validating": "validatingwebhookconfigurations.admissionregistration.k8s.io",
		"mutating":   "mutatingwebhookconfigurations.admissionregistration.k8s.io",
	} {
		if kind == missing.kind() {
			continue
		}
		if err := metrics.Present("webhook_auditor_webhook_info", metrics.Labels{"configuration": configuration})(m); err != nil {
			return err
		}
	}
	return sent(m, missing)
}

// sent wants the metrics to show whether reviews are sent to webhooks: they
// are, but who may not ask takes the version's word that they are not.
func sent(m metrics.Metrics, missing grant) error {
	check := "virtual-resource"
	switch missing.kind() {
	case "validatingwebhookconfigurations.admissionregistration.k8s.io":
		return nil
	case gates:
		check = "dead-rule"
	}
	return metrics.Present("webhook_auditor_finding", metrics.Labels{"configuration": reviews, "check": check})(m)
}

// bind makes an account of the same name in another namespace, which is the
// auditor's there, with the grants.
func bind(t *testing.T, w *testenv.Env, namespace string, all []grant) {
	t.Helper()
	w.Namespace(t, namespace)
	testenv.Get(w.Kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{}))(t)
	rules := map[string][]rbacv1.PolicyRule{}
	for _, g := range all {
		if g.namespace == home {
			g.namespace = namespace
		}
		rules[g.namespace] = append(rules[g.namespace], g.PolicyRule)
	}
	for where, rules := range rules {
		kind := "ClusterRole"
		if where != "" {
			kind = "Role"
		}
		w.Install(t, fmt.Appendf(nil, bound, kind, namespace, where, testenv.Get(json.Marshal(rules))(t), account))
	}
}

const bound = `
apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]s
metadata: {name: %[2]q, namespace: %[3]q}
rules: %[4]s
---
apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]sBinding
metadata: {name: %[2]q, namespace: %[3]q}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %[1]s, name: %[2]q}
subjects: [{kind: ServiceAccount, namespace: %[2]q, name: %[5]q}]
`
