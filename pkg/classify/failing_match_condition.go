package classify

import (
	"fmt"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var failingMatchCondition = &Check{
	Name:     "failing-match-condition",
	Summary:  "A matchCondition always fails: requests are refused, or the webhook is skipped.",
	Severity: Critical,
	Alerts: map[Severity]string{
		Critical: "WebhookFailingMatchCondition",
		Warning:  "WebhookFailingMatchConditionWarning",
	},
	For:   5 * time.Minute,
	Cause: "A matchCondition always fails",
	Find:  findFailingMatchCondition,
}

func findFailingMatchCondition(p *Profile) []Problem {
	failing := p.Matcher.FailingConditions(p.Webhook)
	if len(failing) == 0 {
		return nil
	}
	first := failing[0]
	condition := p.MatchConditions[first.Index].Name
	problem := Problem{
		Severity: Warning,
		Message: fmt.Sprintf("is never called for %s: matchCondition %q always fails there (%s), which skips the webhook (failurePolicy Ignore)",
			failedRequests(failing), condition, first.Reason),
		Fix: fmt.Sprintf("correct matchCondition %q of %s: ask first whether what it reads is there, as in has(request.subResource) && request.subResource == \"status\" or object != null && object.spec.paused%s",
			condition, ObjectName(p), byOwner(p)),
	}
	if p.FailsClosed() {
		problem.Severity = Critical
		problem.Message = fmt.Sprintf("refuses every %s%s without being called, however healthy its backend is: matchCondition %q always fails there (%s)%s",
			failedRequests(failing), ifSelected(p), condition, first.Reason, unlessSkipped(failing))
	}
	return []Problem{problem}
}

// failedRequests names what a matchCondition fails for: "CREATE of nodes and DELETE of
// pods".
func failedRequests(failing []admission.FailingCondition) string {
	var out []string
	for _, f := range failing {
		out = append(out, fmt.Sprintf("%s of %s", operations(f.Operations), f.Resource))
	}
	return JoinBounded(out)
}

// ifSelected says that selectors leave some of the requests out.
func ifSelected(p *Profile) string {
	if p.NamespaceSelector.Empty() && p.ObjectSelector.Empty() {
		return ""
	}
	return " that its selectors select"
}

// unlessSkipped: a matchCondition that is false beside the one that fails skips
// the webhook, and the request passes.
func unlessSkipped(failing []admission.FailingCondition) string {
	for _, f := range failing {
		if !f.Alone {
			return ", unless another matchCondition is false"
		}
	}
	return ""
}
