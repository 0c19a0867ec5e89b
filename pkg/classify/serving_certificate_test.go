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
