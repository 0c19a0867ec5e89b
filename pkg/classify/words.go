package classify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// maxListed bounds the resources that one message names.
const maxListed = 5

// listed names the first resources and counts the rest.
func listed(resources []inventory.Resource) string {
	names := make([]string, 0, maxListed)
	for _, r := range resources[:min(len(resources), maxListed)] {
		names = append(names, r.String())
	}
	return sentence(names, len(resources)-len(names))
}

// byRule names the resources, and the rules that cover them.
func byRule(p *Profile, resources []inventory.Resource) string {
	if len(p.Rules) == 0 {
		return listed(resources)
	}
	return fmt.Sprintf("%s (%s)", listed(resources), rulesFor(p, resources))
}

// rulesFor names the rules that cover the resources.
func rulesFor(p *Profile, resources []inventory.Resource) string {
	var names []string
	for _, i := range p.Matcher.RulesFor(p.Webhook, resources) {
		names = append(names, fmt.Sprintf("rules[%d]", i))
	}
	return JoinBounded(names)
}

// JoinBounded joins the first words and counts the rest.
func JoinBounded(words []string) string {
	shown := words[:min(len(words), maxListed)]
	return sentence(slices.Clip(shown), len(words)-len(shown))
}

// sentenceAtLeast is sentence, of what may be more than is known.
func sentenceAtLeast(words []string, more int, atLeast bool) string {
	if atLeast && more > 0 {
		return sentence(append(words, fmt.Sprintf("at least %d more", more)), 0)
	}
	return sentence(words, more)
}

// sentence joins words as prose does: "a, b and 3 more".
func sentence(words []string, more int) string {
	if more > 0 {
		words = append(words, fmt.Sprintf("%d more", more))
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// day formats the date of t in UTC.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// resourceNames returns the matched resources.
func resourceNames(reached []admission.MatchedResource) []inventory.Resource {
	out := make([]inventory.Resource, len(reached))
	for i, r := range reached {
		out[i] = r.Resource
	}
	return out
}

// intercepted says what a webhook is called for: "CREATE and UPDATE of pods".
func intercepted(p *Profile) string {
	var ops admission.Operations
	for _, r := range p.Matched {
		ops |= r.Operations
	}
	return operations(ops) + " of " + listed(resourceNames(p.Matched))
}

// operations lists the operations as prose does.
func operations(ops admission.Operations) string {
	return sentence(text.Strings(ops.List()), 0)
}

// ObjectName names the configuration as kubectl takes it, quoted for a shell.
func ObjectName(p *Profile) string {
	kind := p.Object.Kind
	if p.Type == inventory.Conversion {
		kind = "crd"
	}
	return TypeAndName(strings.ToLower(kind), p.Configuration)
}

// unless says what could keep the webhook from being called: labels of the
// namespaces that are not known, and its matchConditions.
func unless(w *inventory.Webhook, namespaces []string, reasons ...string) string {
	if len(namespaces) > 0 {
		reasons = append(reasons, fmt.Sprintf("its namespaceSelector (%s) excludes %s by labels that the input does not show", w.NamespaceSelector, JoinBounded(distinct(namespaces))))
	}
	if len(w.MatchConditions) > 0 {
		reasons = append(reasons, "a matchCondition is false")
	}
	return ", unless " + strings.Join(reasons, " or ")
}

// hasName returns a function that reports whether a matchCondition has the name.
func hasName(name string) func(admissionv1.MatchCondition) bool {
	return func(c admissionv1.MatchCondition) bool { return c.Name == name }
}

// approve is how to make an informational finding go away for good.
func approve(p *Profile, check string) string { return approveObject(ObjectName(p), check) }

func approveObject(object, check string) string {
	return fmt.Sprintf("review what it does, then record the approval: kubectl annotate %s %s=URL-OF-THE-PULL-REQUEST; or %s",
		object, ApprovalAnnotation, accept(object, check))
}

// accept is how to keep a finding that is known, out of everyone's way.
func accept(object, check string) string {
	return fmt.Sprintf("accept the finding: kubectl annotate %s %s='%s: REASON'", object, acknowledgeAnnotation, check)
}
