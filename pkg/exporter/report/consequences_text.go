package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// WriteConsequencesJSON writes the consequences as JSON.
func WriteConsequencesJSON(w io.Writer, c Consequences, _ TextOptions) error {
	return encode(w, c, "the consequences")
}

// block is a heading with what is under it.
type block struct {
	heading string
	lines   []string
	// commands are for copying.
	commands []string
}

// WriteConsequencesText writes the consequences for a terminal.
func WriteConsequencesText(w io.Writer, c Consequences, o TextOptions) error {
	b := bufio.NewWriter(w)
	p := printer{b, o}
	p.paragraph(word{}, words(c.verdict(), bold))
	for _, block := range c.blocks() {
		p.newline()
		p.paragraph(word{}, words(block.heading, bold))
		for _, line := range block.lines {
			p.paragraph(word{"  - ", plain}, words(shortenLists(line), plain))
		}
		for _, command := range block.commands {
			p.code(command)
		}
	}
	return flush(b)
}

// WriteConsequencesMarkdown writes the consequences for an issue or a change
// request.
func WriteConsequencesMarkdown(w io.Writer, c Consequences, _ TextOptions) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "### %s\n", escape(c.verdict()))
	for _, block := range c.blocks() {
		fmt.Fprintf(b, "\n#### %s\n\n", escape(block.heading))
		for _, line := range block.lines {
			fmt.Fprintf(b, "- %s\n", escape(shortenLists(line)))
		}
		for _, command := range block.commands {
			fmt.Fprintf(b, "- %s\n", code(command))
		}
	}
	return flush(b)
}

// verdict is the answer in one line.
func (c Consequences) verdict() string {
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

// blocks are the details, without those that have none.
func (c Consequences) blocks() []block {
	var out []block
	for _, b := range []block{
		c.effects(impact.Refused, "Refused requests"),
		c.effects(impact.Unconverted, "Objects that cannot be converted"),
		c.effects(impact.Unchecked, "Requests that pass unchecked"),
		{heading: "Functions of the cluster that stop", lines: c.stops()},
		{heading: "Webhooks that keep fewer ready endpoints", lines: c.weakened()},
		{heading: "Webhooks that the input does not decide", lines: refNames(c.Unknown)},
		{heading: "Findings that appear", lines: findingLines(c.Appearing)},
		{heading: "Findings that go", lines: findingLines(c.Disappearing)},
		{heading: "Order of recovery, where Pods have to be created anew", lines: c.order()},
		c.stuck(),
	} {
		if len(b.lines) > 0 {
			out = append(out, b)
		}
	}
	return out
}

func (c Consequences) effects(outcome impact.Outcome, heading string) block {
	b := block{heading: heading}
	for _, e := range c.Effects {
		if e.Outcome == outcome {
			b.lines = append(b.lines, e.line())
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

func operationsOf(ops []admission.Operation) string {
	parts := make([]string, len(ops))
	for i, op := range ops {
		parts[i] = string(op)
	}
	return strings.Join(parts, "/")
}

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

func refNames(refs []WebhookRef) []string {
	var out []string
	for _, r := range refs {
		out = append(out, fmt.Sprintf("%s webhook %s of configuration %s", r.Type, r.Name, r.Configuration))
	}
	return out
}

func findingLines(findings []Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, fmt.Sprintf("%s %s: webhook %s %s", f.Severity, f.Check, f.Name, f.Message))
	}
	return out
}

func (c Consequences) order() []string {
	var out []string
	for i, wave := range c.Recovery {
		text := fmt.Sprintf("%d. %s: ", i+1, strings.Join(wave.Services, ", "))
		if i == 0 {
			text += "no webhook that is down refuses their Pods"
		} else {
			text += "once those before are ready, which refuse their Pods until then"
		}
		out = append(out, text)
	}
	return out
}

func (c Consequences) stuck() block {
	b := block{heading: "Not without help: Pods that webhooks refuse which wait for them"}
	for _, s := range c.Stuck {
		b.lines = append(b.lines, fmt.Sprintf("%s: its Pods are refused by %s", s.Service, strings.Join(refNames(s.By), ", ")))
		for _, command := range s.Commands {
			if !slices.Contains(b.commands, command) {
				b.commands = append(b.commands, command)
			}
		}
	}
	return b
}
