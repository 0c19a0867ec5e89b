package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/diagnose"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

type Diagnosis struct {
	Version string            `json:"version"`
	Errors  []diagnosedError  `json:"errors" jsonschema:"Errors are those of the text that are about webhooks and policies, in its order."`
	Inputs  []inventory.Input `json:"inputs,omitempty" jsonschema:"Inputs are the paths that were read; absent for a cluster."`
	// FromMessage is false where a cluster or files were read.
	FromMessage bool      `json:"fromMessage,omitempty" jsonschema:"FromMessage says that nothing was read but the text: no cluster is configured or answers."`
	Taken       time.Time `json:"taken" jsonschema:"Taken is when the facts were true."`
}

// diagnosedError is one error of an API server, with what the Snapshot has on it.
type diagnosedError struct {
	Webhook   string           `json:"webhook" jsonschema:"Webhook is the name of an admission webhook; Converted is the kind that was to be converted. Both are empty where the error names neither."`
	Converted string           `json:"converted,omitempty"`
	Policy    *diagnosedPolicy `json:"policy,omitempty" jsonschema:"Policy is the policy that it is about, where it is about one."`
	Object    string           `json:"object,omitempty" jsonschema:"Object is the registration that the API server refused, as TYPE NAME; Plugin is the admission plugin that took too long."`
	Plugin    string           `json:"plugin,omitempty"`
	Count     int              `json:"count" jsonschema:"Count is how often the text has the error."`
	URL       string           `json:"url,omitempty"`
	Cause     diagnose.Cause   `json:"cause"`
	Meaning   string           `json:"meaning"`
	Detail    string           `json:"detail"`
	Fix       string           `json:"fix"`
	Look      string           `json:"look,omitempty" jsonschema:"Look is a command that shows the backend, where the error names its Service and no finding explains it."`
	Webhooks  []Webhook        `json:"webhooks" jsonschema:"Webhooks are all that register the name."`
	Findings  []Finding        `json:"findings" jsonschema:"Findings are those about them, those with the same cause first."`
	Related   int              `json:"related" jsonschema:"Related counts the Findings with the same cause."`
	Notes     []string         `json:"notes"`
}

// diagnosedPolicy is an admission policy that an error names.
type diagnosedPolicy struct {
	inventory.Series
	Binding       string           `json:"binding,omitempty"`
	FailurePolicy string           `json:"failurePolicy,omitempty" jsonschema:"FailurePolicy is empty where the input has no such policy."`
	Registered    *AdmissionPolicy `json:"registered,omitempty" jsonschema:"Registered is the policy as the input has it; absent there."`
}

func newDiagnosedPolicy(a diagnose.Answer) *diagnosedPolicy {
	if a.Policy.Name == "" {
		return nil
	}
	out := &diagnosedPolicy{Series: a.Policy.Series(), Binding: a.Binding}
	if a.AdmissionPolicy != nil {
		policy := newAdmissionPolicy(a.AdmissionPolicy)
		out.FailurePolicy, out.Registered = policy.FailurePolicy, &policy
	}
	return out
}

