package observe

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// TestCallRights: the answer to a user who lacks a right names it, and has the rest all the same.
func TestCallRights(t *testing.T) {
	t.Parallel()
	w := environment{testenv.New(t, cluster.Options{WithoutControllers: true})}
	w.Install(t, testenv.Get(os.ReadFile("testdata/boxes.yaml"))(t))
	b := w.Backend(t, "call-rights")
	w.reachable(t, b)
	hook := testenv.Mutating(testenv.Hook(b, "/rights", testenv.Rule("*", "*")))
	hook.NamespaceSelector = metav1.SetAsLabelSelector(map[string]string{corev1.LabelMetadataName: b.Namespace})
	w.Mutate(t, "rights", hook)
	w.Hooks.Behave("/rights", webhook.Behaviour{Patch: `[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}]`})
	testenv.Eventually(t, func() error {
		object, err := w.CreateConfigMap(t, b.Namespace)
		if err == nil && object.Annotations["a"] != "b" {
			err = os.ErrNotExist
		}
		return err
	})
	const box, configMap = `{"apiVersion":"call.example.com/v1","kind":"Box","metadata":{"name":"called","namespace":"call-rights"},"spec":{"unknown":1}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"called","namespace":"call-rights"},"data":{"a":"b"}}`
	rights := map[string]rbacv1.PolicyRule{
		"registrations": {APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"list"}},
		"core":          {APIGroups: []string{""}, Resources: []string{"namespaces", "pods", "services", "nodes"}, Verbs: []string{"get", "list"}},
		"others":        {APIGroups: []string{"apps", "networking.k8s.io", "discovery.k8s.io", "policy", "apiregistration.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"list"}},
		"proxy":         {APIGroups: []string{""}, Resources: []string{"services/proxy"}, Verbs: []string{"create"}},
		"crds":          {APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get", "list"}},
		"create":        {APIGroups: []string{"", "call.example.com"}, Resources: []string{"configmaps", "boxes"}, Verbs: []string{"create", "patch", "delete"}},
		"get":           {APIGroups: []string{"", "call.example.com"}, Resources: []string{"configmaps", "boxes"}, Verbs: []string{"get"}},
	}
	for title, c := range map[string]struct {
		lacks, operation, object string
		code                     int
		want                     []string
	}{
		"all":                       {"", "create", box, 0, []string{"ms call-rights.e2e.example.com", "allowed", "add /metadata/annotations", "201 let pass"}},
		"the schema":                {"crds", "create", box, 1, []string{"add /metadata/annotations", "201 let pass", `not checked: the defaults of boxes.call.example.com, and the fields that the API server drops`, `cannot get resource "customresourcedefinitions"`}},
		"no schema of a ConfigMap":  {"crds", "create", configMap, 1, []string{"add /metadata/annotations", "201 let pass"}},
		"the proxy":                 {"proxy", "create", configMap, 0, []string{"not called", "needs create on services/proxy", "201 let pass"}},
		"the creation":              {"create", "create", configMap, 0, []string{"add /metadata/annotations", "403", `cannot create resource "configmaps"`}},
		"the proxy and the apply":   {"proxy create", "apply", configMap, 0, []string{"needs create on services/proxy", "403", `cannot patch resource "configmaps"`}},
		"the object of an update":   {"get", "update", configMap, 1, []string{"reading the object", `cannot get resource "configmaps"`}},
		"a name":                    {"", "update", strings.Replace(configMap, `"name"`, `"generateName"`, 1), 2, []string{"--call: the object must have a name to update"}},
		"the registrations":         {"registrations", "create", configMap, 1, []string{"not all mutatingwebhookconfigurations, validatingwebhookconfigurations and admission policies were read", "cannot read", "201 let pass"}},
		"the namespaces":            {"core", "create", configMap, 1, []string{"cannot read namespaces", "201 let pass"}},
		"the creation, of a schema": {"create crds", "create", box, 1, []string{"add /metadata/annotations", `cannot create resource "boxes"`, `cannot get resource "customresourcedefinitions"`}},
	} {
		user := strings.NewReplacer(" ", "-", ",", "").Replace(title)
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}}
		for name, rule := range rights {
			if !strings.Contains(" "+c.lacks+" ", " "+name+" ") {
				role.Rules = append(role.Rules, rule)
			}
		}
		testenv.Get(w.Kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}))(t)
		testenv.Get(w.Kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: user}, Subjects: []rbacv1.Subject{{Kind: "User", Name: user}},
		}, metav1.CreateOptions{}))(t)
		var printed auditor.Result
		testenv.Eventually(t, func() (err error) { // the API server knows the roles
			w.Hooks.Forget()
			printed, err = auditor.Piped(t.Context(), strings.NewReader(c.object), testenv.Binary(t), "explain", c.operation, "-f", "-", "--call", "--as", user, "--as-group", "a", "--kubeconfig", w.Plane.Kubeconfig())
			if err == nil && strings.Contains(printed.Stdout+printed.Stderr, "RBAC: clusterrole") {
				err = os.ErrNotExist
			}
			return err
		})
		if text := printed.Stdout + printed.Stderr; printed.Code != c.code || !testenv.ContainsAll(text, c.want...) {
			t.Errorf("%s: exit code %d, want %d with %q:\n%s", title, printed.Code, c.code, c.want, text)
		}
		_, unequal := w.unequalReviews(t, false, false)
		if c.lacks == "" && len(unequal) > 0 {
			t.Errorf("%s: %v", title, unequal)
		}
	}
}
