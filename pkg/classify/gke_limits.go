package classify

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var gkeLimits = &Check{
	Name:     "gke-limits",
	Summary:  "On GKE, private clusters open ports 443 and 10250 of the nodes alone, and Autopilot refuses webhooks for everything.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if p.Matcher.Platform != inventory.PlatformGKE || p.Platform || p.Webhook.Backend.Kind != inventory.BackendService {
			return nil
		}
		var out []Problem
		if slices.ContainsFunc(p.Rules, coversEverything) {
			out = append(out, Problem{
				Message: "covers everything by * in apiGroups and resources: GKE Autopilot refuses such a registration",
				Fix:     "name the API groups and resources in the rules" + byOwner(p),
			})
		}
		port := targetPort(p)
		if port == 0 || port == 443 || port == 10250 {
			return out
		}
		return append(out, Problem{
			Message: fmt.Sprintf("is called on port %d of its Pods: in a private cluster of GKE the control plane reaches ports 443 and 10250 of the nodes alone, and calls end in a timeout", port),
			Fix:     fmt.Sprintf("in a private cluster, open the port: gcloud compute firewall-rules create webhook-%d --direction=INGRESS --network=NETWORK --source-ranges=CONTROL_PLANE_CIDR --target-tags=NODE_TAG --allow=tcp:%d", port, port),
		})
	},
}

func coversEverything(r admissionv1.RuleWithOperations) bool {
	return slices.Contains(r.APIGroups, "*") && (slices.Contains(r.Resources, "*") || slices.Contains(r.Resources, "*/*"))
}

// targetPort is the port of the Pods that the calls of the webhook end at; 0 where it is
// not known.
func targetPort(p *Profile) int32 {
	for _, w := range BehindWebhook(p) {
		if port := p.Snapshot.TargetPort(p.State.Service, &w); port != 0 {
			return port
		}
	}
	return p.Snapshot.TargetPort(p.State.Service, &inventory.Workload{})
}
