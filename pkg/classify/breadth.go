package classify

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var overBroad = &Check{
	Name:     "over-broad",
	Summary:  "A rule covers every resource of every group.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		broad := broadRules(p)
		if len(broad) == 0 || optIn(p.NamespaceSelector) || optIn(p.ObjectSelector) {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("covers everything through %s: %d resources", sentence(broad, 0), len(p.Matched)),
			Fix:     fmt.Sprintf("list in %s of %s the groups and resources that it looks at%s", sentence(broad, 0), ObjectName(p), byOwner(p)),
		}}
	},
}

func broadRules(p *Profile) []string {
	var out []string
	for i, rule := range p.Rules {
		if coversEverything(rule) {
			out = append(out, fmt.Sprintf("rules[%d]", i))
		}
	}
	return out
}

// optIn reports whether a selector asks for a label: what does not carry it
// is left alone.
func optIn(s inventory.Selector) bool {
	if s.Raw == nil {
		return false
	}
	return len(s.Raw.MatchLabels) > 0 ||
		slices.ContainsFunc(s.Raw.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool {
			return e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpExists
		})
}

var platformLimits = &Check{
	Name:     "platform-limits",
	Summary:  "GKE and EKS close ports of the nodes to the control plane, and GKE Autopilot and OLM refuse webhooks for everything.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if p.Platform || p.Webhook.Backend.Kind != inventory.BackendService {
			return nil
		}
		var out []Problem
		port := targetPort(p)
		if everything := refusedByOLM(p); everything != "" {
			out = append(out, Problem{
				Severity: Warning,
				Message:  fmt.Sprintf("has rules for %s: the Operator Lifecycle Manager does not install its ClusterServiceVersion", everything),
				Fix:      "name other API groups and resources in the rules of spec.webhookdefinitions",
			})
		}
		if p.Matcher.Platform == inventory.PlatformGKE && slices.ContainsFunc(p.Rules, coversEverything) {
			out = append(out, Problem{
				Message: "covers everything by * in apiGroups and resources: GKE Autopilot refuses such a registration",
				Fix:     "name the API groups and resources in the rules" + byOwner(p),
			})
		}
		closed, ok := closedPorts[p.Matcher.Platform]
		if !ok || port == 0 || slices.Contains(closed.open, port) {
			return out
		}
		return append(out, Problem{
			Message: fmt.Sprintf("is called on port %d of its Pods: %s, and calls end in a timeout", port, closed.text),
			Fix:     strings.ReplaceAll(closed.fix, "PORT", fmt.Sprint(port)),
		})
	},
}

// refusedByOLM is what the rules of a webhook of a ClusterServiceVersion must not cover, "" where
// they do not. Source: pkg/controller/install/webhook.go of operator-lifecycle-manager.
func refusedByOLM(p *Profile) string {
	if p.Object.Owner.Tool != "olm" || !p.isToApply() {
		return ""
	}
	isConfiguration := func(resource string) bool { // by kind, as OLM has it
		return slices.Contains([]string{"*", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}, resource)
	}
	for _, r := range p.Rules {
		switch {
		case slices.Contains(r.APIGroups, "*"):
			return "all API groups"
		case slices.Contains(r.APIGroups, "operators.coreos.com"):
			return "OLM's own API group"
		case slices.Contains(r.APIGroups, "admissionregistration.k8s.io") && slices.ContainsFunc(r.Resources, isConfiguration):
			return "webhook configurations"
		}
	}
	return ""
}

// closedPorts are what platforms let the control plane reach. On AKS a tunnel ends on the
// nodes, which closes none. Source: cloud.google.com/kubernetes-engine, firewall rules;
// github.com/terraform-aws-modules/terraform-aws-eks, node_groups.tf.
var closedPorts = map[inventory.Platform]struct {
	open      []int32
	text, fix string
}{
	inventory.PlatformGKE: {
		[]int32{443, 10250},
		"in a private cluster of GKE the control plane reaches ports 443 and 10250 of the nodes alone",
		"in a private cluster, open the port: gcloud compute firewall-rules create webhook-PORT --direction=INGRESS --network=NETWORK --source-ranges=CONTROL_PLANE_CIDR --target-tags=NODE_TAG --allow=tcp:PORT",
	},
	inventory.PlatformEKS: {
		[]int32{443, 4443, 6443, 8443, 9443, 10250, 10251},
		"the node security group of the usual Terraform module of EKS opens ports 443, 4443, 6443, 8443, 9443, 10250 and 10251 to the control plane alone",
		"where the nodes have a security group of their own, open the port: aws ec2 authorize-security-group-ingress --group-id NODE_SECURITY_GROUP --source-group CLUSTER_SECURITY_GROUP --protocol tcp --port PORT",
	},
}

func coversEverything(r admissionv1.RuleWithOperations) bool {
	return slices.Contains(r.APIGroups, "*") && (slices.Contains(r.Resources, "*") || slices.Contains(r.Resources, "*/*"))
}

// targetPort is the port of the Pods that the calls of the webhook end at; 0 where it is
// not known.
func targetPort(p *Profile) int32 {
	for _, w := range BehindWebhook(p) {
		if port := p.Snapshot.TargetPort(p.State.Service, w); port != 0 {
			return port
		}
	}
	return p.Snapshot.TargetPort(p.State.Service, &inventory.Workload{})
}
