package impact

import (
	"fmt"
	"slices"
	"strings"

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

func teams(object inventory.Object) Answer {
	a := Answer{ToFillIn: []string{"the team that owns it, and how it is reached"}}
	if owner := object.Owner.String(); owner != "" {
		a.Answers = []string{"its object is managed by " + owner}
	}
	return a
}

func foundNow(r *classify.Report, ref inventory.Ref) []string {
	var out []string
	for _, f := range r.Findings {
		if f.Webhook == ref && !f.Acknowledged {
			out = append(out, "found now, "+inWords(f, f.Webhook.Name))
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

func covers(list []admission.MatchedResource) string {
	return fmt.Sprintf("that covers %s of this cluster: %s", inventory.Counted(len(list), "resource"), resources(list))
}

// PolicyCards are those of the admission policies with the name, of the type or of both
// where it has none.
func PolicyCards(r *classify.Report, ref inventory.Ref) []Card {
	var out []Card
	for _, p := range r.Snapshot.Policies {
		if p.Name == ref.Configuration && (ref.Type == "" || p.Type == ref.Type) {
			out = append(out, newPolicyCard(r, p))
		}
	}
	return out
}

func newPolicyCard(r *classify.Report, p *inventory.AdmissionPolicy) Card {
	matched := r.Matcher.PolicyResources(p)
	out := Card{
		Policy: p, Name: p.Name, Title: fmt.Sprintf("%s %s%s", p.Object.Kind, p.Name, installed(&p.Registration)),
		Commands: []string{}, Sections: []Section{},
		Summary: []Fact{
			{"called for", strings.Join(append([]string{resources(matched)}, policySelectors(r.Snapshot, p, matched)...), "; ")},
			{"if it fails", strings.Join(policyFailures(r, p), "; ")},
			{"stops", stopsInWords(r.RefusedFunctions(p))},
		},
	}
	if len(p.Bindings) == 0 {
		out.Summary = append(out.Summary, Fact{"way out", "no binding names it: there is nothing to disable"})
		return out
	}
	c := classify.PolicyCommands(p)
	out.Commands = []string{c.Disable}
	wayOut := "delete its bindings by the commands below"
	if classify.CoversPods(matched) {
		wayOut += "; " + classify.Late
	}
	out.Summary = append(out.Summary, Fact{"way out", wayOut})
	return out
}

// policySelectors are those of the policy, with those of its binding where it has one alone.
func policySelectors(s *inventory.Snapshot, p *inventory.AdmissionPolicy,
	matched []admission.MatchedResource,
) []string {
	if len(p.Bindings) == 1 {
		both := p.SelectedBy(p.Bindings[0])
		return selectors(s, &both, matched)
	}
	out := selectors(s, &p.MatchResources, matched)
	isOpen := func(b *inventory.PolicyBinding) bool { return b.NamespaceSelector.Empty() && b.ObjectSelector.Empty() }
	if len(p.Bindings) > 0 && !slices.ContainsFunc(p.Bindings, isOpen) {
		out = append(out, "only where the selectors of one of its bindings match")
	}
	return out
}

func policyFailures(r *classify.Report, p *inventory.AdmissionPolicy) []string {
	outcome := "let through (failurePolicy Ignore)"
	switch {
	case p.FailsClosed() && p.Denies():
		outcome = "refused (failurePolicy Fail)"
	case p.FailsClosed():
		outcome = "let through, as no binding denies"
	}
	return append([]string{"where an expression fails, or costs more than the API server allows, the request is " + outcome}, paramFailures(r, p)...)
}

// paramFailures are what becomes of requests where params or their kind are missing:
// no binding, action or matchCondition prevents that.
func paramFailures(r *classify.Report, p *inventory.AdmissionPolicy) []string {
	if p.ParamKind == nil {
		return nil
	}
	missing := fmt.Sprintf("where the kind of its params (%s %s) is not served, every request that its rules and selectors match is ", p.ParamKind.APIVersion, p.ParamKind.Kind)
	if !p.FailsClosed() {
		return []string{missing + "let through (failurePolicy Ignore)"}
	}
	out := []string{missing + "refused, whatever its bindings and matchConditions say (failurePolicy Fail)"}
	if v := r.Matcher.ParamKind(p); v.Refused {
		out = append(out, "that is so now: "+v.Detail)
	} else if v.Match == admission.Maybe {
		out = append(out, "whether it is served is not known from this input")
	}
	var denying []string
	for _, b := range p.Bindings {
		if b.DeniesWithoutParams() {
			denying = append(denying, b.Object.Name)
		}
	}
	if len(denying) > 0 {
		out = append(out, fmt.Sprintf("where its params do not exist, every request that it matches by %s is refused, whatever the validationActions say (parameterNotFoundAction Deny)", some(denying)))
	}
	return out
}

// APIServiceCards are those of the aggregated API server that the APIService of the name
// puts behind a group and version; none where the API server itself serves that, or the
// input has no such object. Source of what its loss stops: kubernetes
// pkg/controller/namespace/deletion, whose discovery must succeed for all groups.
func APIServiceCards(r *classify.Report, name string) []Card {
	a, ok := r.Snapshot.APIServices[name]
	if !ok || a.Service == nil {
		return nil
	}
	commands := classify.DeleteCommands("apiservice", a.Name, inventory.Owner{})
	return []Card{{
		APIService: &a, Name: a.Name, Title: fmt.Sprintf("APIService %s, served by Service %s", a.Name, a.Service.Key),
		Commands: []string{commands.Disable}, Sections: []Section{},
		Summary: []Fact{
			{"called for", servesInWords(r, a)},
			{"if it fails", fmt.Sprintf("every request to %s/%s fails with 503", a.Group, a.Version)},
			{"stops", "deletion of namespaces (NamespaceDeletionDiscoveryFailure); garbage collection of its objects; kubectl get all and Helm print errors"},
			{"way out", "bring its Service back; else the commands below: its objects stay where it stores them"},
		},
	}}
}

// AggregatedAPIs are the names of the APIServices that have cards.
func AggregatedAPIs(s *inventory.Snapshot) []string {
	var out []string
	for name, a := range s.APIServices {
		if a.Service != nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// servesInWords are the resources of the group and version.
func servesInWords(r *classify.Report, a inventory.APIService) string {
	var out []string
	for _, served := range r.Snapshot.Served {
		if served.Group == a.Group && served.Version == a.Version {
			out = append(out, served.Resource.String())
		}
	}
	if len(out) == 0 {
		return "which resources it serves is not known: the input has none, or it does not answer"
	}
	return strings.Join(out, ", ")
}
