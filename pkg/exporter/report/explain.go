package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Explanation is a chain as "explain -o json" prints it.
type Explanation struct {
	Version string           `json:"version"`
	Request ExplainedRequest `json:"request"`
	// Notes say how the request was understood, and what the answer leaves open.
	Notes []string `json:"notes,omitempty"`
	// Chain are the policies that are evaluated and the webhooks that are called, or may
	// be, in order.
	Chain   []ChainStep   `json:"chain"`
	Skipped []SkippedStep `json:"skipped"`
	// BudgetSeconds is the worst case: how long the request waits if every
	// webhook answers just before its timeout. Policies are evaluated by the API server
	// itself, and add nothing.
	BudgetSeconds int `json:"budgetSeconds"`
	// ObservedSeconds is what the chain took, where that was observed.
	ObservedSeconds *ObservedSeconds `json:"observedSeconds,omitempty"`
	// Observed is where observed values come from.
	Observed *Observation `json:"observed,omitempty"`
	// Line is which of many requests it answers; 0 where there is one.
	Line int `json:"line,omitempty"`
}

// ObservedSeconds is what a chain took: the sum of the mutating webhooks, which
// are called one by one, and the slowest validating one. The sum of quantiles is
// no quantile of the sum, but near it.
type ObservedSeconds struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	// Beyond says that a quantile is more than could be measured.
	Beyond bool `json:"beyond,omitempty"`
	// Measured counts the webhooks that were called, Webhooks those of the chain.
	Measured int `json:"measured"`
	Webhooks int `json:"webhooks"`
}

// Explained is a chain, and what goes with it.
type Explained struct {
	admission.Chain
	// Line is which of many requests it answers; 0 where there is one.
	Line int
	// Observed is nil where no source was read, AuditLog without an audit log.
	Observed *inventory.Observation
	AuditLog *inventory.AuditLog
}

// ExplainedRequest is the request of an Explanation.
type ExplainedRequest struct {
	Operation   admission.Operation `json:"operation"`
	Group       string              `json:"group"`
	Version     string              `json:"version"`
	Resource    string              `json:"resource"`
	Subresource string              `json:"subresource"`
	Namespace   string              `json:"namespace"`
}

// ChainStep is a webhook of the chain, or a policy with a binding.
type ChainStep struct {
	// Step counts from 1. Validating webhooks share one: they are called at once. So do
	// the policies of a type, among which the API server has no order.
	Step          int            `json:"step"`
	Type          inventory.Type `json:"type"`
	Configuration string         `json:"configuration"`
	Name          string         `json:"name"`
	// Binding is that of a policy, where it is not the policy that decides.
	Binding string `json:"binding,omitempty"`
	// ValidationActions are those of the binding of a validating policy.
	ValidationActions []string `json:"validationActions,omitempty"`
	FailurePolicy     string   `json:"failurePolicy"`
	// TimeoutSeconds is that of a webhook: policies have none.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
	// Called says whether a webhook is called, or a policy evaluated.
	Called admission.Match `json:"called"`
	// Reinvocable is set where that may be done again, if the object is changed after it.
	Reinvocable bool `json:"reinvocable,omitempty"`
	// Refuses is set where the request is refused instead of sent to the webhook.
	Refuses bool `json:"refuses,omitempty"`
	// Detail is what decides, where that is not the request alone.
	Detail string `json:"detail,omitempty"`
	// Observed is what was measured of the webhook, for all its requests.
	Observed *Observed `json:"observed,omitempty"`
	// AuditLog has a sentence without a subject for each outcome of requests that the
	// audit log records of the webhook.
	AuditLog []string `json:"auditLog,omitempty"`
}

// SkippedStep is a webhook that is not called, or a policy that is not evaluated.
type SkippedStep struct {
	Type          inventory.Type   `json:"type"`
	Configuration string           `json:"configuration"`
	Name          string           `json:"name"`
	Binding       string           `json:"binding,omitempty"`
	Why           admission.Reason `json:"why"`
}

