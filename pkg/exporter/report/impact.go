package report

import (
	"fmt"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Impact is what "impact CONFIGURATION" prints.
type Impact struct {
	Version string            `json:"version"`
	Cards   []ImpactCard      `json:"cards"`
	Inputs  []inventory.Input `json:"inputs,omitempty" jsonschema:"Inputs are the paths that were read; absent for a cluster."`
}

// ImpactCard is about one webhook, admission policy or aggregated API server: the
// others are absent.
type ImpactCard struct {
	Webhook    *Webhook         `json:"webhook,omitempty"`
	Policy     *AdmissionPolicy `json:"policy,omitempty"`
	APIService string           `json:"apiService,omitempty" jsonschema:"APIService is the name of what puts an aggregated API server behind a group and version."`
	impact.Card
}

func NewImpact(cards []impact.Card, s *inventory.Snapshot) Impact {
	out := Impact{Version: documentVersion, Cards: []ImpactCard{}, Inputs: newInputs(s)}
	for _, c := range cards {
		card := ImpactCard{Card: c}
		switch {
		case c.Policy != nil:
			policy := newAdmissionPolicy(c.Policy)
			card.Policy = &policy
		case c.APIService != nil:
			card.APIService = c.APIService.Name
		default:
			webhook := newWebhook(c.Profile, c.Profile.Snapshot)
			card.Webhook = &webhook
		}
		out.Cards = append(out.Cards, card)
	}
	return out
}

// Text is who it is, what it is called for, what follows where it fails, what stops
// and the way out.
func (i Impact) Text(TextOptions) Blocks {
	var out Blocks
	for n, c := range i.Cards {
		b := Block{Heading: c.Title, Commands: c.Commands}
		if n+1 < len(i.Cards) && slices.Equal(c.Commands, i.Cards[n+1].Commands) {
			b.Commands = nil // the last webhook of a configuration has those of all
		}
		for _, fact := range c.Summary {
			b.Lines = append(b.Lines, Line{Label: fact.Label + ":", Text: fact.Text})
		}
		out = append(out, b)
	}
	return append(out, Blocks{{Lines: dimmed(unreadInputs(i.Inputs))}}.NonEmpty()...)
}

// Markdown is the section "API Extensions" of an enhancement: the questions of the template
// with their answers, and of what the template does not ask for, the summary.
// The headings of several cards are distinguished.
func (i Impact) Markdown() Blocks {
	var out Blocks
	for _, c := range i.Cards {
		if len(c.Sections) == 0 {
			out = append(out, Impact{Cards: []ImpactCard{c}}.Text(TextOptions{})...)
		}
		heading := ""
		for _, s := range c.Sections {
			if s.Heading != heading {
				heading = s.Heading
				out = append(out, Block{Heading: heading})
				if len(i.Cards) > 1 {
					out[len(out)-1].Heading += ": " + c.Name
				}
			}
			last := &out[len(out)-1]
			last.Lines = append(last.Lines, answerLine(s))
		}
	}
	return out
}

func answerLine(s impact.Section) Line {
	out := Line{Name: s.Question, Under: Sentences(s.Answers...)}
	for _, q := range s.Queries {
		out.Under = append(out.Under, Line{Text: q.Name + ":", Command: q.Expression})
	}
	for _, c := range s.Commands {
		out.Under = append(out.Under, Line{Command: c})
	}
	for _, text := range s.ToFillIn {
		out.Under = append(out.Under, Line{Text: "to be filled in by the author: " + text, Tone: Warning})
	}
	return out
}

// Consequences is what "impact --down", "--down-node" and "--delete" print.
type Consequences struct {
	Version string `json:"version"`
	impact.Consequences
	Appearing    []Finding `json:"appearing" jsonschema:"Appearing and Disappearing are findings."`
	Disappearing []Finding `json:"disappearing"`
	Errors       []Error   `json:"errors"`

	Inputs []inventory.Input `json:"inputs,omitempty" jsonschema:"Inputs are the paths that were read; absent for a cluster."`
}

func NewConsequences(c *impact.Consequences, r *classify.Report) Consequences {
	return Consequences{
		Version: documentVersion, Consequences: *c, Errors: NewErrors(r.Snapshot.Errors),
		Appearing: newFindings(c.Appearing), Disappearing: newFindings(c.Disappearing),
		Inputs: newInputs(r.Snapshot),
	}
}

func newFindings(findings []*classify.Finding) []Finding {
	return append([]Finding{}, lists.Map(findings, NewFinding)...)
}

// Text is the answer in one line, and the details below it: the first of each kind, as the
// JSON has all.
func (c Consequences) Text(TextOptions) Blocks { return c.Markdown().Bounded(maxEntries) }

func (c Consequences) Markdown() Blocks {
	return append(Blocks{{Heading: c.Verdict()}}, c.Blocks()...)
}

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
