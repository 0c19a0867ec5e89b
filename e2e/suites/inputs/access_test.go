package inputs

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// TestKubeconfigThatPointsNowhere wants the reason on one line, and nothing
// that looks like a report.
func TestKubeconfigThatPointsNowhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	testenv.Must(t, os.WriteFile(broken, []byte("{{{"), 0o600))
	closed := filepath.Join(dir, "closed")
	testenv.Must(t, cluster.WriteKubeconfig(closed, &rest.Config{Host: "https://127.0.0.1:1"}))
	for _, test := range []struct{ name, kubeconfig, want string }{
		{"no such file", filepath.Join(dir, "missing"), filepath.Join(dir, "missing") + ": no such file"},
		{"not YAML", broken, broken},
		{"connection refused", closed, "connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := testenv.Command(t, "audit", "--kubeconfig="+test.kubeconfig)
			if got.Code != 1 || got.Stdout != "" || !strings.Contains(got.Stderr, test.want) || strings.Count(got.Stderr, "\n") != 1 {
				t.Errorf("want one line with %q and exit code 1, have %+v", test.want, got)
			}
		})
	}
}

// TestMissingPermission takes one permission after the other away: the rest is
// reported, and the error says who lacks what.
func TestMissingPermission(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	b := w.Backend(t, "access")
	testenv.Must(t, b.DeleteService(t.Context()))
	h := testenv.Hook(b, "/allow/access", testenv.Rule("", "configmaps"))
	w.Validate(t, "access-validating", h)
	w.Mutate(t, "access-mutating", testenv.Mutating(h))
	crd := w.Widgets(t, "access.example.com", b.Conversion("/convert/access"))
	for resource, hides := range map[string]string{
		"validatingwebhookconfigurations.admissionregistration.k8s.io": "access-validating",
		"mutatingwebhookconfigurations.admissionregistration.k8s.io":   "access-mutating",
		"validatingadmissionpolicies.admissionregistration.k8s.io":     "",
		"mutatingadmissionpolicybindings.admissionregistration.k8s.io": "",
		"customresourcedefinitions.apiextensions.k8s.io":               crd,
		"apiservices.apiregistration.k8s.io":                           "",
		"namespaces":                                                   "",
		"services":                                                     "",
		"endpointslices.discovery.k8s.io":                              "",
		"pods":                                                         "",
	} {
		t.Run(resource, func(t *testing.T) {
			user := "without-" + resource
			d, got := testenv.Report(t, "--kubeconfig="+w.user(t, user, w.permissions(t, resource)))
			if got.Code != 1 || len(d.Errors) != 1 || !testenv.ContainsAll(d.Errors[0].Message, "list "+resource+" is forbidden", user) {
				t.Errorf("want one error about the verb list on %s, and exit code 1: %+v", resource, got)
			}
			if !testenv.ContainsAll(got.Stderr, "list "+resource+" is forbidden", user) {
				t.Errorf("stderr lacks the reason: %q", got.Stderr)
			}
			for _, configuration := range []string{"access-validating", "access-mutating", crd} {
				if seen, want := d.HasWebhookOf(configuration), configuration != hides; seen != want {
					t.Errorf("%s is in the report: %t, want %t", configuration, seen, want)
				}
				if found, want := d.HasFinding("service-missing", configuration), configuration != hides && resource != "services"; found != want {
					t.Errorf("service-missing reports %s: %t, want %t", configuration, found, want)
				}
			}
		})
	}
}

// TestPermissionIsGrantedLater runs the auditor without a permission it needs:
// it says so, works with what it may see, and takes the rest in once it may.
func TestPermissionIsGrantedLater(t *testing.T) {
	t.Parallel()
	const resource, user = "endpointslices.discovery.k8s.io", "late"
	w := environment{stock.Use(t)}
	missing, empty := w.Backend(t, "access-missing"), w.Backend(t, "access-empty")
	testenv.Must(t, missing.DeleteService(t.Context()))
	testenv.Must(t, empty.DeleteEndpoints(t.Context()))
	for _, b := range []webhook.Backend{missing, empty} {
		w.Validate(t, b.Namespace, testenv.Hook(b, "/allow/access", testenv.Rule("", "configmaps")))
	}
	a := testenv.RunAs(t, w.user(t, user, w.permissions(t, resource)))
	scraper := testenv.NewScraper(t, a)
	scraper.AwaitFinding("service-missing", "critical", testenv.Identity("validating", missing.Namespace, missing.Namespace+".e2e.example.com"))
	labels := testenv.Identity("validating", empty.Namespace, empty.Namespace+".e2e.example.com")
	scraper.Await("unknown is not ready nor unready", metrics.Absent(testenv.BackendReady, labels))
	if output := a.Output(); !testenv.ContainsAll(output, "list "+resource+" is forbidden", user) {
		t.Errorf("the log does not say what is missing:\n%s", output)
	}
	testenv.Must(t, w.setPermissions(t.Context(), user, w.permissions(t)))
	scraper.AwaitFinding("no-ready-endpoints", "critical", labels)
}

// permissions let a user list and watch whatever is served, but for the given
// resources.
func (w environment) permissions(t *testing.T, without ...string) []rbacv1.PolicyRule {
	t.Helper()
	lists, err := discovery.ServerPreferredResources(w.Kube.Discovery())
	testenv.Must(t, err)
	rules := []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}
	for _, list := range lists {
		group, _, grouped := strings.Cut(list.GroupVersion, "/")
		if !grouped {
			group = ""
		}
		for _, r := range list.APIResources {
			if !slices.Contains(without, strings.TrimSuffix(r.Name+"."+group, ".")) {
				rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{r.Name}, Verbs: []string{"list", "watch"}})
			}
		}
	}
	return rules
}

// user writes a kubeconfig for a user who may do what the rules grant.
func (w environment) user(t *testing.T, name string, rules []rbacv1.PolicyRule) string {
	t.Helper()
	roles := w.Kube.RbacV1().ClusterRoles()
	_, err := roles.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Gone(t, roles.Delete(context.Background(), name, metav1.DeleteOptions{})) })
	bindings := w.Kube.RbacV1().ClusterRoleBindings()
	_, err = bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}, metav1.CreateOptions{})
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Gone(t, bindings.Delete(context.Background(), name, metav1.DeleteOptions{})) })
	config, err := w.Plane.As(name)
	testenv.Must(t, err)
	client, err := kubernetes.NewForConfig(config)
	testenv.Must(t, err)
	testenv.Eventually(t, func() error { // the API server takes some time to read roles
		_, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		return err
	})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	testenv.Must(t, cluster.WriteKubeconfig(path, config))
	return path
}

// setPermissions changes what a user may do.
func (w environment) setPermissions(ctx context.Context, name string, rules []rbacv1.PolicyRule) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	_, err := w.Kube.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
	return err
}
