package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Text is the answer in a sentence, the command that shows why the request is refused, a row for
// each step, and what is skipped.
func (e Explanation) Text(o TextOptions) Blocks {
	out := Blocks{{Heading: e.Verdict()}}
	if look := e.Look(); look != "" && !ofManifests(e.Inputs) {
		out = append(out, Block{Lines: []Line{{Label: "look", Command: look}}})
	}
	return append(out, e.Details(o)...)
}

// Details are a row for each step, and what is skipped.
func (e Explanation) Details(o TextOptions) Blocks {
	return Blocks{{Table: e.steps()}, {Lines: e.remarks()}, {Lines: e.skipped(o)}, {Lines: e.notes(o)}}.NonEmpty()
}

// Look is the command that shows why the request is refused now; "" where it is not.
func (e Explanation) Look() string { return e.refusal().look }

// Verdict is what becomes of the request as a whole.
func (e Explanation) Verdict() string {
	for i, note := range e.Notes {
		if absent, ok := strings.CutSuffix(note, admission.Otherwise); ok {
			e.Notes = slices.Delete(slices.Clone(e.Notes), i, i+1)
			title := e.Request.Title()
			return fmt.Sprintf("%s is answered with 404, as %s. If it did, the request%s", title, absent, strings.TrimPrefix(e.Verdict(), title))
		}
	}
	policies, webhooks := e.count()
	surePolicies, sureWebhooks := e.certain()
	out := e.Request.Title() + " meets "
	if len(e.Chain) > 0 && surePolicies+sureWebhooks == 0 {
		out = e.Request.Title() + " may meet "
	}
	metWebhooks := amount(sureWebhooks, webhooks, inventory.Counted(webhooks, "webhook"))
	if len(e.Skipped) > 0 && webhooks > 0 {
		skipped := len(lists.Filter(e.Skipped, func(s SkippedStep) bool { return !s.Type.IsPolicy() }))
		metWebhooks = amount(sureWebhooks, webhooks, fmt.Sprintf("%d of %s", webhooks, inventory.Counted(webhooks+skipped, "webhook")))
	}
	metPolicies := amount(surePolicies, policies, inventory.Counted(policies, "policy"))
	refused := e.refusal().text
	switch {
	case len(e.Chain) == 0 && refused != "":
		return out + "no webhook: " + refused
	case len(e.Chain)+len(e.Skipped) == 0 && e.files:
		return out + "no webhook: no configuration was read."
	case len(e.Chain) == 0 && e.unread:
		return out + "no webhook of those that can be read."
	case len(e.Chain) == 0:
		return out + "no webhook."
	case webhooks == 0:
		out += metPolicies + " and no webhook"
	case policies == 0:
		out += metWebhooks
	default:
		out += metPolicies + " and " + metWebhooks
	}
	if refused != "" {
		return out + ": " + refused
	}
	if webhooks == 0 {
		return out + "."
	}
	return out + ": " + e.wait(webhooks, sureWebhooks < webhooks)
}

// certain counts the policies and the webhooks that are met whatever is unknown.
func (e Explanation) certain() (policies, webhooks int) {
	e.Chain = lists.Filter(e.Chain, func(s ChainStep) bool { return s.Called != admission.Maybe })
	return e.count()
}

// amount is how many are met, where only some are so for certain.
func amount(certain, all int, counted string) string {
	switch {
	case certain == all:
		return counted
	case certain == 0:
		return "up to " + counted
	}
	return fmt.Sprintf("%d to %s", certain, counted)
}

// refusal is of a request: the webhook that cannot be called, if it is one, why, and the command
// that shows it.
type refusal struct {
	webhook    inventory.Ref
	text, look string
}

