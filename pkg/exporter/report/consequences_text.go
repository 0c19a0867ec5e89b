package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// WriteConsequencesText writes the consequences for a terminal.
func WriteConsequencesText(w io.Writer, c Consequences, o TextOptions) error {
	return c.titled().WriteText(w, o)
}

// WriteConsequencesMarkdown writes the consequences for an issue or a change
// request.
func WriteConsequencesMarkdown(w io.Writer, c Consequences) error {
	return c.titled().WriteMarkdown(w)
}

// titled are the Blocks below the answer in one line.
func (c Consequences) titled() Blocks {
	return append(Blocks{{Heading: c.Verdict()}}, c.Blocks()...)
}

// Verdict is the answer in one line.
func (c Consequences) Verdict() string {
	counts := map[impact.Outcome]int{}
	for _, e := range c.Effects {
		counts[e.Outcome]++
	}
	var parts []string
	for _, part := range []struct {
		outcome impact.Outcome
		text    string
	}{
		{impact.Refused, "requests to %s are refused"},
		{impact.Unconverted, "conversions by %s fail"},
		{impact.Unchecked, "requests pass without %s"},
	} {
		if n := counts[part.outcome]; n > 0 {
			parts = append(parts, fmt.Sprintf(part.text, inventory.Counted(n, "webhook")))
		}
	}
	switch {
	case len(parts) > 0:
		return "With " + c.Change.subject() + ": " + strings.Join(parts, ", ") + "."
	case len(c.Unknown) > 0:
		return "With " + c.Change.subject() + ": no webhook is known to lose its last ready endpoint, and of " + inventory.Counted(len(c.Unknown), "webhook") + " it is not known."
	}
	return "With " + c.Change.subject() + ": no webhook loses its last ready endpoint; requests are answered as before."
}

func (c impactChange) subject() string {
	var parts []string
	for _, name := range c.Down {
		parts = append(parts, "Service "+name+" down")
	}
	for _, name := range c.Nodes {
		parts = append(parts, "node "+name+" drained")
	}
	for _, name := range c.Delete {
		parts = append(parts, "configuration "+name+" deleted")
	}
	return strings.Join(parts, ", ")
}

// Blocks are the details, without those that have none.
func (c Consequences) Blocks() Blocks {
	return Blocks{
		c.effects(impact.Refused, "Refused requests"),
		c.effects(impact.Unconverted, "Objects that cannot be converted"),
		c.effects(impact.Unchecked, "Requests that pass unchecked"),
		{Heading: "Functions of the cluster that stop", Lines: Sentences(c.stops()...)},
		{Heading: "What blocks the drain", Lines: Sentences(c.blocking()...)},
		{Heading: "Pods behind webhooks that the drain evicts", Lines: Sentences(c.evicted()...)},
		{Heading: "Webhooks that keep fewer ready endpoints", Lines: Sentences(c.weakened()...)},
		{Heading: "Webhooks that the input does not decide", Lines: Sentences(refNames(c.Unknown)...)},
		{Heading: "Findings that appear", Lines: Sentences(findingLines(c.Appearing)...)},
		{Heading: "Findings that go", Lines: Sentences(findingLines(c.Disappearing)...)},
		{Heading: "Order of recovery, where Pods have to be created anew", Lines: Sentences(c.order()...)},
		c.stuck(),
	}.NonEmpty()
}

func (c Consequences) effects(outcome impact.Outcome, heading string) Block {
	b := Block{Heading: heading}
	for _, e := range c.Effects {
		if e.Outcome == outcome {
			b.Lines = append(b.Lines, Line{Text: e.line()})
		}
	}
	return b
}

func (e impactEffect) line() string {
	var requests []string
	for _, r := range e.Requests {
		text := r.Resource
		if len(r.Operations) > 0 {
			text += " " + operationsOf(r.Operations)
		}
		requests = append(requests, text)
	}
	text := fmt.Sprintf("%s webhook %s: %s", e.Type, e.Name, strings.Join(requests, ", "))
	if len(requests) == 0 {
		text += "none, as it matches nothing that this cluster serves"
	}
	if e.NamespaceSelector != "" {
		text += "; of namespaced ones those in namespaces with " + e.NamespaceSelector
	}
	if len(e.Namespaces) > 0 {
		text += " (" + strings.Join(e.Namespaces, ", ") + ")"
	}
	if len(e.Unless) > 0 {
		text += "; unless " + strings.Join(e.Unless, " or ")
	}
	return text
}

func operationsOf(ops []admission.Operation) string { return strings.Join(text.Strings(ops), "/") }

// stops are those of all effects, each once.
func (c Consequences) stops() []string {
	var out []string
	seen := map[string]bool{}
	for _, e := range c.Effects {
		for _, s := range e.Stops {
			if !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
	}
	return out
}

func (c Consequences) weakened() []string {
	var out []string
	for _, w := range c.Weakened {
		out = append(out, fmt.Sprintf("%s webhook %s: %d of %d", w.Type, w.Name, w.After, w.Before))
	}
	return out
}

func (c Consequences) evicted() []string {
	var out []string
	for _, e := range c.Evicted {
		out = append(out, strings.Join(append([]string{fmt.Sprintf("%s: %d of %s", e.Workload, e.Pods, inventory.Counted(e.OfPods, "Pod"))}, e.Risks...), "; "))
	}
	return out
}

func (c Consequences) blocking() []string {
	var out []string
	for _, e := range c.Evicted {
		if e.BlockedBy != "" {
			out = append(out, e.BlockedBy)
		}
	}
	return out
}

func refNames(refs []inventory.Ref) []string {
	var out []string
	for _, r := range refs {
		out = append(out, fmt.Sprintf("%s webhook %s of configuration %s", r.Type, r.Name, r.Configuration))
	}
	return out
}

func findingLines(findings []Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, fmt.Sprintf("%s %s: %s %s %s", f.Severity, f.Check, f.Type.Noun(), f.Name, f.Message))
	}
	return out
}

func (c Consequences) order() []string {
	var out []string
	for i, wave := range c.Recovery {
		text := fmt.Sprintf("%d. %s: ", i+1, strings.Join(wave.Services, ", "))
		if i == 0 {
			text += "no webhook that is down refuses what they need"
		} else {
			text += "once those before are ready, which refuse what they need until then"
		}
		out = append(out, text)
	}
	return out
}

func (c Consequences) stuck() Block {
	b := Block{Heading: "Not without help: webhooks refuse what they wait for themselves"}
	for _, s := range c.Stuck {
		by := refNames(s.By)
		if s.More {
			by = append(by, "and more")
		}
		line := fmt.Sprintf("%s: what it needs is refused by %s", s.Service, strings.Join(by, ", "))
		if len(s.Steps) > 0 {
			line += ": " + strings.Join(s.Steps, "; ")
		}
		b.Lines = append(b.Lines, Line{Text: line})
		for _, command := range s.Commands {
			if !slices.Contains(b.Commands, command) {
				b.Commands = append(b.Commands, command)
			}
		}
	}
	return b
}
