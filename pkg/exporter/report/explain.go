package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Explanation is a chain as "explain -o json" prints it.
type Explanation struct {
	Version string           `json:"version"`
	Request ExplainedRequest `json:"request"`
	// Chain are the webhooks that are called, or may be, in order.
	Chain   []ChainStep   `json:"chain"`
	Skipped []SkippedStep `json:"skipped"`
	// BudgetSeconds is the worst case: how long the request waits if every
	// webhook answers just before its timeout.
	BudgetSeconds int `json:"budgetSeconds"`
	// Line is which of many requests it answers; 0 where there is one.
	Line int `json:"line,omitempty"`
}

// ExplainedRequest is the request of an Explanation.
type ExplainedRequest struct {
	Operation   inventory.Operation `json:"operation"`
	Group       string              `json:"group"`
	Version     string              `json:"version"`
	Resource    string              `json:"resource"`
	Subresource string              `json:"subresource"`
	Namespace   string              `json:"namespace"`
}

// ChainStep is a webhook of the chain.
type ChainStep struct {
	// Step counts from 1. Validating webhooks share one: they are called at
	// once.
	Step           int             `json:"step"`
	Type           inventory.Type  `json:"type"`
	Configuration  string          `json:"configuration"`
	Name           string          `json:"name"`
	FailurePolicy  string          `json:"failurePolicy"`
	TimeoutSeconds int             `json:"timeoutSeconds"`
	Called         admission.Match `json:"called"`
	// Refuses is set where the request is refused instead of sent to the webhook.
	Refuses bool `json:"refuses,omitempty"`
	// Detail is what decides, where that is not the request alone.
	Detail string `json:"detail,omitempty"`
}

// SkippedStep is a webhook that is not called.
type SkippedStep struct {
	Type          inventory.Type   `json:"type"`
	Configuration string           `json:"configuration"`
	Name          string           `json:"name"`
	Why           admission.Reason `json:"why"`
}

// NewExplanation returns the chain as JSON prints it.
func NewExplanation(c admission.Chain) Explanation {
	r := c.Request
	e := Explanation{
		Version:       documentVersion,
		Request:       ExplainedRequest{r.Operation, r.Resource.Group, r.Version, r.Resource.Name, r.Resource.Subresource, r.Namespace},
		Chain:         make([]ChainStep, 0, len(c.Steps)),
		Skipped:       make([]SkippedStep, 0, len(c.Skipped)),
		BudgetSeconds: wholeSeconds(c.Budget().Total()),
	}
	place := 0
	for i, step := range c.Steps {
		w := step.Webhook
		if i == 0 || w.Type == inventory.Mutating || c.Steps[i-1].Webhook.Type == inventory.Mutating {
			place++
		}
		e.Chain = append(e.Chain, ChainStep{
			Step: place, Type: w.Type, Configuration: w.Configuration, Name: w.Name,
			FailurePolicy: string(w.FailurePolicy), TimeoutSeconds: wholeSeconds(w.Timeout),
			Called: step.Match, Refuses: step.Refused, Detail: step.Detail,
		})
	}
	for _, step := range c.Skipped {
		e.Skipped = append(e.Skipped, SkippedStep{step.Webhook.Type, step.Webhook.Configuration, step.Webhook.Name, step.Reason})
	}
	return e
}

func wholeSeconds(d time.Duration) int { return int(d.Seconds()) }

// WriteExplainJSON writes the chain as JSON, with the line of the request in a
// file of requests; 0 is none.
func WriteExplainJSON(w io.Writer, c admission.Chain, line int) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	explanation := NewExplanation(c)
	explanation.Line = line
	if err := e.Encode(explanation); err != nil {
		return fmt.Errorf("writing the chain: %w", err)
	}
	return nil
}

// deadlines are what a worst case is held against.
var deadlines = []struct {
	after time.Duration
	whose string
}{
	// Source: k8s.io/kubernetes/pkg/kubelet (lease of a node) and
	// k8s.io/client-go/tools/leaderelection (renew deadline).
	{10 * time.Second, "in which leaders and nodes must renew their leases"},
	// Source: kubectl and the control plane's clients set it themselves.
	{30 * time.Second, "after which most clients give up"},
	// Source: --request-timeout of kube-apiserver, for whatever failurePolicy.
	{60 * time.Second, "after which the API server ends any request"},
}

