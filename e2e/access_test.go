package e2e

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

	"github.com/webhook-auditor/webhook-auditor/e2e/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/webhook"
)

// TestKubeconfigThatPointsNowhere wants the reason on one line, and nothing
// that looks like a report.
func TestKubeconfigThatPointsNowhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	must(t, os.WriteFile(broken, []byte("{{{"), 0o600))
	closed := filepath.Join(dir, "closed")
	must(t, cluster.WriteKubeconfig(closed, &rest.Config{Host: "https://127.0.0.1:1"}))
	for _, test := range []struct{ name, kubeconfig, want string }{
		{"no such file", filepath.Join(dir, "missing"), filepath.Join(dir, "missing") + ": no such file"},
		{"not YAML", broken, broken},
		{"nobody listens", closed, "connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := command(t, "audit", "--kubeconfig="+test.kubeconfig)
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
	w := use(t, stock)
	b := w.backend(t, "access")
	must(t, b.DeleteService(t.Context()))
	h := hook(b, "/allow/access", rule("", "configmaps"))
	w.validate(t, "access-validating", h)
	w.mutate(t, "access-mutating", mutating(h))
	crd := w.widgets(t, "access.example.com", b.Conversion("/convert/access"))
	for resource, hides := range map[string]string{
		"validatingwebhookconfigurations.admissionregistration.k8s.io": "access-validating",
		"mutatingwebhookconfigurations.admissionregistration.k8s.io":   "access-mutating",
		"customresourcedefinitions.apiextensions.k8s.io":               crd,
		"apiservices.apiregistration.k8s.io":                           "",
		"namespaces":                                                   "",
		"services":                                                     "",
		"endpointslices.discovery.k8s.io":                              "",
		"pods":                                                         "",
	} {
		t.Run(resource, func(t *testing.T) {
			user := "without-" + resource
			d, got := report(t, "--kubeconfig="+w.user(t, user, w.permissions(t, resource)))
			if got.Code != 1 || len(d.Errors) != 1 || !contains(d.Errors[0].Message, "list "+resource+" is forbidden", user) {
				t.Errorf("want one error about the verb list on %s, and exit code 1: %+v", resource, got)
			}
			if !contains(got.Stderr, "list "+resource+" is forbidden", user) {
				t.Errorf("stderr does not tell: %q", got.Stderr)
			}
			for _, configuration := range []string{"access-validating", "access-mutating", crd} {
				if seen, want := d.knows(configuration), configuration != hides; seen != want {
					t.Errorf("%s is in the report: %t, want %t", configuration, seen, want)
				}
				if found, want := d.finds("service-missing", configuration), configuration != hides && resource != "services"; found != want {
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
	w := use(t, stock)
	missing, empty := w.backend(t, "access-missing"), w.backend(t, "access-empty")
	must(t, missing.DeleteService(t.Context()))
	must(t, empty.DeleteEndpoints(t.Context()))
	for _, b := range []webhook.Backend{missing, empty} {
		w.validate(t, b.Namespace, hook(b, "/allow/access", rule("", "configmaps")))
	}
	path, err := binary()
	must(t, err)
	a, err := auditor.Start(t.Context(), auditor.Options{Binary: path, Kubeconfig: w.user(t, user, w.permissions(t, resource))})
	must(t, err)
	t.Cleanup(func() { must(t, a.Stop()) })
	watcher := watcher{a, t}
	watcher.finds("service-missing", "critical", identity("validating", missing.Namespace, missing.Namespace+".e2e.example.com"))
	labels := identity("validating", empty.Namespace, empty.Namespace+".e2e.example.com")
	watcher.sees("unknown is not ready nor unready", metrics.Absent(backendReady, labels))
	if output := a.Output(); !contains(output, "list "+resource+" is forbidden", user) {
		t.Errorf("the log does not tell what is missing:\n%s", output)
	}
	must(t, w.setPermissions(t.Context(), user, w.permissions(t)))
	watcher.finds("no-ready-endpoints", "critical", labels)
}

// permissions let somebody list and watch whatever is served, but for the given
// resources.
func (w *world) permissions(t *testing.T, without ...string) []rbacv1.PolicyRule {
	t.Helper()
	lists, err := discovery.ServerPreferredResources(w.kube.Discovery())
	must(t, err)
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

// user writes a kubeconfig for somebody who may do what the rules say.
func (w *world) user(t *testing.T, name string, rules []rbacv1.PolicyRule) string {
	t.Helper()
	roles := w.kube.RbacV1().ClusterRoles()
	_, err := roles.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { gone(t, roles.Delete(context.Background(), name, metav1.DeleteOptions{})) })
	bindings := w.kube.RbacV1().ClusterRoleBindings()
	_, err = bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { gone(t, bindings.Delete(context.Background(), name, metav1.DeleteOptions{})) })
	config, err := w.plane.As(name)
	must(t, err)
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	eventually(t, func() error { // the API server takes roles in a moment later
		_, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		return err
	})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, cluster.WriteKubeconfig(path, config))
	return path
}

// setPermissions changes what a user may do.
func (w *world) setPermissions(ctx context.Context, name string, rules []rbacv1.PolicyRule) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	_, err := w.kube.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
	return err
}
