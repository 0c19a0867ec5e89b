package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
)

// impactDocument is what "impact CONFIGURATION" prints.
type impactDocument struct {
	Version string       `json:"version"`
	Cards   []impactCard `json:"cards"`
}

// impactCard is the section "API Extensions" of an enhancement for one webhook,
// admission policy or aggregated API server: the others are absent.
type impactCard struct {
	Webhook *Webhook         `json:"webhook,omitempty"`
	Policy  *AdmissionPolicy `json:"policy,omitempty"`
	// APIService is the name of what puts an aggregated API server behind a group and
	// version.
	APIService string          `json:"apiService,omitempty"`
	Sections   []impactSection `json:"sections"`
}

// impactSection answers one question of the template.
type impactSection struct {
	ID       string        `json:"id"`
	Heading  string        `json:"heading"`
	Question string        `json:"question"`
	Answers  []string      `json:"answers"`
	Queries  []impactQuery `json:"queries,omitempty"`
	Commands []string      `json:"commands,omitempty"`
	// ToFillIn are what only a human knows.
	ToFillIn []string `json:"toFillIn,omitempty"`
}

// impactQuery is a PromQL expression.
type impactQuery struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

// placeholder marks what the author has to fill in.
const placeholder = "to be filled in by the author: "

// newImpact returns the cards as JSON prints them.
func newImpact(cards []impact.Card) impactDocument {
	out := impactDocument{Version: documentVersion, Cards: []impactCard{}}
	for _, c := range cards {
		card := newImpactCard(c)
		for _, s := range c.Sections {
			section := impactSection{ID: s.ID, Heading: s.Heading, Question: s.Question, Answers: append([]string{}, s.Answers...), Commands: s.Commands, ToFillIn: s.Blanks}
			for _, q := range s.Queries {
				section.Queries = append(section.Queries, impactQuery(q))
			}
			card.Sections = append(card.Sections, section)
		}
		out.Cards = append(out.Cards, card)
	}
	return out
}

func newImpactCard(c impact.Card) impactCard {
	if c.Policy != nil {
		policy := newAdmissionPolicy(c.Policy)
		return impactCard{Policy: &policy}
	}
	if c.APIService != nil {
		return impactCard{APIService: c.APIService.Name}
	}
	webhook := newWebhook(c.Profile, c.Profile.Snapshot)
	return impactCard{Webhook: &webhook}
}

// subject is what the card is of.
func (c impactCard) subject() (kind, name string) {
	if c.Policy != nil {
		return string(c.Policy.Type), c.Policy.Name
	}
	if c.APIService != "" {
		return "aggregated API server", c.APIService
	}
	return string(c.Webhook.Type) + " webhook", c.Webhook.Name
}

// WriteImpactJSON writes the cards as JSON.
func WriteImpactJSON(w io.Writer, cards []impact.Card, _ TextOptions) error {
	return encode(w, newImpact(cards), "the impact")
}

// WriteImpactText writes the cards for a terminal.
func WriteImpactText(w io.Writer, cards []impact.Card, o TextOptions) error {
	b := bufio.NewWriter(w)
	p := printer{b, o}
	for i, c := range newImpact(cards).Cards {
		if i > 0 {
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

func (p printer) section(s impactSection) {
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
func WriteImpactMarkdown(w io.Writer, cards []impact.Card, _ TextOptions) error {
	b := bufio.NewWriter(w)
	several := len(cards) > 1
	heading := ""
	for i, c := range newImpact(cards).Cards {
		if i == 0 || several {
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
func markdownHeading(heading string, c impactCard, several bool) string {
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

func writeSection(b *bufio.Writer, s impactSection) {
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
