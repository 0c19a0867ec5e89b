package timeline

import (
	"net/http"
	"regexp"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// APIServer is the target of an API server.
func APIServer(t testing.TB, server *rest.Config) Target {
	t.Helper()
	return ofPlane(t, server, "apiserver", monitoring.OfAPIServer)
}

// Controllers is the target of kube-controller-manager.
func Controllers(t testing.TB, plane *cluster.ControlPlane) Target {
	t.Helper()
	server := plane.Config()
	server.Host = plane.ControllersURL()
	return ofPlane(t, server, "kube-controller-manager", monitoring.OfControllers)
}

func ofPlane(t testing.TB, server *rest.Config, job, names string) Target {
	t.Helper()
	client := testenv.Get(rest.HTTPClientFor(server))(t)
	kept := regexp.MustCompile(`^(` + names + `)$`)
	return Target{Job: job, Instance: monitoring.Address(server.Host), URL: server.Host + "/metrics", Client: client, Keep: kept}
}

// Auditors are the targets of auditors.
func Auditors(auditors ...*auditor.Auditor) []Target {
	var out []Target
	for _, a := range auditors {
		out = append(out, Target{Job: "webhook-auditor", Instance: monitoring.Address(a.URL), URL: a.URL + "/metrics", Client: http.DefaultClient})
	}
	return out
}
