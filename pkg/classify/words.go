package classify

import (
	"fmt"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
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

// reachedNames returns the resources of a reach.
func reachedNames(reached []inventory.Reached) []inventory.Resource {
	out := make([]inventory.Resource, len(reached))
	for i, r := range reached {
		out[i] = r.Resource
	}
	return out
}

// intercepted says what a webhook is called for: "CREATE and UPDATE of pods".
func intercepted(p Profile) string {
	var ops inventory.Operations
	for _, r := range p.Reached {
		ops |= r.Operations
	}
	var words []string
	for _, op := range ops.List() {
		words = append(words, string(op))
	}
	return sentence(words, 0) + " of " + listed(reachedNames(p.Reached))
}

// object names the configuration as kubectl takes it.
func object(p Profile) string {
	kind := p.Object.Kind
	if p.Type == inventory.Conversion {
		kind = "crd"
	}
	return strings.ToLower(kind) + " " + p.Configuration
}

// approve is how to make an informational finding go away for good.
func approve(p Profile, check string) string {
	return fmt.Sprintf("review what it does, then record the approval: kubectl annotate %s %s=URL-OF-THE-PULL-REQUEST; "+
		"or accept the finding: kubectl annotate %s %s='%s: REASON'",
		object(p), ApprovalAnnotation, object(p), AcknowledgeAnnotation, check)
}

// exclusion is the matchCondition that keeps a webhook from the resources.
func exclusion(resources []inventory.Resource) string {
	terms := make([]string, len(resources))
	for i, r := range resources {
		terms[i] = fmt.Sprintf("request.resource.group == %q && request.resource.resource == %q", r.Group, r.Name)
	}
	return fmt.Sprintf("matchConditions: [{name: exclude, expression: '!(%s)'}]", strings.Join(terms, " || "))
}