// WriteExplainText writes the chain for a terminal: what is called in which
// order, what it costs at worst, and what is skipped.
func WriteExplainText(w io.Writer, c admission.Chain, o TextOptions) error {
	b := bufio.NewWriter(w)
	p := printer{b, o}
	p.paragraph(word{}, slices.Concat(words(title(c.Request), bold), words(summary(c), plain)))
	for _, note := range c.Request.Notes {
		p.paragraph(word{"note: ", cyan}, words(note, plain))
	}
	p.newline()
	if len(c.Steps) > 0 {
		p.steps(c)
		p.budget(c.Budget())
	}
	p.conversion(c.Conversion)
	p.skipped(c)
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
	if len(c.Steps) == 0 {
		return fmt.Sprintf("meets no webhook; %d skipped.", len(c.Skipped))
	}
	return fmt.Sprintf("meets %s, %d s at worst; %d skipped.", counted(len(c.Steps), "webhook"), wholeSeconds(c.Budget().Total()), len(c.Skipped))
}

// steps writes one line per webhook that is called.
func (p printer) steps(c admission.Chain) {
	e := NewExplanation(c)
	for i, step := range e.Chain {
		label := fmt.Sprintf("%*d. ", margin-2, step.Step)
		line := slices.Concat(
			words(string(step.Type), dim), words(step.Name, bold),
			words(fmt.Sprintf("failurePolicy %s, %d s%s", step.FailurePolicy, step.TimeoutSeconds, again(c, i)), plain),
			words("[configuration "+step.Configuration+"]", dim),
		)
		switch {
		case step.Refuses:
			line = append(line, words("refused: "+step.Detail, red)...)
		case step.Called == admission.Maybe:
			line = append(line, words("maybe: "+step.Detail, yellow)...)
		}
		p.paragraph(word{label, plain}, line)
	}
	p.newline()
}

// again is a note on a mutating webhook that may be called a second time.
func again(c admission.Chain, i int) string {
	if one := (admission.Budget{}).Add(c.Steps[i].Webhook, c.Request.Operation); one.Reinvocable > 0 {
		return ", again if the object is changed after it"
	}
	return ""
}

// budget writes the worst case and the deadlines that it misses.
func (p printer) budget(b admission.Budget) {
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
	for _, d := range deadlines {
		label, text := word{fmt.Sprintf("%-*s", margin, "  within"), green}, ""
		if b.Total() >= d.after {
			label = word{fmt.Sprintf("%-*s", margin, "  MISSES"), red}
		}
		text = fmt.Sprintf("the %d s %s", wholeSeconds(d.after), d.whose)
		p.paragraph(label, words(text, plain))
	}
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

// skipped writes what stands in the way of the webhooks that are not called.
// Those whose rules ask for something else are only counted: they are most.
func (p printer) skipped(c admission.Chain) {
	others := 0
	for _, step := range c.Skipped {
		if step.Reason == admission.ReasonRules {
			others++
			continue
		}
		line := slices.Concat(
			words(string(step.Webhook.Type), dim), words(step.Webhook.Name, bold),
			words(reason(step), plain), words("[configuration "+step.Webhook.Configuration+"]", dim),
		)
		p.paragraph(word{fmt.Sprintf("%-*s", margin, "skipped"), dim}, line)
	}
	if others > 0 {
		p.paragraph(word{fmt.Sprintf("%-*s", margin, "skipped"), dim}, words(fmt.Sprintf("%s whose rules do not cover it", counted(others, "webhook")), plain))
	}
}

// reason is why a webhook is skipped.
func reason(step admission.Step) string {
	switch step.Reason {
	case admission.ReasonExcluded:
		return "excluded: the API server calls no webhook for it"
	case admission.ReasonScope:
		return "scope: its rules ask for the other scope"
	case admission.ReasonNamespaceSelector:
		return "namespaceSelector: the namespace is not selected by " + step.Webhook.NamespaceSelector.String()
	case admission.ReasonObjectSelector:
		return "objectSelector: the object is not selected by " + step.Webhook.ObjectSelector.String()
	}
	return fmt.Sprintf("%s: %s", step.Reason, step.Detail)
}
