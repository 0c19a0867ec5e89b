package impact

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Card says what a webhook, an admission policy or an aggregated API server adds and
// stops. Each answer is derived from the object and the Report.
type Card struct {
	// One of these is not nil.
	Profile    *classify.Profile          `json:"-"`
	Policy     *inventory.AdmissionPolicy `json:"-"`
	APIService *inventory.APIService      `json:"-"`
	// Title is what the card is of, who installed it and what it calls; Name is what that
	// is called.
	Title    string    `json:"-"`
	Name     string    `json:"-"`
	Summary  []Fact    `json:"summary" jsonschema:"Summary is what an incident needs first: called for what, what becomes of that, what stops, how to get out; and what was observed, where that was asked for."`
	Commands []string  `json:"commands" jsonschema:"Commands are the way out, to be typed in this order."`
	Sections []Section `json:"sections" jsonschema:"Sections are the section \"API Extensions\" of an enhancement, filled in; none of a policy or an APIService."`
}

// Fact is one line of a summary.
type Fact struct {
	Label string `json:"label"`
	Text  string `json:"text"`
}

// Section answers one question of the template.
type Section struct {
	ID       string `json:"id" jsonschema:"ID names the question for programs."`
	Heading  string `json:"heading" jsonschema:"Heading is the heading of the template that the question stands under."`
	Question string `json:"question"`
	Answer
}

// Answer is what the Report says of the object, and how it is seen and done.
type Answer struct {
	Answers  []string `json:"answers"`
	Queries  []Query  `json:"queries,omitempty"`
	Commands []string `json:"commands,omitempty"`
	ToFillIn []string `json:"toFillIn,omitempty" jsonschema:"ToFillIn are what only a human knows."`
}

// Query is a PromQL expression.
type Query struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

// questions are those of the template, in its order, with the headings that they stand
// under.
var questions = []struct{ id, heading, question string }{
	{"adds", "API Extensions", "Which API extensions are added"},
	{"modifies", "API Extensions", "How the behavior of existing resources is modified"},
	{"slis", "API Extensions", "Which SLIs show the health of the API extensions"},
	{"effects", "API Extensions", "Which impact it has on existing SLIs"},
	{"measuring", "API Extensions", "How the impact is measured, when and by whom"},
	{"failure-modes", "Failure Modes", "Which failures are possible"},
	{"cluster-health", "Failure Modes", "How a failure affects the health of the cluster"},
	{"teams", "Failure Modes", "Which teams are called in case of an escalation"},
	{"detection", "Support Procedures", "How a failure is detected"},
	{"disabling", "Support Procedures", "How it is disabled"},
	{"disabled-cluster", "Support Procedures", "Which consequences disabling it has for the health of the cluster"},
	{"disabled-running", "Support Procedures", "Which consequences it has for existing, running workloads"},
	{"disabled-new", "Support Procedures", "Which consequences it has for newly created workloads"},
	{"resuming", "Support Procedures", "Whether functionality resumes when it is enabled again, without risk to consistency"},
}

// sections are the questions with their answers.
func sections(answers map[string]Answer) []Section {
	var out []Section
	for _, q := range questions {
		a := answers[q.id]
		if a.Answers == nil {
			a.Answers = []string{}
		}
		out = append(out, Section{q.id, q.heading, q.question, a})
	}
	return out
}

// teams are those who answer for the object.
func teams(object inventory.Object) Answer {
	a := Answer{ToFillIn: []string{"the team that owns it, and how it is reached"}}
	if owner := object.Owner.String(); owner != "" {
		a.Answers = []string{"its object is managed by " + owner}
	}
	return a
}

// foundNow are the findings on the webhook or policy.
func foundNow(r *classify.Report, ref inventory.Ref) []string {
	var out []string
	for _, f := range r.Findings {
		if f.Webhook == ref && !f.Acknowledged {
			out = append(out, "found now, "+inWords(f))
		}
	}
	return out
}

// disabling is how something is disabled, and what puts it back.
func disabling(c classify.Commands) Answer {
	a := Answer{Commands: []string{c.Disable}}
	if c.Reverts == "" {
		a.ToFillIn = []string{"whether its operator puts it back, and how that is stopped"}
	} else {
		a.Answers = []string{c.Reverts}
	}
	return a
}

func installed(r *inventory.Registration) string {
	if owner := r.Object.Owner.String(); owner != "" {
		return ", installed by " + owner
	}
	return ""
}

// covers counts and names resources.
func covers(list []admission.MatchedResource) string {
	return fmt.Sprintf("that covers %s of this cluster: %s", inventory.Counted(len(list), "resource"), resources(list))
}
