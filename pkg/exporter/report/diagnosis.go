package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/diagnose"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// diagnosis is what "explain --error -o json" prints.
type diagnosis struct {
	Version string `json:"version"`
	// Errors are those of the text that are about webhooks and policies, in its order.
	Errors []diagnosedError `json:"errors"`
	// Inputs are the paths that were read; absent for a cluster.
	Inputs []Input `json:"inputs,omitempty"`
}

// diagnosedError is one error of an API server, with what the Snapshot has on it.
type diagnosedError struct {
	// Webhook is the name of an admission webhook; Converted is the kind that was
	// to be converted. Both are empty where the error names neither.
	Webhook   string `json:"webhook"`
	Converted string `json:"converted,omitempty"`
	// Policy is the policy that it is about, where it is about one.
	Policy  *diagnosedPolicy `json:"policy,omitempty"`
	URL     string           `json:"url,omitempty"`
	Cause   diagnose.Cause   `json:"cause"`
	Meaning string           `json:"meaning"`
	Detail  string           `json:"detail"`
	Fix     string           `json:"fix"`
	// Webhooks are all that register the name.
	Webhooks []Webhook `json:"webhooks"`
	// Findings are those about them, those with the same cause first.
	Findings []Finding `json:"findings"`
	Notes    []string  `json:"notes"`
}

// diagnosedPolicy is an admission policy that an error names.
type diagnosedPolicy struct {
	inventory.Series
	Binding string `json:"binding,omitempty"`
	// FailurePolicy is empty where the input has no such policy.
	FailurePolicy string `json:"failurePolicy,omitempty"`
}

func newDiagnosedPolicy(a diagnose.Answer) *diagnosedPolicy {
	if a.Policy.Name == "" {
		return nil
	}
	out := &diagnosedPolicy{Series: a.Policy.Series(), Binding: a.Binding}
	if a.AdmissionPolicy != nil {
		out.FailurePolicy = string(a.AdmissionPolicy.FailurePolicy)
	}
	return out
}

// newDiagnosis returns the answers as JSON prints them.
func newDiagnosis(answers []diagnose.Answer, s *inventory.Snapshot) diagnosis {
	d := diagnosis{Version: documentVersion, Errors: make([]diagnosedError, 0, len(answers)), Inputs: newInputs(s)}
	for _, a := range answers {
		e := diagnosedError{
			Webhook: a.Webhook, Converted: converted(a.APIServerError), Policy: newDiagnosedPolicy(a), URL: a.URL,
			Cause: a.Cause, Meaning: a.Meaning, Detail: a.Detail, Fix: a.Fix,
			Webhooks: []Webhook{}, Findings: []Finding{}, Notes: append([]string{}, a.Notes...),
		}
		for _, p := range a.Profiles {
			e.Webhooks = append(e.Webhooks, newWebhook(p, s))
		}
		for _, f := range a.Findings {
			e.Findings = append(e.Findings, newFinding(f))
		}
		d.Errors = append(d.Errors, e)
	}
	return d
}

// converted writes the kind that was to be converted as the API server does.
func converted(c diagnose.APIServerError) string {
	if c.Kind == "" {
		return ""
	}
	return fmt.Sprintf("%s/%s, Kind=%s", c.Group, c.Version, c.Kind)
}

// WriteDiagnosisJSON writes the answers as JSON.
func WriteDiagnosisJSON(w io.Writer, answers []diagnose.Answer, s *inventory.Snapshot) error {
	return encode(w, newDiagnosis(answers, s), "the diagnosis")
}

// WriteDiagnosisText writes the answers for a terminal: what happened, to
// which webhook, what is known of it and the way out.
func WriteDiagnosisText(w io.Writer, answers []diagnose.Answer, s *inventory.Snapshot, o TextOptions) error {
	b := bufio.NewWriter(w)
	p := printer{b, o}
	for i, a := range answers {
		if i > 0 {
			p.newline()
		}
		p.answer(a)
	}
	for i, line := range InputNotes(s) {
		if i == 0 {
			p.newline()
		}
		p.paragraph(word{}, words(line, dim))
	}
	return flush(b)
}

func (p printer) answer(a diagnose.Answer) {
	p.paragraph(word{}, slices.Concat(words(errorTitle(a.APIServerError), bold), words(string(a.Cause), red)))
	p.labeled("means:", words(a.Meaning, plain))
	if a.Detail != "" {
		p.labeled("error:", words(text.Clean(a.Detail), dim))
	}
	for _, profile := range a.Profiles {
		p.labeled("webhook:", webhookLine(profile))
	}
	if policy := a.AdmissionPolicy; policy != nil {
		p.labeled("policy:", policyLine(policy))
	}
	for _, f := range a.Findings[:a.Related] {
		p.labeled("finding:", slices.Concat(words(f.Severity.String()+" "+f.Check.Name+":", bold), words(f.Message, plain)))
	}
	p.labeled("fix:", words(a.Fix, plain))
	for _, note := range a.Notes {
		p.labeled("note:", words(note, cyan))
	}
	if others := otherChecks(a); len(others) > 0 {
		p.labeled("also:", words(fmt.Sprintf("other findings about it: %s", strings.Join(others, ", ")), dim))
	}
}

// labeled writes a paragraph with a label in the margin.
func (p printer) labeled(label string, text []word) {
	p.paragraph(word{fmt.Sprintf("%-*s", margin, label), bold}, text)
}

func errorTitle(c diagnose.APIServerError) string {
	switch {
	case c.Kind != "":
		return "Conversion of " + converted(c) + ":"
	case c.Webhook != "":
		return "Webhook " + c.Webhook + ":"
	case c.Binding != "":
		return "Policy " + c.Policy.Name + " with binding " + c.Binding + ":"
	case c.Policy.Name != "":
		return "Policy " + c.Policy.Name + ":"
	}
	return "A webhook that the error does not name:"
}

// webhookLine is one line on a webhook: where it is and what its failure does.
func webhookLine(p *classify.Profile) []word {
	text := fmt.Sprintf("failurePolicy %s, %d s, calls %s", p.FailurePolicy, wholeSeconds(p.Timeout), p.Webhook.Backend)
	if p.Type == inventory.Conversion {
		text = fmt.Sprintf("%d s a call, calls %s", wholeSeconds(p.Timeout), p.Webhook.Backend)
	}
	if owner := p.Object.Owner.String(); owner != "" {
		text += ", owner " + owner
	}
	line := slices.Concat(words(string(p.Type), dim), words(p.Name, bold), words(text, plain), words("[configuration "+p.Configuration+"]", dim))
	if file := p.Object.Source.File; file != "" {
		line = append(line, words(Source{file, p.Object.Source.Line}.String(), dim)...)
	}
	return line
}

// policyLine is one line on a policy: what its failure does, and what binds it.
func policyLine(p *inventory.AdmissionPolicy) []word {
	text := fmt.Sprintf("failurePolicy %s, %s", p.FailurePolicy, inventory.Counted(len(p.Bindings), "binding"))
	if owner := p.Object.Owner.String(); owner != "" {
		text += ", owner " + owner
	}
	line := slices.Concat(words(string(p.Type), dim), words(p.Name, bold), words(text, plain))
	if file := p.Object.Source.File; file != "" {
		line = append(line, words(Source{file, p.Object.Source.Line}.String(), dim)...)
	}
	return line
}

// otherChecks names the checks of the findings that have another cause.
func otherChecks(a diagnose.Answer) []string {
	var out []string
	for _, f := range a.Findings[a.Related:] {
		if !slices.Contains(out, f.Check.Name) {
			out = append(out, f.Check.Name)
		}
	}
	return out
}
