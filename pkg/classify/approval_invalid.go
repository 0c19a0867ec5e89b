package classify

import (
	"fmt"
	"regexp"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

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
