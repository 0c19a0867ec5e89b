package report

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Consequences is what "impact --down", "--down-node" and "--delete" print.
type Consequences struct {
	Version string `json:"version"`
	impact.Consequences
	Appearing    []Finding `json:"appearing" jsonschema:"Appearing and Disappearing are findings."`
	Disappearing []Finding `json:"disappearing"`
	Errors       []Error   `json:"errors"`

	Inputs []inventory.Input `json:"inputs,omitempty" jsonschema:"Inputs are the paths that were read; absent for a cluster."`
}

// NewConsequences returns the consequences as they are handed out.
func NewConsequences(c *impact.Consequences, r *classify.Report) Consequences {
	return Consequences{
		Version: documentVersion, Consequences: *c, Errors: NewErrors(r.Snapshot.Errors),
		Appearing: newFindings(c.Appearing), Disappearing: newFindings(c.Disappearing),
		Inputs: newInputs(r.Snapshot),
	}
}

func newFindings(findings []*classify.Finding) []Finding {
	out := []Finding{}
	out = append(out, lists.Map(findings, NewFinding)...)
	return out
}

// Text is the answer in one line, and the details below it: the first of each kind, as the
// JSON has all.
func (c Consequences) Text(TextOptions) Blocks { return c.Markdown().Bounded(maxEntries) }

// Markdown is the same for an issue or a change request.
func (c Consequences) Markdown() Blocks {
	return append(Blocks{{Heading: c.Verdict()}}, c.Blocks()...)
}

// Blocks are the details, without those that have none.
func (c Consequences) Blocks() Blocks {
	recovery := Block{Heading: "How long recovery takes"}
	if len(c.Recovery)+len(c.Stuck) > 0 {
		recovery.Lines, recovery.Commands = Sentences(classify.Late, "these commands create the Pods at once, and wait for them:"), c.Restart
	}
	return Blocks{
		c.effects(impact.Refused, "Refused requests"),
		c.effects(impact.Unconverted, "Objects that cannot be converted"),
		c.effects(impact.Unchecked, "Requests that pass unchecked"),
		{Heading: "Functions of the cluster that stop", Lines: Sentences(c.Stops()...)},
		{Heading: "What blocks the drain", Lines: lines(c.Evicted, func(e impact.Evicted) string { return e.BlockedBy })},
		{Heading: "What may refuse evictions", Lines: lines(c.Evictions, impact.AskedOfEviction.String)},
		{Heading: "Pods behind webhooks that the drain evicts", Lines: lines(c.Evicted, impact.Evicted.String)},
		{Heading: "Webhooks that keep fewer ready endpoints", Lines: lines(c.Weakened, impact.Weakened.String)},
		{Heading: "Webhooks that the input does not decide", Lines: lines(c.Unknown, impact.Named)},
		{Heading: "Findings that appear", Lines: lines(c.Appearing, Finding.line)},
		{Heading: "Findings that go", Lines: lines(c.Disappearing, Finding.line)},
		{Heading: "Order of recovery, where Pods have to be created anew", Lines: Sentences(c.Order()...)},
		c.stuckBlock("A race: new Pods must be ready before the preStop hooks of the old ones end", func(b impact.Blocked) bool { return b.PreStop }),
		c.stuckBlock("Not without help: webhooks refuse what they wait for themselves", func(b impact.Blocked) bool { return !b.PreStop }),
		recovery,
		{Lines: dimmed(unreadInputs(c.Inputs))},
	}.NonEmpty()
}

// lines are those of the list that say something, each once.
func lines[T any](list []T, say func(T) string) []Line {
	var out []Line
	times := map[string]int{}
	for _, e := range list {
		line := say(e)
		if times[line]++; line != "" && times[line] == 1 {
			out = append(out, Line{Text: line})
		}
	}
	for i, line := range out {
		if n := times[line.Text]; n > 1 {
			out[i].Text += fmt.Sprintf(" (%d times)", n)
		}
	}
	return out
}

func (c Consequences) effects(outcome impact.Outcome, heading string) Block {
	return Block{Heading: heading, Lines: lines(c.Effects, func(e impact.Effect) string {
		if e.Outcome != outcome {
			return ""
		}
		return e.String()
	})}
}

// line is the finding in a line.
func (f Finding) line() string {
	return fmt.Sprintf("%s %s: %s %s %s", f.Severity, f.Check, f.Type.Noun(), f.Name, f.Message)
}

// stuckBlock are those that are meant, with each command once.
func (c Consequences) stuckBlock(heading string, selects func(impact.Blocked) bool) Block {
	b := Block{Heading: heading}
	for _, s := range c.Stuck {
		if !selects(s) {
			continue
		}
		b.Lines = append(b.Lines, Line{Text: s.String()})
		b.Commands = lists.Once(append(b.Commands, s.Commands...))
	}
	return b
}
