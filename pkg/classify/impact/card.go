package impact

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Card says what a webhook, an admission policy or an aggregated API server adds and
// stops. Each answer is derived from the object and the Report.
type Card struct {
	// One of these is not nil.
	Profile    *classify.Profile          `json:"-"`
	Policy     *inventory.AdmissionPolicy `json:"-"`
	APIService *inventory.APIService      `json:"-"`
	// Summary is what an incident needs first: called for what, what becomes of that,
	// what stops, how to get out; and what was observed, where that was asked for.
	Summary []Fact `json:"summary"`
	// Commands are the way out, to be typed in this order.
	Commands []string `json:"commands"`
	// Sections are the section "API Extensions" of an enhancement, filled in.
	Sections []Section `json:"sections"`
}

// Fact is one line of a summary.
type Fact struct {
	Label string `json:"label"`
	Text  string `json:"text"`
}

// Section answers one question of the template.
type Section struct {
	// ID names the question for programs.
	ID string `json:"id"`
	// Heading is the heading of the template that the question stands under.
	Heading  string `json:"heading"`
	Question string `json:"question"`
	Answer
}

// Answer is what is known of the object, and how it is seen and done.
type Answer struct {
	Answers  []string `json:"answers"`
	Queries  []Query  `json:"queries,omitempty"`
	Commands []string `json:"commands,omitempty"`
	// ToFillIn are what only a human knows.
	ToFillIn []string `json:"toFillIn,omitempty"`
}

// Query is a PromQL expression.
type Query struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

// The headings of the template.
const (
	headingExtensions = "API Extensions"
	headingFailures   = "Failure Modes"
	headingSupport    = "Support Procedures"
)

// questions are those of the template, in its order.
var questions = []struct{ id, heading, question string }{
	{"adds", headingExtensions, "Which API extensions are added"},
	{"modifies", headingExtensions, "How the behavior of existing resources is modified"},
	{"slis", headingExtensions, "Which SLIs show the health of the API extensions"},
	{"effects", headingExtensions, "Which impact it has on existing SLIs"},
	{"measuring", headingExtensions, "How the impact is measured, when and by whom"},
	{"failure-modes", headingFailures, "Which failures are possible"},
	{"cluster-health", headingFailures, "How a failure affects the health of the cluster"},
	{"teams", headingFailures, "Which teams are called in case of an escalation"},
	{"detection", headingSupport, "How a failure is detected"},
	{"disabling", headingSupport, "How it is disabled"},
	{"disabled-cluster", headingSupport, "Which consequences disabling it has for the health of the cluster"},
	{"disabled-running", headingSupport, "Which consequences it has for existing, running workloads"},
	{"disabled-new", headingSupport, "Which consequences it has for newly created workloads"},
	{"resuming", headingSupport, "Whether functionality resumes when it is enabled again, without risk to consistency"},
}

// sections are the questions that have an answer.
func sections(answers map[string]Answer) []Section {
	var out []Section
	for _, q := range questions {
		a, answered := answers[q.id]
		if !answered {
			continue
		}
		if a.Answers == nil {
			a.Answers = []string{}
		}
		out = append(out, Section{q.id, q.heading, q.question, a})
	}
	return out
}

// NewCard is that of one webhook of the Report.
func NewCard(r *classify.Report, p *classify.Profile) Card {
	commands := p.Commands()
	c := Card{
		Profile: p, Sections: sections(webhookAnswers(r, p)),
		Commands: append([]string{commands.Save, commands.Disable}, commands.Restart...),
		Summary: []Fact{
			{"called for", calledFor(p)},
			{"if it fails", ifItFails(p)},
			{"stops", stopsOf(p)},
			{"way out", wayOut(p)},
		},
	}
	if elsewhere := classify.ReadyElsewhere(p); elsewhere != "" {
		c.Summary = append(c.Summary, Fact{"readiness", elsewhere})
	}
	if o := r.Snapshot.Observed; o != nil {
		c.Summary = append(c.Summary, Fact{"observed", observedInWords(o, p.Type, o.Of(p.Series()))})
	}
	for _, evidence := range r.Snapshot.AuditLog.Evidence(p.Series()) {
		c.Summary = append(c.Summary, Fact{"audit log", "it " + evidence})
	}
	return c
}

// Cards are those of a configuration, or of one webhook of it where a name is
// given.
func Cards(r *classify.Report, configuration, name string) []Card {
	var out []Card
	for i := range r.Profiles {
		p := &r.Profiles[i]
		if p.Configuration == configuration && (name == "" || p.Name == name) {
			out = append(out, NewCard(r, p))
		}
	}
	return out
}

// Title is what the card is of, and who installed it.
func (c Card) Title() string {
	switch {
	case c.Policy != nil:
		return fmt.Sprintf("%s %s%s", c.Policy.Object.Kind, c.Policy.Name, installed(&c.Policy.Registration))
	case c.APIService != nil:
		return fmt.Sprintf("APIService %s, served by Service %s", c.APIService.Name, c.APIService.Service.Key)
	}
	return fmt.Sprintf("%s webhook %s of %s%s, calls %s", c.Profile.Type.Title(), c.Profile.Name, c.Profile.Configuration, installed(&c.Profile.Registration), c.Profile.Webhook.Backend)
}

// Name is what the object is called.
func (c Card) Name() string {
	switch {
	case c.Policy != nil:
		return c.Policy.Name
	case c.APIService != nil:
		return c.APIService.Name
	}
	return c.Profile.Name
}

func calledFor(p *classify.Profile) string {
	if p.Type == inventory.Conversion {
		return conversionInWords(p)
	}
	out := append([]string{matched(p)}, selectors(p.Snapshot, &p.MatchResources)...)
	if n := len(p.MatchConditions); n > 0 {
		out = append(out, "only where all of "+inventory.Counted(n, "matchCondition")+" are true")
	}
	return strings.Join(out, "; ")
}

// ifItFails is what becomes of requests while the webhook cannot be called.
func ifItFails(p *classify.Profile) string {
	switch {
	case p.Type == inventory.Conversion:
		return conversionDown(p)
	case p.FailsClosed():
		return fmt.Sprintf("these requests are refused (failurePolicy Fail), after %s where the backend hangs", text.Seconds(p.Timeout))
	}
	pass := "these requests pass without it (failurePolicy Ignore)"
	if o := p.Outlasting; o != nil && o.Webhooks == 1 {
		return pass + "; where the backend hangs, " + o.Brief()
	}
	pass += fmt.Sprintf(", after %s where the backend hangs", text.Seconds(p.Timeout))
	if o := p.Outlasting; o != nil {
		pass += "; " + o.Brief()
	}
	return pass
}

// stopsOf are the functions of the cluster that stop, or wait where the webhook fails
// open.
func stopsOf(p *classify.Profile) string {
	stops := Stops(p)
	if p.Type == inventory.Conversion || p.FailsClosed() || len(stops) == 0 {
		return stopsInWords(stops)
	}
	return "nothing; while it hangs these wait: " + stopsInWords(stops)
}

// maxStops bounds the functions that a line names.
const maxStops = 5

func stopsInWords(stops []Stop) string {
	var out []string
	for _, stop := range stops[:min(len(stops), maxStops)] {
		out = append(out, stop.Function)
	}
	if more := len(stops) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return cmp.Or(strings.Join(out, "; "), "no function of the cluster itself is known to need these requests")
}

func wayOut(p *classify.Profile) string {
	out := "the commands below; "
	if reverts := p.Commands().Reverts; reverts != "" {
		out += reverts + "; "
	}
	return out + classify.Late
}
