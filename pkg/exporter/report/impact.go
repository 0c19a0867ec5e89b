package report

import (
	"slices"

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

// NewImpact returns the cards as they are handed out.
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