// refusal is that of the request now; the zero refusal where nothing is known to refuse it.
func (e Explanation) refusal() refusal {
	for _, s := range e.Chain {
		switch {
		case s.Called != admission.Yes || s.FailurePolicy != "Fail" && !s.Refuses && !s.Denies:
		case s.Refuses || s.Denies:
			return refusal{
				text: fmt.Sprintf("refused by %s, as %s.", e.named(s.Ref), strings.TrimSuffix(s.Detail, ".")),
				look: classify.LookAt(s.Ref),
			}
		case s.Unreachable != "":
			return refusal{s.Ref, fmt.Sprintf("refused now, as %s cannot be called: %s %s.", e.named(s.Ref), s.Backend, s.Unreachable), s.look}
		}
	}
	if c := e.Conversion; c != nil && c.Called == admission.Yes && c.Unreachable != "" {
		return refusal{c.Ref, fmt.Sprintf("refused now, as the conversion webhook of %s cannot be called: %s %s.", c.Name, c.Backend, c.Unreachable), c.look}
	}
	return refusal{}
}

// wait is how long the request waits at worst, and what ends it before. It is
// conditional where it is unknown that all webhooks are called.
func (e Explanation) wait(webhooks int, perhaps bool) string {
	ignored := len(lists.Filter(e.Chain, func(s ChainStep) bool { return !s.Type.IsPolicy() && s.FailurePolicy == "Ignore" }))
	all, are, hang := "all", "are", "hang"
	if webhooks == 1 {
		all, are, hang = "it", "is", "hangs"
	}
	slow := fmt.Sprintf("if %s %s slow", all, are)
	called := fmt.Sprintf("if %s %s called", all, are)
	hang = fmt.Sprintf("if %s %s", all, hang)
	if perhaps && !e.endsForCertain {
		slow, hang = called+" and slow", strings.Replace(hang, all, all+" "+are+" called and", 1)
	}
	switch end := e.EndsAfterSeconds; {
	case end > 0 && e.Budget != nil && e.Budget.MutatingSeconds+e.Budget.ValidatingSeconds < end: // what hangs changes nothing, so that none is called again
		return fmt.Sprintf("waits %d s %s; if they are slow, change the object and are called again, it is refused after %d s.", e.Budget.MutatingSeconds+e.Budget.ValidatingSeconds, hang, end)
	case end > 0 && ignored == webhooks && webhooks > 1:
		return fmt.Sprintf("%s, it is refused after %d s, although all %d have failurePolicy Ignore.", hang, end, webhooks)
	case end > 0 && ignored == webhooks:
		return fmt.Sprintf("%s, the request is refused after %d s, although it has failurePolicy Ignore.", hang, end)
	case end > 0: // one that hangs refuses it earlier
		return fmt.Sprintf("%s, it is refused after %d s.", slow, end)
	}
	worst := fmt.Sprintf("waits %d s at worst", e.BudgetSeconds)
	if perhaps {
		worst = fmt.Sprintf("waits up to %d s %s", e.BudgetSeconds, called)
	}
	for _, d := range slices.Backward(e.Deadlines) {
		if d.Missed {
			return fmt.Sprintf("%s, and so misses %s.", worst, d)
		}
	}
	return worst + "."
}

// steps has a row for each webhook that is called and each policy that is evaluated.
func (e Explanation) steps() *Table {
	t := &Table{
		Headings: []string{"Step", "Type", "Name", "Timeout", "Backend", "If down"}, Cut: "Backend", Spare: []string{"Backend", "Type"},
	}
	for i, s := range e.Chain {
		step := fmt.Sprint(s.Step)
		if i > 0 && e.Chain[i-1].Step == s.Step {
			step = "at once"
		}
		timeout, backend, down := "-", "in the API server", "-"
		if !s.Type.IsPolicy() {
			timeout, backend, down = fmt.Sprintf("%d s", s.TimeoutSeconds), s.backend(), s.down()
		}
		t.Rows = append(t.Rows, []string{step, s.Type.Title(), e.named(s.Ref), timeout, backend, down})
	}
	return t
}

// named is the name of a webhook, with its configuration where another one has the name too.
func (e Explanation) named(r inventory.Ref) string {
	same := func(o inventory.Ref) bool { return o.Name == r.Name && o.Configuration != r.Configuration }
	if slices.ContainsFunc(e.Chain, func(s ChainStep) bool { return same(s.Ref) }) ||
		slices.ContainsFunc(e.Skipped, func(s SkippedStep) bool { return same(s.Ref) }) {
		return r.Name + " of " + r.Configuration
	}
	return r.Name
}

