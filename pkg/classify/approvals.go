package classify

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var (
	criticalResource = unapproved(ClassCritical, Check{
		Name:    "critical-resource",
		Summary: "An unapproved third-party webhook is called for resources that the whole cluster depends on.",
		Alerts:  map[Severity]string{Info: "WebhookOnCriticalResource"},
	})
	coreResource = unapproved(ClassCore, Check{
		Name:    "core-resource",
		Summary: "An unapproved webhook of an openshift-* Service is called for stock resources.",
		Alerts:  map[Severity]string{Info: "WebhookOnCoreResource"},
	})
	sensitiveResource = unapproved(ClassSensitive, Check{
		Name:    "sensitive-resource",
		Summary: "An unapproved webhook reads security-sensitive resources in plain text.",
		Alerts:  map[Severity]string{Info: "WebhookOnSensitiveResource"},
	})
)

// unapproved completes the check of webhooks that are called for resources of the class.
func unapproved(class Class, c Check) *Check {
	c.Severity, c.For = Info, 15*time.Minute
	c.Find = func(p *Profile) []Problem {
		resources, namespace := p.ByClass[class], p.Webhook.Backend.Namespace()
		isMeant, who, plainly := true, "sees the security-sensitive", " in plain text"
		switch class {
		case ClassCritical:
			isMeant, who, plainly = p.ThirdParty, "of a third party is called for the critical", ""
		case ClassCore:
			isMeant, plainly = strings.HasPrefix(namespace, "openshift-"), ""
			who = "in " + namespace + " is called for the core"
		}
		if len(resources) == 0 || p.Approved || p.Platform || !isMeant {
			return nil
		}
		first := sentence([]string{resources[0].String()}, len(resources)-1)
		return []Problem{{
			Message: fmt.Sprintf("%s resources %s%s and is not approved", who, byRule(p, resources), plainly),
			Brief:   fmt.Sprintf("it sees %s%s, and no approval is recorded", first, plainly),
			Fix:     approve(p, c.Name),
		}}
	}
	return &c
}

var approvalInvalid = &Check{
	Name:     "approval-invalid",
	Summary:  "An approval or an opt-in has a value that says nothing, and so has no effect.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		optIn := p.Object.Annotations[OptInAnnotation]
		switch {
		case p.Approval != "" && !p.Approved:
			return []Problem{{
				Message: fmt.Sprintf("is not approved by %s: %q, which is not the URL of a pull request", ApprovalAnnotation, p.Approval),
				Fix:     fmt.Sprintf("kubectl annotate --overwrite %s %s=https://HOST/PULL-REQUEST%s", ObjectName(p), ApprovalAnnotation, byOwner(p)),
			}}
		case optIn != "" && optIn != "true" && optIn != "false" && p.Type != inventory.Conversion:
			return []Problem{{
				Message: fmt.Sprintf("does not opt in to run level 0 by %s: %q, which is neither true nor false", OptInAnnotation, optIn),
				Fix:     fmt.Sprintf("kubectl annotate --overwrite %s %s=true%s", ObjectName(p), OptInAnnotation, byOwner(p)),
			}}
		}
		return nil
	},
}

// ApprovalPattern is what a valid approval looks like: an http or https URL
// with a host and a path. The policy that warns at registration says the same.
const ApprovalPattern = `^https?://[^/ ]+/`

var approvalURL = regexp.MustCompile(ApprovalPattern)

// approve is how to make an informational finding go away for good: by the approval that
// OpenShift's conventions know; elsewhere an accepted finding is the record.
func approve(p *Profile, check string) string {
	accept := fmt.Sprintf("kubectl annotate %s %s='%s: REASON'", ObjectName(p), acknowledgeAnnotation, check)
	if !p.Snapshot.OpenShift {
		return "review what it does, then record that it is wanted: " + accept
	}
	return fmt.Sprintf("review what it does, then record the approval: kubectl annotate %s %s=URL-OF-THE-PULL-REQUEST; or accept the finding: %s", ObjectName(p), ApprovalAnnotation, accept)
}
