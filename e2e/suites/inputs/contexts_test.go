package inputs

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// hangingServer accepts connections and never answers.
func hangingServer(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	t.Cleanup(func() { listener.Close() }) // and with it what waits in its queue
	return "https://" + listener.Addr().String()
}

// TestAllContexts: of four contexts two are read, of the same cluster by two users; one
// that refuses connections and one that hangs are named, and neither is without
// findings.
func TestAllContexts(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	b := w.Backend(t, "all-contexts")
	testenv.Must(t, b.DeleteService(t.Context()))
	w.Validate(t, "all-contexts", testenv.Hook(b, "/allow", testenv.Rule("", "configmaps")))
	config, err := clientcmd.LoadFromFile(w.Plane.Kubeconfig())
	testenv.Must(t, err)
	first := config.Contexts[config.CurrentContext]
	config.AuthInfos["other"] = config.AuthInfos[first.AuthInfo]
	config.Contexts = map[string]*clientcmdapi.Context{
		"first": first, "project": {Cluster: first.Cluster, AuthInfo: first.AuthInfo, Namespace: "project"},
		"second": {Cluster: first.Cluster, AuthInfo: "other"},
	}
	for name, server := range map[string]string{"dead": "https://127.0.0.1:1", "hanging": hangingServer(t)} {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: server}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: first.AuthInfo}
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	testenv.Must(t, clientcmd.WriteToFile(*config, kubeconfig))

	audit := func(format string) auditor.Result {
		got, err := auditor.Command(t.Context(), testenv.Binary(t), "audit", "--kubeconfig", kubeconfig, "--all-contexts", "-o", format, "crd", "validatingwebhookconfiguration/all-contexts")
		testenv.Must(t, err)
		if got.Code != 1 || !testenv.ContainsAll(got.Stderr, "context dead: ", "context hanging: ") {
			t.Errorf("-o %s: exit code %d: %s", format, got.Code, got.Stderr)
		}
		return got
	}
	var report struct {
		Contexts []struct {
			Context string
			Totals  *struct{ Webhooks int }
		}
	}
	testenv.Must(t, json.Unmarshal([]byte(audit("json").Stdout), &report))
	var names []string
	for _, c := range report.Contexts {
		names = append(names, c.Context)
		if known := c.Totals != nil; known != (c.Context == "first" || c.Context == "second") {
			t.Errorf("the totals of %s are %v", c.Context, c.Totals)
		}
	}
	if got := strings.Join(names, " "); got != "dead hanging first second" {
		t.Errorf("the contexts are %s", got)
	}
	if table := audit("table").Stdout; !testenv.ContainsAll(table, "service-missing", "hanging", "not read") {
		t.Errorf("the table is\n%s", table)
	}
}