// NewExplanation returns the chain as JSON prints it.
func NewExplanation(c Explained) Explanation {
	r := c.Request
	e := Explanation{
		Version:       documentVersion,
		Request:       ExplainedRequest{r.Operation, r.Resource.Group, r.Version, r.Resource.Name, r.Resource.Subresource, r.Namespace},
		Notes:         r.Notes,
		Chain:         chainSteps(c),
		Skipped:       make([]SkippedStep, 0, len(c.Skipped)+len(c.SkippedPolicies)),
		BudgetSeconds: wholeSeconds(c.Budget().Total()),
		Line:          c.Line,
	}
	if c.Observed != nil {
		e.Observed, e.ObservedSeconds = newObservation(c.Observed), observedSeconds(c)
	}
	for _, step := range c.SkippedPolicies {
		e.Skipped = append(e.Skipped, SkippedStep{step.Policy.Type, step.Policy.Configuration, step.Policy.Name, bindingName(step), step.Reason})
	}
	for _, step := range c.Skipped {
		e.Skipped = append(e.Skipped, SkippedStep{step.Webhook.Type, step.Webhook.Configuration, step.Webhook.Name, "", step.Reason})
	}
	return e
}

// chainSteps are all steps in the order of the request: policies before the webhooks
// of what they do.
func chainSteps(c Explained) []ChainStep {
	out := make([]ChainStep, 0, len(c.Policies)+len(c.Steps))
	place := 0
	add := func(s ChainStep) {
		if len(out) == 0 || s.Type == inventory.Mutating || s.Type != out[len(out)-1].Type {
			place++
		}
		s.Step = place
		out = append(out, s)
	}
	for _, t := range []inventory.Type{inventory.MutatingPolicy, inventory.Mutating, inventory.ValidatingPolicy, inventory.Validating} {
		for _, step := range c.Policies {
			if step.Policy.Type == t {
				add(newPolicyStep(step, c.Request.Operation))
			}
		}
		for _, step := range c.Steps {
			if step.Webhook.Type == t {
				add(newWebhookStep(step, c))
			}
		}
	}
	return out
}

func newWebhookStep(step admission.Step, c Explained) ChainStep {
	w := step.Webhook
	return ChainStep{
		Type: w.Type, Configuration: w.Configuration, Name: w.Name,
		FailurePolicy: string(w.FailurePolicy), TimeoutSeconds: wholeSeconds(w.Timeout),
		Called: step.Match, Refuses: step.Refused, Detail: step.Detail,
		Reinvocable: (admission.Budget{}).Add(w, c.Request.Operation).Reinvocable > 0,
		Observed:    newObserved(c.Observed, w.Series()),
		AuditLog:    c.AuditLog.Evidence(w.Series()),
	}
}

func newPolicyStep(step admission.PolicyStep, op admission.Operation) ChainStep {
	p := step.Policy
	out := ChainStep{
		Type: p.Type, Configuration: p.Configuration, Name: p.Name, Binding: bindingName(step),
		FailurePolicy: string(p.FailurePolicy),
		Called:        step.Match, Refuses: step.Refused, Detail: step.Detail,
		Reinvocable: p.Reinvocation == admissionv1.IfNeededReinvocationPolicy && op != admission.Delete,
	}
	if step.Binding != nil {
		out.ValidationActions = text.Strings(step.Binding.Actions)
	}
	return out
}

// bindingName names the binding, "" where it is not the binding that decides.
func bindingName(step admission.PolicyStep) string {
	if step.Binding == nil {
		return ""
	}
	return step.Binding.Object.Name
}

func wholeSeconds(d time.Duration) int { return int(d.Seconds()) }

// observedSeconds adds up what was measured of the webhooks of a chain.
func observedSeconds(c Explained) *ObservedSeconds {
	out := &ObservedSeconds{Webhooks: len(c.Steps)}
	var slowest50, slowest99 float64
	for _, step := range c.Steps {
		b := c.Observed.Webhooks[step.Webhook.Series()]
		if !b.P50.Known {
			continue
		}
		out.Measured++
		out.Beyond = out.Beyond || b.P99.Beyond
		if step.Webhook.Type == inventory.Mutating {
			out.P50 += b.P50.Seconds
			out.P99 += b.P99.Seconds
			continue
		}
		slowest50, slowest99 = max(slowest50, b.P50.Seconds), max(slowest99, b.P99.Seconds)
	}
	out.P50 += slowest50
	out.P99 += slowest99
	return out
}

