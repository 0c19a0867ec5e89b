package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// AuditedRequest is what "explain --request-id" prints: what an audit log records of a
// request, beside what the registrations say of such a request.
type AuditedRequest struct {
	Version string `json:"version"`
	inventory.AuditRequest
	Webhooks []AuditedStep `json:"webhooks" jsonschema:"Webhooks are those that the log names, and those that the registrations have called."`
	Notes    []string      `json:"notes"`
}

// AuditedStep is one webhook or policy.
type AuditedStep struct {
	inventory.Series
	Recorded inventory.AuditOutcome `json:"recorded,omitempty" jsonschema:"Recorded is what the log says: denied, failed, failedOpen, mutated, audited or unchanged; absent where it names the webhook nowhere."`
	Called   admission.Match        `json:"called,omitempty" jsonschema:"Called is what the registrations say: yes, no or maybe; absent where the input has no such registration."`
	Differs  bool                   `json:"differs,omitempty" jsonschema:"Differs is set where the two cannot both be true of one registration."`
	Why      string                 `json:"why,omitempty" jsonschema:"Why explains a difference, or what the log leaves open."`
}

// NewAuditedRequest compares a request of the log with its chain.
func NewAuditedRequest(log *inventory.AuditLog, c admission.Chain) AuditedRequest {
	r := log.Request
	out := AuditedRequest{
		Version: documentVersion, AuditRequest: *r, Webhooks: []AuditedStep{}, Notes: append([]string{}, c.Request.Notes...),
	}
	if r.Object == nil {
		out.Notes = append(out.Notes, "the log does not hold the object: what depends on its labels or fields is open")
	}
	seen := map[inventory.Series]bool{}
	for _, step := range slices.Concat(c.Steps, c.Skipped) {
		series := step.Webhook.Series()
		if recorded := r.At[series]; !seen[series] && (recorded != "" || step.Match != admission.No) {
			out.Webhooks = append(out.Webhooks, compareStep(log, step, recorded))
			seen[series] = true
		}
	}
	for series, recorded := range r.At {
		if !seen[series] {
			out.Webhooks = append(out.Webhooks, unregisteredStep(series, recorded))
		}
	}
	slices.SortStableFunc(out.Webhooks, func(a, b AuditedStep) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name)) })
	return out
}

// compareStep compares what is recorded of a registered webhook with its verdict.
func compareStep(log *inventory.AuditLog, step admission.Step, recorded inventory.AuditOutcome) AuditedStep {
	w := step.Webhook
	out := AuditedStep{Series: w.Series(), Recorded: recorded, Called: step.Match}
	switch {
	case recorded == "" && w.Type == inventory.Validating:
		out.Why = "a log records no validating webhook that let a request pass"
	case recorded == "" && step.Match == admission.Maybe:
		out.Why = "not called: a log records every call of a mutating webhook"
	case recorded == "" && log.Request.Code >= 400:
		out.Why = "not called: the request was refused before its turn"
	case recorded == "":
		out.Differs, out.Why = true, "not called: registered, or changed, after the request; or the API server does not call it for this request"
	case step.Match == admission.No:
		out.Differs, out.Why = true, fmt.Sprintf("it would be skipped now (%s); %s", skippedStep(&w.Registration, "", step.Verdict).Because(), "the registration, or the labels that it selects by, have changed since")
	}
	return out
}

// unregisteredStep is a webhook of the log that the input does not have.
func unregisteredStep(series inventory.Series, recorded inventory.AuditOutcome) AuditedStep {
	out := AuditedStep{Series: series, Recorded: recorded, Differs: true}
	switch {
	case strings.HasSuffix(series.Name, inventory.StaticSuffix):
		out.Why = "it comes from a file of the API server, which no object shows"
	case series.Type == inventory.MutatingPolicy || series.Type == inventory.ValidatingPolicy:
		out.Differs, out.Why = false, "whether a policy is called is not compared"
	case series.Type == inventory.Conversion:
		out.Differs, out.Why = false, "conversions are no part of admission"
	default:
		out.Why = "nothing registers it: removed since, or the log is of another cluster"
	}
	return out
}

// Text is the request, and what is recorded and registered of each webhook.
func (r AuditedRequest) Text(TextOptions) Blocks {
	where := ""
	if r.Namespace != "" {
		where = " in namespace " + r.Namespace
	}
	title := fmt.Sprintf("%s: %s %s%s by %s: %d %s", formatTime(r.Time), r.Verb, strings.TrimSpace(r.Resource.String()+" "+r.Name), where, inventory.UserName(r.User), r.Code, r.Message)
	var notes, steps []Line
	for _, note := range r.Notes {
		notes = append(notes, Line{Label: "note:", Text: note, Tone: Note})
	}
	for _, step := range r.Webhooks {
		line := Line{Label: " ", Name: step.Name, Aside: step.Type.Title(), Text: "recorded: " + cmp.Or(string(step.Recorded), "nothing") + "; called by what is registered: " + cmp.Or(string(step.Called), "not registered")}
		if step.Differs {
			line.Label, line.Tone = "DIFFERS", Critical
		}
		if step.Why != "" {
			line.Text += " (" + step.Why + ")"
		}
		steps = append(steps, line)
	}
	if len(steps) == 0 {
		steps = Sentences("No webhook and no policy is recorded, and none is registered for such a request.")
	}
	return append(Blocks{{Heading: strings.TrimSpace(title)}}, Blocks{{Lines: notes}, {Lines: steps}}.NonEmpty()...)
}
