package classify

import (
	"fmt"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var plaintextToURL = &Check{
	Name:     "plaintext-to-url",
	Summary:  "Secrets or tokens leave the cluster for a webhook that is called by URL.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		b := p.Webhook.Backend
		secret := secrets(p.ByClass[ClassSensitive])
		if b.Kind != inventory.BackendURL || b.Loopback() || b.Namespace() != "" || optIn(p.ObjectSelector) ||
			len(secret) == 0 {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("sends %s in plain text out of the cluster, to %s", byRule(p, secret), b.Host()),
			Fix:     patch(p, excludeRequests(p, requestsTo(secret))),
		}}
	},
}

// secretless are sensitive resources that carry nothing secret: a service
// account grants access, but since Kubernetes 1.24 it holds no token.
var secretless = []inventory.Resource{
	{Name: "serviceaccounts"},
	{Group: "certificates.k8s.io", Name: "certificatesigningrequests"},
	{Group: "cloudcredential.openshift.io", Name: "credentialsrequests"},
}

func secrets(sensitive []inventory.Resource) []inventory.Resource {
	return slices.DeleteFunc(slices.Clone(sensitive),
		func(r inventory.Resource) bool { return slices.Contains(secretless, r) })
}