// WriteExplainJSON writes the chain as JSON.
func WriteExplainJSON(w io.Writer, c Explained) error {
	return encode(w, NewExplanation(c), "the chain")
}

// Deadline is what a worst case is compared with.
type Deadline struct {
	After time.Duration
	Whose string
}

// Deadlines are those of a request with the operation.
func Deadlines(op admission.Operation) []Deadline {
	out := []Deadline{
		// Source: k8s.io/kubernetes/pkg/kubelet (lease of a node) and
		// k8s.io/client-go/tools/leaderelection (renew deadline).
		{10 * time.Second, "in which leaders and nodes must renew their leases"},
		// Source: kubectl and the control plane's clients set it themselves.
		{30 * time.Second, "after which most clients give up"},
	}
	// Source: requestTimeoutUpperBound in k8s.io/apiserver/pkg/endpoints/handlers, for
	// whatever failurePolicy. The deletion of a collection has --request-timeout alone,
	// and a CONNECT not even that.
	switch op {
	case admission.Connect:
		return out
	case admission.Delete:
		return append(out, Deadline{34 * time.Second, "after which the API server ends a write (60 s if it deletes a collection)"})
	}
	return append(out, Deadline{34 * time.Second, "after which the API server ends a write"})
}

// PolicyCost says what policies cost a request; its subject are the policies.
const PolicyCost = "are evaluated by the API server itself: no call and no timeout, but a limit to the cost of their expressions"

// WriteExplainText writes the chain for a terminal: what is called in which
// order, what it costs at worst, and what is skipped.
func WriteExplainText(w io.Writer, c Explained, o TextOptions) error {
	b := bufio.NewWriter(w)
	p := printer{b, o}
	p.paragraph(word{}, slices.Concat(words(title(c.Request), bold), words(summary(c.Chain), plain)))
	for _, note := range c.Request.Notes {
		p.paragraph(word{"note: ", cyan}, words(note, plain))
	}
	p.newline()
	e := NewExplanation(c)
	p.steps(e)
	if len(c.Policies) > 0 {
		p.paragraph(word{fmt.Sprintf("%-*s", margin, "policies"), bold}, words(PolicyCost, plain))
		p.newline()
	}
	if len(c.Steps) > 0 {
		p.budget(c.Chain)
		p.observed(e)
	}
	p.conversion(c.Conversion)
	p.skipped(c.Chain)
	return flush(b)
}

func title(r admission.Request) string {
	text := fmt.Sprintf("%s %s (%s)", r.Operation, r.Resource, r.Version)
	if r.Namespace != "" {
		text += " in namespace " + r.Namespace
	}
	return text
}

func summary(c admission.Chain) string {
	skipped := len(c.Skipped) + len(c.SkippedPolicies)
	met := countedPolicies(len(c.Policies))
	switch {
	case len(c.Steps) == 0 && len(c.Policies) == 0:
		return fmt.Sprintf("meets no webhook; %d skipped.", skipped)
	case len(c.Steps) == 0:
		return fmt.Sprintf("meets %s and no webhook; %d skipped.", met, skipped)
	case len(c.Policies) > 0:
		met += " and "
	}
	return fmt.Sprintf("meets %s%s, %d s at worst; %d skipped.", met, inventory.Counted(len(c.Steps), "webhook"), wholeSeconds(c.Budget().Total()), skipped)
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
	switch {
	case !step.Type.IsPolicy():
		return "[configuration " + step.Configuration + "]"
	case step.Binding != "":
		return "[binding " + step.Binding + "]"
	}
	return ""
}

// budget writes the worst case and the deadlines that it misses.
func (p printer) budget(c admission.Chain) {
	b := c.Budget()
	var parts []string
	for _, part := range []struct {
		seconds time.Duration
		what    string
	}{
		{b.Mutating, "mutating, one after the other"},
		{b.Reinvocable, "called again"},
		{b.Validating, "the slowest validating one"},
	} {
		if part.seconds > 0 {
			parts = append(parts, fmt.Sprintf("%d s %s", wholeSeconds(part.seconds), part.what))
		}
	}
	p.paragraph(word{fmt.Sprintf("%-*s", margin, "worst:"), bold}, words(fmt.Sprintf("%d s = %s", wholeSeconds(b.Total()), strings.Join(parts, " + ")), plain))
	for _, d := range Deadlines(c.Request.Operation) {
		label, text := word{fmt.Sprintf("%-*s", margin, "  within"), green}, ""
		if b.Total() >= d.After {
			label = word{fmt.Sprintf("%-*s", margin, "  MISSES"), red}
		}
		text = fmt.Sprintf("the %d s %s", wholeSeconds(d.After), d.Whose)
		p.paragraph(label, words(text, plain))
	}
	p.newline()
}

