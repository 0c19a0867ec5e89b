package classify

import (
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/certtest"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestFaultOfOneRouting: a Service of type ExternalName is called while the API server
// routes to cluster IPs, which it does by default. Where that is unknown, the fault
// depends on it.
func TestFaultOfOneRouting(t *testing.T) {
	for routing, want := range map[inventory.Routing]string{
		inventory.RoutingUnknown:   "with --enable-aggregator-routing=true, ",
		inventory.RoutingEndpoints: "each CREATE and UPDATE of pods is refused: ",
		inventory.RoutingClusterIP: "",
	} {
		service := kubetest.Service("policy", "external")
		service.Spec.Type, service.Spec.ExternalName = "ExternalName", "hooks.example.com"
		var o inventory.Objects
		o.Routing, o.ServicesKnown.All = routing, true
		o.Services = append(o.Services, service)
		o.Validating = append(o.Validating, kubetest.Validating("external", hookOn("policy", "external", "", "pods")))
		got := findingOf(evaluate(t, DefaultPolicy(), o.Snapshot(taken)), serviceUnroutable).Brief
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q: %q, want %q", routing, got, want)
		}
	}
}

// TestBundleFix: a CA that has expired is renewed; a bundle that never had one is filled by
// its injector, or with the CA of the certificate that is served.
func TestBundleFix(t *testing.T) {
	const search, service = "find the CA of the serving certificate: kubectl get secrets -n policy --field-selector", "policy"
	injected := map[string]string{"cert-manager.io/inject-ca-from": "policy/serving"}
	for name, tt := range map[string]struct {
		bundle      []byte
		annotations map[string]string
		url         string
		first, part string
	}{
		"expired":                   {bundle: certtest.Bundle(t, taken.AddDate(0, -1, 0)), first: "renew the CA", part: "Service policy/hook"},
		"expired, injected":         {bundle: certtest.Bundle(t, taken.AddDate(0, -1, 0)), annotations: injected, first: "have cert-manager renew", part: "kubectl"},
		"words":                     {bundle: []byte("REPLACE ME\n"), first: search, part: "in place of 'REPLACE ME'"},
		"words, hostile":            {bundle: []byte("'; reboot"), first: search, part: `in place of ''"'"'; reboot'`},
		"words, injected":           {bundle: []byte("REPLACE ME"), annotations: injected, first: "see whether the Certificate that it names is ready", part: "kubectl"},
		"long":                      {bundle: []byte(strings.Repeat("TUlJ", 20)), first: search, part: "into clientConfig.caBundle of validatingwebhookconfiguration policy"},
		"bytes":                     {bundle: []byte{0xff, 0x30}, first: search, part: "clientConfig.caBundle"},
		"no Service to look at":     {bundle: []byte("REPLACE ME"), url: "https://hook.example.com/", first: "put the CA that signed", part: "URL https://hook.example.com/"},
		"PEM without a certificate": {bundle: []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), first: search, part: "clientConfig.caBundle"},
	} {
		t.Run(name, func(t *testing.T) {
			client := kubetest.Client(service, "hook")
			if tt.url != "" {
				client = admissionv1.WebhookClientConfig{URL: &tt.url}
			}
			hook := kubetest.Webhook("w.example.com", client, kubetest.Rule("", "configmaps"))
			hook.ClientConfig.CABundle = tt.bundle
			configuration := kubetest.Validating("policy", hook)
			configuration.Annotations = tt.annotations
			s := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{configuration}}.Snapshot(taken)
			fix := findingOf(evaluate(t, DefaultPolicy(), s), caBundleInvalid).Fix
			if !strings.HasPrefix(fix, tt.first) || !strings.Contains(fix, tt.part) {
				t.Errorf("%q: want %q with %q in it", fix, tt.first, tt.part)
			}
		})
	}
}

// TestServingCertificate: what is wrong comes in the order in which it is to be fixed, and from
// outside the cluster nothing is concluded about the API server.
func TestServingCertificate(t *testing.T) {
	const untrusted, misnamed = "x509: certificate signed by unknown authority", "x509: certificate is valid for other.example.com, not hook.policy.svc"
	hook := kubetest.Webhook("w.example.com", kubetest.Client("policy", "hook"), kubetest.Rule("", "configmaps"))
	hook.ClientConfig.CABundle = certtest.Bundle(t, taken.AddDate(1, 0, 0))
	o := inventory.Objects{Validating: []*admissionv1.ValidatingWebhookConfiguration{kubetest.Validating("policy", hook)}}
	certificate := func(ends time.Duration, untrusted, misnamed string) inventory.Probe {
		return inventory.Probe{Answer: inventory.AnswerTLS, Certificate: &inventory.ServingCertificate{
			NotBefore: taken.AddDate(-1, 0, 0), NotAfter: taken.Add(ends), Untrusted: untrusted, Misnamed: misnamed,
		}}
	}
	const year, past = 365 * 24 * time.Hour, -time.Hour
	const issue, replace = "issue the backend a new certificate", "put the CA that signed"
	for name, tt := range map[string]struct {
		probe        inventory.Probe
		message, fix string
	}{
		"expired":             {certificate(past, "", ""), "a certificate that expired on", issue},
		"expired, another CA": {certificate(past, untrusted, ""), "a certificate that expired on 2025-12-31 and no CA", issue},
		"another CA":          {certificate(year, untrusted, ""), "a certificate that no CA of its CA bundle vouches for", replace},
		"another name":        {certificate(year, "", misnamed), "a certificate that is not for the name hook.policy.svc", issue},
		"no TLS":              {inventory.Probe{Answer: inventory.AnswerNoTLS}, "does not answer with TLS where the auditor dials it", "see that the port leads"},
		"soon":                {certificate(time.Hour, "", ""), "a certificate that expires on", issue},
	} {
		for _, outside := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := o.Snapshot(taken)
				tt.probe.Outside = outside
				s.Probes = map[inventory.Ref]inventory.Probe{s.Webhooks[0].Ref: tt.probe}
				f := findingOf(evaluate(t, DefaultPolicy(), s), servingCertificate)
				concludes := strings.Contains(f.Message, "refuse")
				if f.Message == "" || outside && (concludes || f.Severity > Warning) || !outside && (!concludes || !strings.Contains(f.Message, tt.message) || !strings.HasPrefix(f.Fix, tt.fix)) {
					t.Errorf("outside %t: %s: %s: %s", outside, f.Severity, f.Message, f.Fix)
				}
			})
		}
	}
}
