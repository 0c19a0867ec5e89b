package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// PolicyCost says what policies cost a request; its subject are the policies.
const PolicyCost = "are evaluated by the API server itself: no call and no timeout, but a limit to the cost of their expressions"

// WriteExplainText writes the chain for a terminal: what is called in which
// order, what it costs at worst, and what is skipped.
func WriteExplainText(w io.Writer, e Explanation, o TextOptions) error {
	b := bufio.NewWriter(w)
	p := printer{b, o}
	policies, webhooks := e.Count()
	p.paragraph(word{}, slices.Concat(words(e.Request.Title(), bold), words(e.summary(), plain)))
	for _, note := range e.Notes {
		p.paragraph(word{"note: ", cyan}, words(note, plain))
	}
	p.newline()
	p.steps(e)
	if policies > 0 {
		p.paragraph(word{fmt.Sprintf("%-*s", margin, "policies"), bold}, words(PolicyCost, plain))
		p.newline()
	}
	if webhooks > 0 {
		p.budget(e)
		p.observed(e)
	}
	p.conversion(e.Conversion)
	p.skipped(e)
	return flush(b)
}

func (e Explanation) summary() string {
	policies, webhooks := e.Count()
	met := countedPolicies(policies)
	switch {
	case len(e.Chain) == 0:
		return fmt.Sprintf("meets no webhook; %d skipped.", len(e.Skipped))
	case webhooks == 0:
		return fmt.Sprintf("meets %s and no webhook; %d skipped.", met, len(e.Skipped))
	case policies > 0:
		met += " and "
	}
	return fmt.Sprintf("meets %s%s, %d s at worst; %d skipped.", met, inventory.Counted(webhooks, "webhook"), e.BudgetSeconds, len(e.Skipped))
}

// countedPolicies counts policies, each as often as it has bindings that count; "" of
// none.
func countedPolicies(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 policy"
	}
	return fmt.Sprintf("%d policies", n)
}

// steps writes one line per webhook that is called and policy that is evaluated.
func (p printer) steps(e Explanation) {
	for _, step := range e.Chain {
		label := fmt.Sprintf("%*d. ", margin-2, step.Step)
		line := slices.Concat(
			words(string(step.Type), dim), words(step.Name, bold),
			words(stepText(step), plain),
			words(broughtBy(step), dim),
		)
		if step.Observed != nil {
			line = append(line, words("observed: "+observedText(*step.Observed), cyan)...)
		}
		if len(step.AuditLog) > 0 {
			line = append(line, words("by the audit log, it "+strings.Join(step.AuditLog, "; "), cyan)...)
		}
		switch {
		case step.Refuses:
			line = append(line, words("refused: "+step.Detail, red)...)
		case step.Called == admission.Maybe:
			line = append(line, words("maybe: "+step.Detail, yellow)...)
		}
		p.paragraph(word{label, plain}, line)
	}
	if len(e.Chain) > 0 {
		p.newline()
	}
}

// stepText is what a step does where it fails, and how often it is taken.
func stepText(step ChainStep) string {
	text := "failurePolicy " + step.FailurePolicy
	if step.TimeoutSeconds > 0 {
		text += fmt.Sprintf(", %d s", step.TimeoutSeconds)
	}
	if len(step.ValidationActions) > 0 {
		text += ", validationActions " + strings.Join(step.ValidationActions, " and ")
	}
	if step.Reinvocable {
		text += ", again if the object is changed after it"
	}
	return text
}

// broughtBy names what puts the step into effect, "" where the step itself does.
func broughtBy(step ChainStep) string {
	if step.Binding != "" {
		return "[binding " + step.Binding + "]"
	}
	return configurationOf(step.Type, step.Configuration)
}

// configurationOf names the configuration that registers a webhook; "" of a policy.
func configurationOf(t inventory.Type, configuration string) string {
	if t.IsPolicy() {
		return ""
	}
	return "[configuration " + configuration + "]"
}

// budget writes the worst case and the deadlines that it misses.
func (p printer) budget(e Explanation) {
	p.paragraph(word{fmt.Sprintf("%-*s", margin, "worst:"), bold}, words(fmt.Sprintf("%d s = %s", e.BudgetSeconds, strings.Join(e.Budget.Parts(), " + ")), plain))
	for _, d := range e.Deadlines {
		label := word{fmt.Sprintf("%-*s", margin, "  within"), green}
		if d.Missed {
			label = word{fmt.Sprintf("%-*s", margin, "  MISSES"), red}
		}
		p.paragraph(label, words(d.String(), plain))
	}
	p.newline()
}

// observed sets what the chain took beside its worst case.
func (p printer) observed(e Explanation) {
	if e.ObservedSeconds == nil {
		return
	}
	p.paragraph(word{fmt.Sprintf("%-*s", margin, "observed:"), bold}, words(e.ObservedSeconds.String(), plain))
	p.paragraph(word{strings.Repeat(" ", margin), plain}, words(e.Observed.sourceLine(), dim))
	p.newline()
}

// conversion writes that the object is converted as well.
func (p printer) conversion(step *ConversionStep) {
	if step == nil {
		return
	}
	verb := "calls"
	if step.Called == admission.Maybe {
		verb = "may call"
	}
	text := fmt.Sprintf("besides, storing it %s the conversion webhook of %s (%d s each time, not counted above): %s",
		verb, step.Name, step.TimeoutSeconds, step.Detail)
	p.paragraph(word{}, words(text, plain))
	p.newline()
}

// skipped writes what stands in the way of the webhooks that are not called and of the
// policies that are not evaluated. Those whose rules ask for something else are only
// counted: they are most.
func (p printer) skipped(e Explanation) {
	label := word{fmt.Sprintf("%-*s", margin, "skipped"), dim}
	webhooks, policies := 0, 0
	for _, s := range e.Skipped {
		switch {
		case s.Why != admission.ReasonRules:
			p.paragraph(label, slices.Concat(words(string(s.Type), dim), words(s.Name, bold), words(s.Because(), plain), words(configurationOf(s.Type, s.Configuration), dim)))
		case s.Type.IsPolicy():
			policies++
		default:
			webhooks++
		}
	}
	var others []string
	if policies > 0 {
		others = append(others, countedPolicies(policies))
	}
	if webhooks > 0 {
		others = append(others, inventory.Counted(webhooks, "webhook"))
	}
	if len(others) > 0 {
		p.paragraph(label, words(strings.Join(others, " and ")+" whose rules do not cover it", plain))
	}
}