// observed sets what the chain took beside its worst case.
func (p printer) observed(e Explanation) {
	if e.ObservedSeconds == nil {
		return
	}
	o := e.ObservedSeconds
	text := fmt.Sprintf("none of its %s was called", inventory.Counted(o.Webhooks, "webhook"))
	if o.Measured > 0 {
		text = fmt.Sprintf("half of the requests wait about %s, one in a hundred %s, by the calls of %d of its %s", quantile(&o.P50, false), quantile(&o.P99, o.Beyond), o.Measured, inventory.Counted(o.Webhooks, "webhook"))
	}
	p.paragraph(word{fmt.Sprintf("%-*s", margin, "observed:"), bold}, words(text, plain))
	p.paragraph(word{strings.Repeat(" ", margin), plain}, words(e.Observed.sourceLine(), dim))
	p.newline()
}

// conversion writes that the object is converted as well.
func (p printer) conversion(step *admission.Step) {
	if step == nil {
		return
	}
	verb := "calls"
	if step.Match == admission.Maybe {
		verb = "may call"
	}
	text := fmt.Sprintf("besides, storing it %s the conversion webhook of %s (%d s each time, not counted above): %s",
		verb, step.Webhook.Name, wholeSeconds(step.Webhook.Timeout), step.Detail)
	p.paragraph(word{}, words(text, plain))
	p.newline()
}

// skipped writes what stands in the way of the webhooks that are not called and of the
// policies that are not evaluated. Those whose rules ask for something else are only
// counted: they are most.
func (p printer) skipped(c admission.Chain) {
	webhooks, policies := 0, 0
	for _, step := range c.SkippedPolicies {
		if step.Reason == admission.ReasonRules {
			policies++
			continue
		}
		p.skippedStep(&step.Policy.Registration, step.Verdict, "")
	}
	for _, step := range c.Skipped {
		if step.Reason == admission.ReasonRules {
			webhooks++
			continue
		}
		p.skippedStep(&step.Webhook.Registration, step.Verdict, "[configuration "+step.Webhook.Configuration+"]")
	}
	var others []string
	if policies > 0 {
		others = append(others, countedPolicies(policies))
	}
	if webhooks > 0 {
		others = append(others, inventory.Counted(webhooks, "webhook"))
	}
	if len(others) > 0 {
		p.paragraph(word{fmt.Sprintf("%-*s", margin, "skipped"), dim}, words(strings.Join(others, " and ")+" whose rules do not cover it", plain))
	}
}

func (p printer) skippedStep(r *inventory.Registration, v admission.Verdict, registeredBy string) {
	line := slices.Concat(words(string(r.Type), dim), words(r.Name, bold), words(SkippedBecause(r, v), plain), words(registeredBy, dim))
	p.paragraph(word{fmt.Sprintf("%-*s", margin, "skipped"), dim}, line)
}

// SkippedBecause is why a webhook or policy is skipped.
func SkippedBecause(r *inventory.Registration, v admission.Verdict) string {
	switch v.Reason {
	case admission.ReasonExcluded:
		if r.Type.IsPolicy() {
			return "excluded: the API server evaluates no policy for it"
		}
		return "excluded: the API server calls no webhook for it"
	case admission.ReasonScope:
		return "scope: its rules ask for the other scope"
	case admission.ReasonNamespaceSelector:
		return "namespaceSelector: the namespace is not selected by " + r.NamespaceSelector.String()
	case admission.ReasonObjectSelector:
		return "objectSelector: the object is not selected by " + r.ObjectSelector.String()
	case admission.ReasonExcludeRules:
		return "excludeResourceRules: one of them covers it"
	}
	return fmt.Sprintf("%s: %s", v.Reason, v.Detail)
}
