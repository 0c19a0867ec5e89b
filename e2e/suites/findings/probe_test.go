package findings

import (
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

const (
	probeSuccess    = auditor.Prefix + "webhook_probe_success"
	probeDuration   = auditor.Prefix + "webhook_probe_duration_seconds"
	servingNotAfter = auditor.Prefix + "webhook_serving_certificate_not_after_timestamp_seconds"
)

// pitfall is a backend that the objects show to be fine, and that the API server
// cannot call all the same.
type pitfall struct {
	name, check string
	// dns is the name in the certificate, left how long it is valid yet; where
	// dns is "", connections are refused.
	dns  string
	left time.Duration
	// otherCA says that the CA bundle is another one's.
	otherCA bool
	error   string // what the API server says
}

var pitfalls = []pitfall{
	{name: "healthy", dns: "hook.probe-healthy.svc", left: 300 * 24 * time.Hour},
	{name: "other-ca", check: "serving-certificate", dns: "hook.probe-other-ca.svc", left: 300 * 24 * time.Hour, otherCA: true, error: "certificate signed by unknown authority"},
	{name: "misnamed", check: "serving-certificate", dns: "hook.elsewhere.svc", left: 300 * 24 * time.Hour, error: "not hook.probe-misnamed.svc"},
	{name: "expired", check: "serving-certificate", dns: "hook.probe-expired.svc", left: -time.Hour, error: "certificate has expired"},
	{name: "refused", check: "backend-unreachable", error: "connection refused"},
}

// TestProbe: the probe of the auditor ends as the calls of the API server do.
func TestProbe(t *testing.T) {
	t.Parallel()
	w := environment{stock.Use(t)}
	// The cluster's DNS and cluster IPs do not exist here; endpoints do.
	a := w.Run(t, "--probe=tls", "--aggregator-routing=true")
	for _, x := range pitfalls {
		t.Run(x.name, func(t *testing.T) { x.probed(t, w, testenv.Scraper{Auditor: a, T: t}) })
	}
}

// probed registers the backend and wants the auditor and the API server to
// agree on it.
func (x pitfall) probed(t *testing.T, w environment, scraper testenv.Scraper) {
	b := w.Backend(t, "probe-"+x.name)
	h := testenv.Hook(b, "/allow/probe", testenv.Rule("", "configmaps"))
	own := b.Server.CABundle()
	if x.dns == "" {
		testenv.RefuseConnections(t, b)
	} else {
		own = testenv.ServingCertificate{DNSName: x.dns, Left: x.left}.Serve(t, b, &http.Server{Handler: b.Server})
	}
	h.ClientConfig.CABundle = own
	if x.otherCA {
		h.ClientConfig.CABundle = w.Hooks.CABundle()
	}
	made := w.Validate(t, b.Namespace, h)
	labels := testenv.Identity("validating", b.Namespace, h.Name)
	if x.check == "" {
		dialSucceeds(scraper, labels)
		testenv.RefuseConnections(t, b) // dialed at once, as the endpoint is another one
		scraper.AwaitFinding("backend-unreachable", "warning", labels)
		return
	}
	scraper.AwaitFinding(x.check, "warning", labels)
	scraper.Await("the dial fails", metrics.Equals(probeSuccess, labels, 0))
	scraper.Await("the objects look fine", metrics.Equals(testenv.BackendReady, labels, 1))
	testenv.Eventually(t, func() error { return w.Refused(t, b.Namespace, x.error) })
	if x.otherCA {
		made.Webhooks[0].ClientConfig.CABundle = own
		testenv.Get(w.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Update(t.Context(), made, metav1.UpdateOptions{}))(t)
		scraper.AwaitNoFinding(x.check, labels)
		dialSucceeds(scraper, labels)
	}
}

func dialSucceeds(scraper testenv.Scraper, labels metrics.Labels) {
	scraper.Await("the dial succeeds", metrics.Equals(probeSuccess, labels, 1))
	scraper.Await("how long it took", metrics.Present(probeDuration, labels))
	scraper.Await("when the certificate ends", metrics.Present(servingNotAfter, labels))
}
