package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Changes is what "diff -o json" prints: what changed of the registrations, what
// that does, and the findings that it adds and resolves.
type Changes struct {
	Comparison
	// Registrations are the configurations, and CRDs with a conversion webhook, that
	// register other webhooks, or register them otherwise.
	Registrations []Registration `json:"registrations"`
	// Budgets are requests whose webhooks can hold them up longer, or less long, in
	// the namespace where that is worst.
	Budgets []BudgetChange `json:"budgets"`
}

// Registration is a configuration, or a CRD, that registers otherwise than before.
type Registration struct {
	Type          inventory.Type `json:"type"`
	Configuration string         `json:"configuration"`
	// Edit is added, deleted or changed.
	Edit impact.Edit `json:"edit"`
	// Written is the newest write that the object records, and WrittenBefore that of
	// the object before; absent where there is no record.
	Written       *Write `json:"written,omitempty"`
	WrittenBefore *Write `json:"writtenBefore,omitempty"`
	// Webhooks are those that changed.
	Webhooks []WebhookChange `json:"webhooks"`
	subject  string
}

// Write is a write by a field manager.
type Write struct {
	Manager string    `json:"manager"`
	Time    time.Time `json:"time"`
}

// WebhookChange is what changed of one webhook.
type WebhookChange struct {
	Name string `json:"name"`
	// Edit is added, deleted or changed.
	Edit impact.Edit `json:"edit"`
	// Sentences say it in words: each completes "webhook NAME …".
	Sentences []string `json:"sentences"`
	// Gained are requests that it is called for and was not, or was perhaps; Lost is
	// the reverse.
	Gained []RequestChange `json:"gained"`
	Lost   []RequestChange `json:"lost"`
	// Sampled says that not every namespace was asked about, as there are too many.
	Sampled bool          `json:"sampled,omitempty"`
	Fields  []FieldChange `json:"fields"`
	// CalledBefore are webhooks that it is called before now, and was after;
	// CalledAfter is the reverse.
	CalledBefore []string `json:"calledBefore,omitempty"`
	CalledAfter  []string `json:"calledAfter,omitempty"`
}

// RequestChange is requests on which the webhook's answers, before and after, are
// the same.
type RequestChange struct {
	// Before and After say whether it is called.
	Before   admission.Match `json:"before"`
	After    admission.Match `json:"after"`
	Requests []impactRequest `json:"requests"`
	// Namespaces are those of the requests, "" those that the input does not have;
	// absent of cluster-scoped resources. A Namespace counts as its own.
	Namespaces []string `json:"namespaces,omitempty"`
	// EveryNamespace says that they are all.
	EveryNamespace bool `json:"everyNamespace,omitempty"`
}

// FieldChange is a field with what it says before and after.
type FieldChange struct {
	Field  string `json:"field"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Meaning is what the change does; absent where the field says it.
	Meaning string `json:"meaning,omitempty"`
}

// BudgetChange is how long the webhooks can hold up requests, before and after.
type BudgetChange struct {
	Requests      []impactRequest `json:"requests"`
	BeforeSeconds float64         `json:"beforeSeconds"`
	AfterSeconds  float64         `json:"afterSeconds"`
	sentence      string
}

// NewChanges compares two Reports.
func NewChanges(before, after *classify.Report) Changes {
	registrations := impact.Registrations(before.Matcher, after.Matcher)
	old := NewDocument(before)
	out := Changes{Comparison: NewComparison(old, NewDocument(after)), Registrations: []Registration{}, Budgets: []BudgetChange{}}
	known := map[Error]bool{}
	out.Errors = slices.DeleteFunc(append(old.Errors, out.Errors...), func(e Error) bool {
		again := known[e]
		known[e] = true
		return again
	})
	for _, r := range registrations {
		out.Registrations = append(out.Registrations, newRegistration(r))
	}
	for _, b := range impact.BudgetChanges(registrations, before.Matcher, after.Matcher) {
		out.Budgets = append(out.Budgets, BudgetChange{newRequests(b.Resources), b.Before.Seconds(), b.After.Seconds(), b.String()})
	}
	return out
}

func newRegistration(r impact.Registration) Registration {
	out := Registration{
		Type: r.Type, Configuration: r.Configuration, Edit: r.Edit, subject: r.Subject(),
		Written: newWrite(r.Written), WrittenBefore: newWrite(r.WrittenBefore),
	}
	for _, w := range r.Webhooks {
		change := WebhookChange{
			Name: w.Name, Edit: w.Edit, Sentences: w.Sentences(),
			Gained: newRequestChanges(w.Gained), Lost: newRequestChanges(w.Lost), Sampled: w.Sampled,
			Fields: []FieldChange{}, CalledBefore: w.CalledBefore, CalledAfter: w.CalledAfter,
		}
		for _, f := range w.Fields {
			change.Fields = append(change.Fields, FieldChange(f))
		}
		out.Webhooks = append(out.Webhooks, change)
	}
	return out
}

func newWrite(w inventory.Write) *Write {
	if w.Manager == "" {
		return nil
	}
	return &Write{w.Manager, w.At.UTC()}
}

func newRequestChanges(list []impact.Requests) []RequestChange {
	out := []RequestChange{}
	for _, r := range list {
		out = append(out, RequestChange{r.Before, r.After, newRequests(r.Resources), r.Namespaces, r.Every})
	}
	return out
}

func newRequests(list []impact.ResourceOperations) []impactRequest {
	out := []impactRequest{}
	for _, r := range list {
		out = append(out, impactRequest{r.Resource.String(), r.Operations})
	}
	return out
}

// WriteChangesText writes the Changes for a terminal.
func WriteChangesText(w io.Writer, c Changes, o TextOptions) error {
	if err := c.Blocks().WriteText(w, o); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	return WriteComparisonText(w, c.Comparison, o)
}

// WriteChangesMarkdown writes the Changes for a pull request.
func WriteChangesMarkdown(w io.Writer, c Changes) error {
	if err := append(Blocks{{Heading: "Webhooks: what this change does"}}, c.Blocks()...).WriteMarkdown(w); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	return WriteComparisonMarkdown(w, c.Comparison)
}

// Blocks are the changes in words.
func (c Changes) Blocks() Blocks {
	var out Blocks
	for _, r := range c.Registrations {
		out = append(out, r.block())
	}
	if len(out) == 0 {
		return Blocks{{Heading: "No registration of a webhook changes."}}
	}
	worst := Block{Heading: "How long webhooks can hold up requests"}
	for i, b := range c.Budgets {
		if i == maxListed {
			worst.Lines = append(worst.Lines, Line{Text: fmt.Sprintf("and %d more; -o json lists them all", len(c.Budgets)-i)})
			break
		}
		worst.Lines = append(worst.Lines, Line{Text: b.sentence})
	}
	if len(worst.Lines) > 0 {
		out = append(out, worst)
	}
	return out
}

// block is a heading for the configuration, and a line for each sentence.
func (r Registration) block() Block {
	b := Block{Heading: strings.ToUpper(r.subject[:1]) + r.subject[1:]}
	for _, w := range r.Webhooks {
		for _, sentence := range w.Sentences {
			b.Lines = append(b.Lines, Line{Text: fmt.Sprintf("webhook %s %s", w.Name, sentence)})
		}
	}
	return b
}
