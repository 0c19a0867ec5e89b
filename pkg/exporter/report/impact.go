package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
)

// Impact is what "impact CONFIGURATION" prints.
type Impact struct {
	Version string       `json:"version"`
	Cards   []ImpactCard `json:"cards"`
}

// ImpactCard is the section "API Extensions" of an enhancement for one webhook,
// admission policy or aggregated API server: the others are absent.
type ImpactCard struct {
	Webhook *Webhook         `json:"webhook,omitempty"`
	Policy  *AdmissionPolicy `json:"policy,omitempty"`
	// APIService is the name of what puts an aggregated API server behind a group and
	// version.
	APIService string          `json:"apiService,omitempty"`
	Sections   []ImpactSection `json:"sections"`
}

// ImpactSection answers one question of the template.
type ImpactSection struct {
	ID       string        `json:"id"`
	Heading  string        `json:"heading"`
	Question string        `json:"question"`
	Answers  []string      `json:"answers"`
	Queries  []ImpactQuery `json:"queries,omitempty"`
	Commands []string      `json:"commands,omitempty"`
	// ToFillIn are what only a human knows.
	ToFillIn []string `json:"toFillIn,omitempty"`
}

// ImpactQuery is a PromQL expression.
type ImpactQuery struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

// placeholder marks what the author has to fill in.
const placeholder = "to be filled in by the author: "

// NewImpact returns the cards as they are handed out.
func NewImpact(cards []impact.Card) Impact {
	out := Impact{Version: documentVersion, Cards: []ImpactCard{}}
	for _, c := range cards {
		card := newImpactCard(c)
		for _, s := range c.Sections {
			section := ImpactSection{ID: s.ID, Heading: s.Heading, Question: s.Question, Answers: append([]string{}, s.Answers...), Commands: s.Commands, ToFillIn: s.Blanks}
			for _, q := range s.Queries {
				section.Queries = append(section.Queries, ImpactQuery(q))
			}
			card.Sections = append(card.Sections, section)
		}
		out.Cards = append(out.Cards, card)
	}
	return out
}

func newImpactCard(c impact.Card) ImpactCard {
	if c.Policy != nil {
		policy := newAdmissionPolicy(c.Policy)
		return ImpactCard{Policy: &policy}
	}
	if c.APIService != nil {
		return ImpactCard{APIService: c.APIService.Name}
	}
	webhook := newWebhook(c.Profile, c.Profile.Snapshot)
	return ImpactCard{Webhook: &webhook}
}

// subject is what the card is of.
func (c ImpactCard) subject() (kind, name string) {
	if c.Policy != nil {
		return string(c.Policy.Type), c.Policy.Name
	}
	if c.APIService != "" {
		return "aggregated API server", c.APIService
	}
	return string(c.Webhook.Type) + " webhook", c.Webhook.Name
}

// WriteImpactText writes the cards for a terminal.
func WriteImpactText(w io.Writer, i Impact, o TextOptions) error {
	b := bufio.NewWriter(w)
	p := printer{b, o}
	for n, c := range i.Cards {
		if n > 0 {
			p.newline()
		}
		kind, name := c.subject()
		p.paragraph(word{}, append(words(kind, plain), words(name, bold)...))
		for _, s := range c.Sections {
			p.section(s)
		}
	}
	return flush(b)
}

func (p printer) section(s ImpactSection) {
	p.newline()
	p.paragraph(word{}, words(s.Question, bold))
	for _, a := range s.Answers {
		p.paragraph(word{"  - ", plain}, words(a, plain))
	}
	for _, q := range s.Queries {
		p.paragraph(word{"  - ", plain}, words(q.Name+":", dim))
		p.code(q.Expression)
	}
	for _, c := range s.Commands {
		p.code(c)
	}
	for _, text := range s.ToFillIn {
		p.paragraph(word{"  - ", plain}, words("["+placeholder+text+"]", yellow))
	}
}

// code writes what is for copying: it is never wrapped.
func (p printer) code(line string) {
	p.WriteString(strings.Repeat(" ", 6) + text.Clean(line))
	p.newline()
}

// WriteImpactMarkdown writes the cards for the section "API Extensions" of an
// enhancement.
func WriteImpactMarkdown(w io.Writer, i Impact) error {
	b := bufio.NewWriter(w)
	several := len(i.Cards) > 1
	heading := ""
	for n, c := range i.Cards {
		if n == 0 || several {
			heading = ""
		}
		for _, s := range c.Sections {
			if s.Heading != heading {
				heading = s.Heading
				fmt.Fprintf(b, "%s\n\n", markdownHeading(heading, c, several))
			}
			writeSection(b, s)
		}
	}
	return flush(b)
}

// markdownHeading is a heading of the template; several webhooks are distinguished.
func markdownHeading(heading string, c ImpactCard, several bool) string {
	level := "####"
	if heading == "API Extensions" {
		level = "###"
	}
	if several {
		_, name := c.subject()
		return level + " " + heading + ": " + code(name)
	}
	return level + " " + heading
}

func writeSection(b *bufio.Writer, s ImpactSection) {
	fmt.Fprintf(b, "- **%s**\n", escape(s.Question))
	for _, a := range s.Answers {
		fmt.Fprintf(b, "  - %s\n", escape(a))
	}
	for _, q := range s.Queries {
		fmt.Fprintf(b, "  - %s: %s\n", escape(q.Name), code(q.Expression))
	}
	for _, c := range s.Commands {
		fmt.Fprintf(b, "  - %s\n", code(c))
	}
	for _, text := range s.ToFillIn {
		fmt.Fprintf(b, "  - _%s_\n", escape(placeholder+text))
	}
	b.WriteString("\n")
}
