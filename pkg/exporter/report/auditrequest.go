package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
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

// AuditedStep is one call of a mutating webhook, or another webhook or policy.
type AuditedStep struct {
	inventory.Series
	Call     *inventory.AuditCall   `json:"call,omitempty" jsonschema:"Call is what the log records of a call of a mutating webhook."`
	Computed []inventory.Change     `json:"computed,omitempty" jsonschema:"Computed is what a mutating policy changes, of which a log says nothing; absent where its expressions need more than is known."`
	Recorded inventory.AuditOutcome `json:"recorded,omitempty" jsonschema:"Recorded is what the log says: denied, failed, failedOpen, mutated, audited or unchanged; absent where it names the webhook nowhere."`
	Called   admission.Match        `json:"called,omitempty" jsonschema:"Called is what the registrations say: yes, no or maybe; absent where the input has no such registration."`
	Differs  bool                   `json:"differs,omitempty" jsonschema:"Differs is set where the two cannot both be true of one registration."`
	Why      string                 `json:"why,omitempty" jsonschema:"Why explains a difference, or what the log leaves open."`
}

// NewAuditedRequest compares a request of the log with its chain: mutating policies come
// first, then the calls in their order.
func NewAuditedRequest(s *inventory.Snapshot, c admission.Chain) AuditedRequest {
	log, r := s.AuditLog, s.AuditLog.Request
	out := AuditedRequest{
		Version: documentVersion, AuditRequest: *r, Webhooks: policySteps(c),
		Notes: append([]string{}, c.Request.Notes...),
	}
	if r.Object == nil {
		out.Notes = append(out.Notes, "the log does not hold the object: what depends on its labels or fields is open")
	}
	if r.Verb == "deletecollection" {
		out.Notes = append(out.Notes, "it deletes many objects, and the log holds the calls of one of them")
	}
	out.Notes = append(out.Notes, patchNotes(log)...)
	compared := map[inventory.Series]AuditedStep{}
	for _, step := range slices.Concat(c.Steps, c.Skipped) {
		series := step.Webhook.Series()
		recorded := r.At[series]
		if _, isKnown := compared[series]; !isKnown && (recorded != "" || step.Match != admission.No) {
			compared[series] = compareStep(log, step, recorded)
		}
	}
	for series, recorded := range r.At {
		if _, isKnown := compared[series]; !isKnown {
			compared[series] = unregisteredStep(s, series, recorded)
		}
	}
	for i, call := range r.Calls {
		step := compared[inventory.Series{Type: inventory.Mutating, Name: call.Webhook}]
		step.Call, step.Recorded = &r.Calls[i], call.Outcome
		out.Webhooks = append(out.Webhooks, step)
	}
	for _, call := range r.Calls {
		delete(compared, inventory.Series{Type: inventory.Mutating, Name: call.Webhook})
	}
	byName := func(a, b AuditedStep) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name)) }
	out.Webhooks = append(out.Webhooks, slices.SortedFunc(maps.Values(compared), byName)...)
	if len(s.Webhooks)+len(s.Policies) == 0 && len(out.Webhooks) > 0 {
		out.Notes = append(out.Notes, registrationsUnknown)
	}
	out.markOverwritten()
	return out
}

// patchNotes say what the log lacks of the changes.
func patchNotes(log *inventory.AuditLog) []string {
	r := log.Request
	lacks := func(c inventory.AuditCall) bool { return c.Outcome == inventory.AuditMutated && c.Patch == nil }
	switch {
	case !slices.ContainsFunc(r.Calls, lacks):
		return nil
	case strings.HasPrefix(r.Level, "Request"):
		return append([]string{"a patch is not in the log, or cannot be read"}, log.Breaks...)
	}
	return []string{fmt.Sprintf("this log, of level %s, has no patch: which fields were changed needs level Request for %s in the audit policy", cmp.Or(r.Level, "Metadata"), r.Resource)}
}

// policySteps are the mutating policies, which come before the webhooks.
func policySteps(c admission.Chain) []AuditedStep {
	out := []AuditedStep{}
	for _, step := range c.Policies {
		if step.Policy.Type != inventory.MutatingPolicy {
			continue
		}
		s := AuditedStep{Series: step.Policy.Series(), Called: step.Match, Why: "a log records no mutating policy"}
		changes, _, err := c.Request.Mutations(step)
		if s.Computed = changes; err != nil {
			s.Why += "; its changes are not known: " + err.Error()
		}
		out = append(out, s)
	}
	return out
}

func (s AuditedStep) changes() []inventory.Change {
	if s.Call != nil {
		return s.Call.Patch
	}
	return s.Computed
}

