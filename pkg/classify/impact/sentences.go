package impact

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

func (r Registration) String() string {
	return strings.Join(append([]string{r.Subject()}, r.Lines()...), ". ")
}

// Subject is what registers the webhooks, what became of it, by whom and when.
func (r Registration) Subject() string {
	content := fmt.Sprintf("%s is %s", r.Object(), r.Edit)
	if r.Written.Manager != "" {
		content += fmt.Sprintf(", last written by %s at %s", r.Written.Manager, r.Written.At.UTC().Format(time.RFC3339))
	}
	return content
}

func (r Registration) Object() string {
	switch {
	case r.Type == inventory.Conversion:
		return "conversion of CRD " + r.Configuration
	case r.Type.IsPolicy():
		return r.Type.Title() + " " + r.Configuration
	}
	return fmt.Sprintf("%s webhook configuration %s", r.Type.Title(), r.Configuration)
}

// Lines are what changed of the webhooks: those of several webhooks stand once, and
// webhooks are named where what changed of them begins.
func (r Registration) Lines() []string {
	var out []string
	names, first := map[string][]string{}, map[string]int{}
	for _, w := range r.Webhooks {
		for _, sentence := range w.Sentences {
			if names[sentence] == nil {
				out = append(out, sentence)
			}
			names[sentence] = append(names[sentence], w.Name)
		}
	}
	subject := func(sentence string) string { return subjectOf(names[sentence]) }
	for i, sentence := range slices.Backward(out) {
		first[subject(sentence)] = i
	}
	slices.SortStableFunc(out, func(a, b string) int { return first[subject(a)] - first[subject(b)] })
	before := ""
	for i, sentence := range out {
		if named := subject(sentence); named != before && r.Type != inventory.Conversion {
			before, out[i] = named, named+": "+sentence
		}
	}
	if len(r.Order) > 0 {
		out = append(out, "the webhooks are called in another order now: "+some(r.Order))
	}
	return out
}

func subjectOf(names []string) string {
	if len(names) == 1 {
		return "webhook " + names[0]
	}
	return fmt.Sprintf("%s (%s)", inventory.Counted(len(names), "webhook"), some(lists.Once(names)))
}

func (w WebhookChange) sentences(p webhookPair) []string {
	var out []string
	if w.Edit != Changed && w.Type != inventory.Conversion { // of which there is one
		out = append(out, string(w.Edit))
	}
	if len(w.Gained) > 0 {
		out = append(out, "called now for "+resourcesText(w.Gained)+allowance(p.now))
	}
	if len(w.Lost) > 0 {
		out = append(out, "no longer called for "+resourcesText(w.Lost)+allowance(p.was))
	}
	out = append(out, lists.Map(w.Fields, w.fieldSentence)...)
	return out
}

// allowance says that more than the rules decides.
func allowance(w *inventory.Webhook) string {
	if slices.ContainsFunc(admissionFields, func(f field) bool { return f.choice && f.content(w) != "" }) {
		return ", where its selectors and matchConditions allow"
	}
	return ""
}

func (w WebhookChange) fieldSentence(f FieldChange) string {
	out := fmt.Sprintf("%s %s → %s", f.Field, f.Before, f.After)
	switch {
	case w.Edit == Added:
		out = f.Field + " " + f.After
	case w.Edit == Deleted && f.Field == versionsField:
		out = f.Field + " were " + f.Before
	case w.Edit == Deleted:
		out = f.Field + " was " + f.Before
	}
	if f.Meaning != "" {
		out += ": " + f.Meaning
	}
	return out
}

// resourcesText lists resources with their operations, those of the same operations
// together.
func resourcesText(list []ResourceOperations) string {
	var order []string
	byOperations := map[string][]string{}
	for _, r := range list {
		key := strings.Join(lists.Strings(r.Operations), "/")
		if byOperations[key] == nil {
			order = append(order, key)
		}
		byOperations[key] = append(byOperations[key], r.Resource.String())
	}
	for i, key := range order {
		order[i] = strings.TrimPrefix(key+" of "+some(byOperations[key]), " of ")
	}
	return strings.Join(order, "; ")
}