func (s ChainStep) backend() string {
	name := strings.TrimPrefix(strings.TrimPrefix(s.Backend, "Service "), "URL ")
	switch {
	case s.Unreachable != "":
		return "down: " + name
	case s.Ready > 0:
		return fmt.Sprintf("%d ready: %s", s.Ready, name)
	}
	return name
}

// down is what becomes of the request while the webhook cannot be called.
func (s ChainStep) down() string {
	if s.FailurePolicy == "Ignore" {
		return "passes"
	}
	return "refused"
}

// remarks are what the rows have no room for.
func (e Explanation) remarks() []Line {
	var out []Line
	refusal := e.refusal()
	for _, s := range e.Chain {
		add := func(label, content string, tone Tone) {
			if content != "" {
				out = append(out, Line{Label: label, Name: e.named(s.Ref), Text: content, Tone: tone})
			}
		}
		switch {
		case s.Refuses:
			add("refused", s.Detail, Critical)
		case s.Denies:
			add("denied", s.Detail, Critical)
		case s.Called == admission.Maybe:
			add("maybe", s.Detail, Warning)
		case s.Type == inventory.ValidatingPolicy:
			add("verdict", s.Detail, Note)
		}
		if s.Unreachable != "" && s.Ref != refusal.webhook {
			add("down", s.Backend+" "+s.Unreachable, Critical)
		}
		add(" ", s.particulars(), Plain)
		if s.Observed != nil {
			add("observed", impact.ObservedInWords(e.Observed, s.Series()), Note)
		}
	}
	out = append(onceEach(out), e.unseen()...)
	if b := e.Budget; b != nil && len(b.Parts()) > 1 {
		out = append(out, Line{Label: "worst", Text: fmt.Sprintf("%d s = %s", e.BudgetSeconds, strings.Join(b.Parts(), " + "))})
	}
	perhaps := slices.ContainsFunc(e.Chain,
		func(s ChainStep) bool { return s.Called == admission.Maybe && !s.Type.IsPolicy() })
	for _, d := range e.Deadlines {
		switch {
		case d.Missed && perhaps && !d.certain:
			out = append(out, Line{Label: "may miss", Text: d.String(), Tone: Warning})
		case d.Missed:
			out = append(out, Line{Label: "MISSES", Text: d.String(), Tone: Critical})
		}
	}
	if e.Observed != nil {
		out = append(out, Line{Text: SourceLine(e.Observed), Tone: Dim})
	}
	if c := e.Conversion; c != nil {
		out = append(out, c.line())
		if c.Unreachable != "" && c.Ref != refusal.webhook {
			out = append(out, Line{Label: "down", Name: c.Name, Text: c.Backend + " " + c.Unreachable, Tone: Critical})
		}
	}
	return out
}

// onceEach are the lines of steps; what several of them have in common is printed once.
func onceEach(all []Line) []Line {
	said := func(l Line) string { return l.Label + "\x00" + l.Text }
	return lists.Map(lists.Group(all, said), func(group []Line) Line {
		out := group[0]
		if more := len(group) - 1; more > 0 {
			out.Name += " and " + inventory.Counted(more, "other")
		}
		return out
	})
}

// unseen says which steps do not see what another one changes.
func (e Explanation) unseen() []Line {
	var blind, later []int
	for _, s := range e.Chain {
		if len(s.Unseen) > 0 {
			blind, later = append(blind, s.Step), append(later, s.Unseen...)
		}
	}
	slices.Sort(later)
	blind, later = slices.Compact(blind), slices.Compact(later)
	changes := "what a later one adds"
	switch {
	case len(blind) == 0:
		return nil
	case len(blind) == 1 && slices.Equal(blind, later):
		changes = "what each other add: policies have no order"
	case len(blind) == 1 && slices.Contains(later, blind[0]):
		changes = "what each other or " + steps(later[1:]) + " add"
	case len(blind) == 1 && len(later) == 1:
		changes = "what " + steps(later) + " adds"
	case len(blind) == 1:
		changes = "what " + steps(later) + " add"
	}
	does := "does"
	if len(blind) > 1 || slices.Contains(later, blind[0]) {
		does = "do"
	}
	return []Line{{Label: "order", Text: fmt.Sprintf("%s %s not see %s (reinvocationPolicy Never)", steps(blind), does, changes), Tone: Note}}
}