// markOverwritten also fills in what was there before, where the log holds the object and
// the patches apply to it without its defaults, and hides what may be secret.
func (r *AuditedRequest) markOverwritten() {
	var patches []inventory.Patch
	object := r.Object
	for _, s := range r.Webhooks {
		raw, _ := json.Marshal(s.changes()) // it was read from JSON
		if after, changes, err := inventory.ApplyPatch(object, raw); object != nil && err == nil &&
			len(changes) == len(s.changes()) {
			copy(s.changes(), changes)
			object = after
		}
		patches = append(patches, inventory.Patch{Webhook: s.Name, Changes: s.changes()})
	}
	inventory.MarkOverwritten(patches)
	changes := lists.Map(patches, func(p inventory.Patch) []inventory.Change { return p.Changes })
	r.Message = inventory.Redact(r.Resource, []map[string]any{r.Object}, changes).Text(r.Message)
}

// WithoutValues is the request without the values of changes.
func (r AuditedRequest) WithoutValues() AuditedRequest {
	for _, s := range r.Webhooks {
		for i, changes := 0, s.changes(); i < len(changes); i++ {
			changes[i].Value, changes[i].Old = nil, nil
		}
	}
	return r
}

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

func unregisteredStep(s *inventory.Snapshot, series inventory.Series, recorded inventory.AuditOutcome) AuditedStep {
	out := AuditedStep{Series: series, Recorded: recorded, Differs: true}
	switch {
	case strings.HasSuffix(series.Name, inventory.StaticSuffix):
		out.Why = "it comes from a file of the API server, which no object shows"
	case series.Type == inventory.MutatingPolicy || series.Type == inventory.ValidatingPolicy:
		out.Differs, out.Why = false, "whether a policy is called is not compared"
	case series.Type == inventory.Conversion:
		out.Differs, out.Why = false, "conversions are no part of admission"
	case isRegistered(s, series, nil) == "unknown":
		out.Differs = false
	default:
		out.Why = "nothing registers it: removed since, or the log is of another cluster"
	}
	return out
}

func (r AuditedRequest) Text(TextOptions) Blocks {
	where := ""
	if r.Namespace != "" {
		where = " in namespace " + r.Namespace
	}
	title := fmt.Sprintf("%s: %s %s%s by %s: %d %s", formatTime(r.Time), r.Verb, strings.TrimSpace(r.Resource.String()+" "+r.Name), where,
		inventory.UserName(r.User), r.Code, r.Message)
	var steps []Line
	for _, step := range r.Webhooks {
		line := Line{
			Label: " ", Name: step.Name, Text: step.Type.Title() + ": " + step.verdict(),
			Under: changeLines(step.changes()),
		}
		if step.Call != nil {
			line.Text = fmt.Sprintf("%s, round %d, index %d: %s", step.Type.Title(), step.Call.Round, step.Call.Index, step.verdict())
		}
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
	return append(Blocks{{Heading: strings.TrimSpace(title)}},
		Blocks{{Lines: noteLines(r.Notes)}, {Lines: steps}}.NonEmpty()...)
}

// verdict is what is recorded, and whether what is registered is called, unless that is so
// or not known.
func (s AuditedStep) verdict() string {
	if s.Recorded != "" && (s.Called == admission.Yes || s.Called == "" && !s.Differs) {
		return s.Recorded.Title()
	}
	return "recorded: " + cmp.Or(s.Recorded.Title(), "nothing") + "; called by what is registered: " + cmp.Or(string(s.Called), "not registered")
}

// changeLines are changes, one a line, with the values that they have.
func changeLines(changes []inventory.Change) []Line {
	var out []Line
	for _, c := range changes {
		line := Line{Label: c.Operation, Name: cmp.Or(c.Path, "(the whole object)")}
		if c.From != "" {
			line.Text = "from " + c.From
		}
		if c.Old != nil {
			line.Text += shortJSON(c.Old)
		}
		if c.Old != nil && c.Value != nil {
			line.Text += " →"
		}
		if c.Value != nil {
			line.Text += " " + shortJSON(c.Value)
		}
		if c.OverwrittenBy != "" {
			line.Text += " (overwritten by " + c.OverwrittenBy + ")"
			line.Tone = Warning
		}
		line.Text = strings.TrimSpace(line.Text)
		out = append(out, line)
	}
	return out
}

func shortJSON(v any) string {
	const most = 200
	raw, _ := json.Marshal(v) // it was read from JSON
	if r := []rune(string(raw)); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return string(raw)
}
