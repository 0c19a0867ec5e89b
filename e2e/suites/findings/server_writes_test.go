package findings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// bootstrapped is where etcd keeps what an API server writes at its start.
var bootstrapped = []string{
	"apiregistration.k8s.io/", "clusterroles/", "clusterrolebindings/", "configmaps/kube-system/", "endpointslices/default/", "flowschemas/",
	"ipaddresses/", "leases/kube-system/", "prioritylevelconfigurations/", "priorityclasses/", "rolebindings/", "roles/", "servicecidrs/", "services/specs/default/",
}

// TestServerWrites: an API server starts beside a dead webhook on everything once the fix
// of control-plane-path is made, and writes nothing by itself that explain does not know.
func TestServerWrites(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	log, policy, all := filepath.Join(folder, "audit.log"), filepath.Join(folder, "policy.yaml"), filepath.Join(folder, "all.yaml")
	testenv.Must(t, os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600))
	w := environment{testenv.New(t, cluster.Options{WithoutControllers: true, APIServerFlags: []string{"--audit-log-path=" + log, "--audit-policy-file=" + policy}})}
	for _, resources := range []string{"*", "*/*"} {
		w.Validate(t, "all", testenv.CatchAll(resources))
		registered := w.Kubectl(t, "get", "validatingwebhookconfiguration", "all", "-o", "yaml")
		testenv.Must(t, os.WriteFile(all, []byte(registered), 0o600)) // for a command that has no cluster
		testenv.Eventually(t, func() error { return w.Refused(t, "default", "service \"gone\" not found") })
		w.clear(t, "control-plane-path", "all", "on the path of the control plane")
		testenv.Must(t, w.Plane.APIServer.Stop())
		for _, prefix := range bootstrapped {
			testenv.Must(t, w.Plane.DeletePrefix("/registry/"+prefix))
		}
		before := len(testenv.Get(os.ReadFile(log))(t))
		testenv.Must(t, w.Plane.APIServer.Start(t.Context()))
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		testenv.Eventually(t, func() error {
			_, err := w.Kube.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{})
			return testenv.IgnoreExisting(err)
		})
		w.Unregister(t, "all")
		testenv.Must(t, w.Kube.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		if wrote := serverWrites(t, testenv.Get(os.ReadFile(log))(t)[before:]); !slices.Contains(wrote, "create ipaddresses.networking.k8s.io") || !slices.Contains(wrote, "create clusterroles.rbac.authorization.k8s.io") {
			t.Errorf("beside %s, the API server wrote only %s", resources, wrote)
		}
	}
	wrote := serverWrites(t, testenv.Get(os.ReadFile(log))(t))
	t.Logf("API servers write by themselves: %s", strings.Join(wrote, ", "))
	for _, request := range wrote {
		explained := testenv.Command(t, append([]string{"explain", "--from=" + all, "--server-version=v1." + fmt.Sprint(testenv.Minor())}, strings.Fields(request)...)...)
		if !testenv.ContainsAll(explained.Stdout, "the API server itself writes") {
			t.Errorf("explain %s does not know that the API server does so itself:\n%s%s", request, explained.Stdout, explained.Stderr)
		}
	}
}

// serverWrites are the requests of an audit log that the API server made itself, as
// explain takes them, each once.
func serverWrites(t *testing.T, log []byte) []string {
	t.Helper()
	verbs := map[string]string{"create": "create", "update": "update", "patch": "update", "delete": "delete"}
	var out []string
	for line := range bytes.Lines(log) {
		var event struct {
			Stage, Verb    string
			User           struct{ Username string }
			ObjectRef      struct{ APIGroup, Resource, Subresource, Namespace string }
			ResponseStatus struct{ Code int }
		}
		testenv.Must(t, json.Unmarshal(line, &event))
		if event.User.Username != "system:apiserver" || verbs[event.Verb] == "" || event.Stage != "ResponseComplete" || event.ResponseStatus.Code >= 300 {
			continue
		}
		resource := strings.TrimSuffix(event.ObjectRef.Resource+"."+event.ObjectRef.APIGroup, ".")
		request := strings.TrimSuffix(verbs[event.Verb]+" "+resource+"/"+event.ObjectRef.Subresource, "/")
		if event.ObjectRef.Namespace != "" && event.ObjectRef.Resource != "namespaces" {
			request += " -n " + event.ObjectRef.Namespace
		}
		out = append(out, request)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