func NewDiagnosis(answers []diagnose.Answer, s *inventory.Snapshot) Diagnosis {
	d := Diagnosis{
		Version: documentVersion, Errors: make([]diagnosedError, 0, len(answers)), Inputs: newInputs(s),
		Taken: s.Taken.UTC(),
	}
	for _, a := range answers {
		e := diagnosedError{
			Webhook: a.Webhook, Converted: converted(a.APIServerError), Policy: newDiagnosedPolicy(a), URL: a.URL,
			Object: a.Object, Plugin: a.Plugin, Count: a.Count,
			Cause: a.Cause, Meaning: a.Meaning, Detail: a.Detail, Fix: a.Fix, Look: a.Look,
			Webhooks: []Webhook{}, Findings: newFindings(a.Findings), Notes: append([]string{}, a.Notes...),
			Related: a.Related,
		}
		for _, p := range a.Profiles {
			e.Webhooks = append(e.Webhooks, newWebhook(p, s))
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

// Text says what happened, to which webhook, what the input has of it and the way out.
func (d Diagnosis) Text(o TextOptions) Blocks {
	var out Blocks
	if len(d.Errors) > 1 {
		out = append(out, Block{Heading: d.head()})
	}
	out = append(out, lists.Map(d.Errors, func(e diagnosedError) Block { return e.block() })...)
	if d.FromMessage {
		return append(out, Block{Lines: []Line{{Text: messageAlone, Tone: Dim}}})
	}
	if lines := inputLines(withLacks(d.Inputs, d.isAboutIt), d.Taken, o); len(lines) > 0 {
		out = append(out, Block{Lines: lines})
	}
	return out
}

// isAboutIt reports whether an answer depends on what the input lacks.
func (d Diagnosis) isAboutIt(lack string) bool {
	return slices.ContainsFunc(d.Errors, func(e diagnosedError) bool {
		switch lack {
		case "Namespaces", "server version":
			return false
		case "admission policies", "policy bindings":
			return e.Policy != nil
		case "CustomResourceDefinitions":
			return e.Converted != ""
		}
		return true
	})
}

// messageAlone fits in 80 columns.
const messageAlone = "From the message alone: --kubeconfig or --from PATH adds what is registered."

// head says how many errors the text has, and of how many webhooks and policies.
func (d Diagnosis) head() string {
	total, subjects := 0, map[string]bool{}
	for _, e := range d.Errors {
		total += e.Count
		subjects[e.subject()] = true
	}
	bound := ""
	if len(d.Errors) == diagnose.MaxErrors {
		bound = fmt.Sprintf("; at most %d errors of a text are explained", diagnose.MaxErrors)
	}
	return fmt.Sprintf("%s, %s%s:", inventory.Counted(total, "message"), inventory.Counted(len(subjects), "subject"), bound)
}

func (e diagnosedError) block() Block {
	out := Block{Heading: e.title() + " " + string(e.Cause)}
	out.Add("means:", Line{Text: e.Meaning})
	out.Add("error:", Line{Text: e.Detail})
	for _, w := range e.Webhooks {
		out.Add("webhook:", webhookLine(w))
	}
	if e.Policy != nil && e.Policy.Registered != nil {
		p := e.Policy.Registered
		out.Add("policy:", registeredLine(inventory.Ref{Type: p.Type, Configuration: p.Name, Name: p.Name}, p.Owner,
			fmt.Sprintf("failurePolicy %s, %s", p.FailurePolicy, inventory.Counted(len(p.Bindings), "binding")), p.Source))
	}
	for _, f := range e.Findings[:e.Related] {
		out.Add("finding:", Line{Name: f.Severity.String() + " " + f.Check + ":", Text: f.Message})
	}
	if e.Look != "" {
		out.Lines = append(out.Lines, Line{Label: "look:", Command: e.Look})
	}
	out.Lines = append(out.Lines, partLines("fix:", e.Fix)...)
	for _, note := range e.Notes {
		out.Add("note:", Line{Text: note})
	}
	others := lists.Once(lists.Map(e.Findings[e.Related:], func(f Finding) string { return f.Check }))
	if len(others) > 0 {
		out.Add("also:", Line{Text: "other findings about it: " + strings.Join(others, ", ")})
	}
	return out
}

func (e diagnosedError) title() string {
	if e.Count > 1 {
		return fmt.Sprintf("%s (%d times):", e.subject(), e.Count)
	}
	return e.subject() + ":"
}

// subject is the registration that the error is about.
func (e diagnosedError) subject() string {
	switch {
	case e.Converted != "":
		return "Conversion of " + e.Converted
	case e.Webhook != "":
		return "Webhook " + e.Webhook
	case e.Object != "":
		return "Refused: " + e.Object
	case e.Plugin != "":
		return "Admission plugin " + e.Plugin
	case e.Policy == nil:
		return "A webhook or policy that the error does not name"
	case e.Policy.Binding != "":
		return "Policy " + e.Policy.Name + " with binding " + e.Policy.Binding
	}
	return "Policy " + e.Policy.Name
}

// webhookLine is one line on a webhook: where it is and what its failure does.
func webhookLine(w Webhook) Line {
	content := fmt.Sprintf("failurePolicy %s, %d s, calls %s", w.FailurePolicy, w.TimeoutSeconds, w.Backend)
	if w.Type == inventory.Conversion {
		content = fmt.Sprintf("%d s a call, calls %s", w.TimeoutSeconds, w.Backend)
	}
	return registeredLine(w.Ref, w.Owner, content, w.Source)
}

// registeredLine says what is registered, by what tool and where.
func registeredLine(ref inventory.Ref, owner, content string, source inventory.Source) Line {
	if owner != "" {
		content += ", owner " + owner
	}
	return Line{Name: ref.Name, Text: content, Aside: particulars(Finding{Ref: ref, Source: source})}
}
