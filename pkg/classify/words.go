package classify

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"al.essio.dev/pkg/shellescape"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// warningIf is the severity of what is worth knowing at least.
func warningIf(isSure bool) Severity {
	if isSure {
		return Warning
	}
	return Info
}

// maxListed bounds the resources that one message names.
const maxListed = 5

func listed(resources []inventory.Resource) string {
	names := lists.Map(resources[:min(len(resources), maxListed)],
		func(r inventory.Resource) string { return r.String() })
	return sentence(names, len(resources)-len(names))
}

// byRule names the resources, and the rules that cover them.
func byRule(p *Profile, resources []inventory.Resource) string {
	if len(p.Rules) == 0 {
		return listed(resources)
	}
	return fmt.Sprintf("%s (%s)", listed(resources), rulesFor(p, resources))
}

func rulesFor(p *Profile, resources []inventory.Resource) string {
	names := lists.Map(p.Matcher.RulesFor(p.Webhook, resources),
		func(i int) string { return fmt.Sprintf("rules[%d]", i) })
	return JoinBounded(names)
}

// JoinBounded joins the first words and counts the rest.
func JoinBounded(words []string) string {
	first := words[:min(len(words), maxListed)]
	return sentence(slices.Clip(first), len(words)-len(first))
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

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func resourceNames(reached []admission.MatchedResource) []inventory.Resource {
	return lists.Map(reached, func(r admission.MatchedResource) inventory.Resource { return r.Resource })
}

// intercepted says what a webhook is called for: "each CREATE and UPDATE of pods in namespace
// shop".
func intercepted(p *Profile) string {
	var ops admission.Operations
	for _, r := range p.Matched {
		ops |= r.Operations
	}
	return "each " + operations(ops) + " of " + listed(resourceNames(p.Matched)) + Scope(p, p.Matched)
}

func operations(ops admission.Operations) string {
	return sentence(lists.Strings(ops.List()), 0)
}

// ObjectName names the configuration as kubectl takes it, quoted for a shell.
func ObjectName(p *Profile) string { return objectName(&p.Registration) }

// objectName is the same of what registers a webhook, or is a policy.
func objectName(r *inventory.Registration) string {
	return TypeAndName(kindOf(r), r.Configuration)
}

// bindingName is the same of a binding.
func bindingName(b *inventory.PolicyBinding) string {
	return TypeAndName(strings.ToLower(b.Object.Kind), b.Object.Name)
}

// kindOf is the kind of what registers a webhook, or is a policy, as kubectl takes it.
func kindOf(r *inventory.Registration) string {
	if r.Type == inventory.Conversion {
		return "crd"
	}
	return strings.ToLower(r.Object.Kind)
}

// unless says what could keep the webhook from being called: labels of the
// namespaces that are unknown, and its matchConditions.
func unless(w *inventory.Webhook, namespaces []string) string {
	var reasons []string
	if len(namespaces) > 0 {
		reasons = append(reasons, fmt.Sprintf("its namespaceSelector excludes %s by labels that the input does not show", JoinBounded(lists.Distinct(namespaces))))
	}
	if len(w.MatchConditions) > 0 {
		reasons = append(reasons, "a matchCondition is false")
	}
	return ", unless " + strings.Join(reasons, " or ")
}

// quoted returns the text as one word of a shell command. Every name in a Fix
// goes through it, also where it stands in prose: names come out of manifests,
// and users copy whole lines. What cannot be printed, line ends above all, is
// replaced: no name that the API server accepts holds any.
func quoted(word string) string {
	return shellescape.Quote(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, word))
}

func quotedAll(words []string) []string {
	return lists.Map(words, quoted)
}

// ShellFlag returns the flag with its value. Where the value would be taken for a
// flag itself, both are one word.
func ShellFlag(flag, value string) string {
	if strings.HasPrefix(value, "-") {
		return flag + "=" + quoted(value)
	}
	return flag + " " + quoted(value)
}

// TypeAndName returns TYPE and NAME as kubectl takes them, where a name that starts
// with a dash is not taken for a flag.
func TypeAndName(kind, name string) string {
	if strings.HasPrefix(name, "-") {
		return quoted(kind + "/" + name)
	}
	return kind + " " + quoted(name)
}