// steps names steps: "step 1", "steps 1 to 3", "steps 1, 3".
func steps(numbers []int) string {
	if len(numbers) == 1 {
		return fmt.Sprintf("step %d", numbers[0])
	}
	if last := len(numbers) - 1; last > 1 && numbers[last]-numbers[0] == last {
		return fmt.Sprintf("steps %d to %d", numbers[0], numbers[last])
	}
	return "steps " + strings.Join(lists.Map(numbers, strconv.Itoa), ", ")
}

// particulars are how often a step is taken, and what puts a policy into effect.
func (s ChainStep) particulars() string {
	var parts []string
	if s.Binding != "" {
		parts = append(parts, "binding "+s.Binding)
	}
	if len(s.ValidationActions) > 0 {
		parts = append(parts, "validationActions "+strings.Join(s.ValidationActions, " and "))
	}
	if s.Reinvocable {
		parts = append(parts, "again if the object is changed after it")
	}
	return strings.Join(parts, ", ")
}

// line says that the object is converted as well.
func (c *ConversionStep) line() Line {
	verb := "calls"
	if c.Called == admission.Maybe {
		verb = "may call"
	}
	return Line{Label: "besides", Text: fmt.Sprintf("storing it %s the conversion webhook of %s (%d s each time, not counted above): %s", verb, c.Name, c.TimeoutSeconds, c.Detail)}
}

// skipped are what stands in the way of the webhooks that are not called and of the
// policies that are not evaluated. Those whose rules ask for something else are only
// counted: they are most.
func (e Explanation) skipped(o TextOptions) []Line {
	var out []Line
	webhooks, policies := 0, 0
	for _, s := range e.Skipped {
		switch {
		case s.Why != admission.ReasonRules || o.Verbose:
			out = append(out, Line{
				Label: "skipped", Name: e.named(s.Ref), Text: "(" + s.Type.Title() + ") " + s.Because(), Tone: Dim,
			})
		case s.Type.IsPolicy():
			policies++
		default:
			webhooks++
		}
	}
	if policies+webhooks > 0 {
		others := amounts(policies, "policy", webhooks, "webhook")
		out = append(out, Line{Label: "skipped", Text: others + " whose rules do not cover the request" + o.hint(" (-v)"), Tone: Dim})
	}
	return out
}

// notes say how the request was understood, and what the answer lacks.
func (e Explanation) notes(o TextOptions) []Line {
	out := noteLines(lists.Filter(e.Notes, func(n string) bool { return !strings.HasSuffix(n, admission.Otherwise) })) // the verdict has it
	if policies, _ := e.count(); policies > 0 && o.Verbose {
		out = append(out, Line{Label: "note:", Text: "policies are evaluated by the API server itself: no call and no timeout, but a limit to the cost of their expressions", Tone: Note})
	}
	return append(out, inputLines(withLacks(e.Inputs, e.isAboutIt), e.Taken, o)...)
}

// isAboutIt reports whether the answer depends on what the input lacks.
func (e Explanation) isAboutIt(lack string) bool {
	called := func(service string) bool {
		return slices.ContainsFunc(e.Chain, func(s ChainStep) bool { return strings.HasPrefix(s.Backend+":", service) })
	}
	switch {
	case lack == "Pods or workloads":
		return false
	case lack == "Namespaces":
		return e.Request.Namespace != ""
	case lack == "CustomResourceDefinitions":
		return strings.Contains(e.Request.Group, ".") && !strings.HasSuffix(e.Request.Group, ".k8s.io")
	case lack == "Services" || lack == "EndpointSlices" || lack == "CA bundles":
		return called("Service ")
	case strings.HasPrefix(lack, "Service "):
		return called(lack + ":")
	}
	return true
}
