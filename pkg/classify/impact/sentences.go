package impact

import (
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// String is what changed, in a sentence: what was registered, by whom, and what that
// does.
func (r Registration) String() string {
	return fmt.Sprintf("%s: %s", r.Subject(), strings.Join(r.ofWebhooks(), ". "))
}

// ofWebhooks are what changed of each webhook, in a sentence.
func (r Registration) ofWebhooks() []string {
	var out []string
	for _, w := range r.Webhooks {
		out = append(out, ofWebhook(w.Ref, w.Sentences()))
	}
	return out
}

// ofWebhook is what changed of a webhook, in a sentence.
func ofWebhook(w inventory.Ref, sentences []string) string {
	text := strings.Join(sentences, "; ")
	if w.Type == inventory.Conversion {
		return text
	}
	return fmt.Sprintf("webhook %s %s", w.Name, text)
}

// Subject is what registers the webhooks, what became of it, by whom and when.
func (r Registration) Subject() string {
	text := fmt.Sprintf("%s is %s", r.object(), r.Edit)
	switch {
	case r.Written.Manager != "":
		return text + ", last written " + writeText(r.Written)
	case r.WrittenBefore.Manager != "" && r.Edit == Changed:
		return text + ", before last written " + writeText(r.WrittenBefore)
	}
	return text
}

// object names what registers the webhooks.
func (r Registration) object() string {
	if r.Type == inventory.Conversion {
		return "conversion of CRD " + r.Configuration
	}
	return fmt.Sprintf("%s webhook configuration %s", r.Type.Title(), r.Configuration)
}

func writeText(w inventory.Write) string {
	return fmt.Sprintf("by %s at %s", w.Manager, w.At.UTC().Format("2006-01-02T15:04:05Z"))
}

// Sentences are what changed of the webhook: each completes "webhook NAME …".
func (w WebhookChange) Sentences() []string {
	var out []string
	if w.Edit != Changed {
		out = append(out, "is "+string(w.Edit))
	}
	for _, r := range slices.Concat(w.Gained, w.Lost) {
		out = append(out, verbs[answerPair{r.Before, r.After}]+resourcesText(r.Resources)+r.where())
	}
	if w.Sampled {
		out = append(out, "was not asked about each namespace, as there are too many: of those that its selectors treat alike, one stands for all")
	}
	for _, f := range w.Fields {
		out = append(out, w.fieldSentence(f))
	}
	if len(w.CalledBefore) > 0 {
		out = append(out, "is called before "+some(w.CalledBefore)+" now, and was after")
	}
	if len(w.CalledAfter) > 0 {
		out = append(out, "is called after "+some(w.CalledAfter)+" now, and was before")
	}
	return out
}

func (w WebhookChange) fieldSentence(f FieldChange) string {
	var text string
	switch w.Edit {
	case Added:
		return fmt.Sprintf("has %s %s", f.Field, f.After)
	case Deleted:
		return fmt.Sprintf("had %s %s", f.Field, f.Before)
	case Changed:
		text = fmt.Sprintf("has %s %s, before %s", f.Field, f.After, f.Before)
	}
	meaning := f.Meaning
	if f.Field == "rules" && len(w.Gained)+len(w.Lost) == 0 {
		meaning = "it is called for the same requests"
	}
	if meaning != "" {
		text += ": " + meaning
	}
	return text
}

// verbs are how a sentence says what became of requests.
var verbs = map[answerPair]string{
	{admission.No, admission.Maybe}:  "may be called now for ",
	{admission.No, admission.Yes}:    "is called now for ",
	{admission.Maybe, admission.Yes}: "is called always now, and was perhaps, for ",
	{admission.Yes, admission.Maybe}: "is called only perhaps now, and was always, for ",
	{admission.Yes, admission.No}:    "is called no longer for ",
	{admission.Maybe, admission.No}:  "is called no longer, and was perhaps, for ",
}

// where names the namespaces of the requests.
func (r Requests) where() string {
	switch {
	case r.Namespaces == nil:
		return ""
	case r.Every:
		return " in every namespace"
	}
	var names []string
	others := false
	for _, name := range r.Namespaces {
		if name == OtherNamespaces {
			others = true
			continue
		}
		names = append(names, name)
	}
	text := " in " + inventory.Counted(len(names), "namespace") + " (" + some(names) + ")"
	switch {
	case others && len(names) == 0:
		return " in namespaces that the input does not have"
	case others:
		return text + " and those that the input does not have"
	}
	return text
}
