package classify

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/certtest"
	"github.com/webhook-auditor/webhook-auditor/internal/kubetest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

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
