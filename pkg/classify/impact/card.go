package impact

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Card is the section "API Extensions" of an enhancement, filled in for one
// webhook, admission policy or aggregated API server. Each answer is derived from the
// object and the Report.
type Card struct {
	// One of these is not nil.
	Profile    *classify.Profile
	Policy     *inventory.AdmissionPolicy
	APIService *inventory.APIService
	Sections   []Section
}

// Section answers one question of the template.
type Section struct {
	// ID names the question for programs.
	ID string
	// Heading is the heading of the template that the question stands under.
	Heading  string
	Question string
	Answers  []string
	Queries  []Query
	Commands []string
	// Blanks are what only a human knows.
	Blanks []string
}

// Query is a PromQL expression.
type Query struct {
	Name, Expression string
}

// The headings of the template.
const (
	headingExtensions = "API Extensions"
	headingFailures   = "Failure Modes"
	headingSupport    = "Support Procedures"
)

// NewCard fills in the section for one webhook of the Report.
func NewCard(r *classify.Report, p *classify.Profile) Card {
	c := Card{Profile: p}
	c.Sections = []Section{
		c.adds(), c.modifies(), c.indicators(), c.effects(r), c.measuring(),
		c.failureModes(), c.health(), teams(p.Object),
		c.detection(r), c.disabling(), c.afterwards(), c.running(), c.created(), c.resuming(),
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

func (c Card) adds() Section {
	p := c.Profile
	s := Section{ID: "adds", Heading: headingExtensions, Question: "Which API extensions are added"}
	s.Answers = append(s.Answers, fmt.Sprintf("the %s webhook %s, registered by %s %s%s", p.Type.Title(), p.Name, p.Object.Kind, p.Configuration, installed(&p.Registration)))
	s.Answers = append(s.Answers, fmt.Sprintf("it calls %s; a call may take %s", p.Webhook.Backend, text.Seconds(p.Timeout)))
	for i := range p.Rules {
		s.Answers = append(s.Answers, "it is called for "+ruleInWords(&p.Rules[i]))
	}
	if p.Type == inventory.Conversion {
		s.Answers = append(s.Answers, conversionInWords(p))
	}
	return withSelectors(s, p)
}

func withSelectors(s Section, p *classify.Profile) Section {
	if p.Type == inventory.Conversion {
		return s
	}
	s.Answers = append(s.Answers, filters(p.Snapshot, &p.Registration)...)
	s.Answers = append(s.Answers, fmt.Sprintf("that covers %s of this cluster: %s", inventory.Counted(len(p.Matched), "resource"), matched(p)))
	return s
}

// filters are the selectors and matchConditions of a webhook or a policy.
func filters(s *inventory.Snapshot, r *inventory.Registration) []string {
	out := selectors(s, &r.MatchResources)
	for _, m := range r.MatchConditions {
		out = append(out, fmt.Sprintf("only where the matchCondition %s is true: %s", m.Name, oneLine(m.Expression)))
	}
	return out
}

func selectors(s *inventory.Snapshot, m *inventory.MatchResources) []string {
	var out []string
	if !m.NamespaceSelector.Empty() {
		out = append(out, "only in namespaces with the labels "+m.NamespaceSelector.String()+selected(s, m.NamespaceSelector)+"; cluster-scoped objects are not excluded by that")
	}
	if !m.ObjectSelector.Empty() {
		out = append(out, "only for objects with the labels "+m.ObjectSelector.String())
	}
	return out
}

func (c Card) modifies() Section {
	s := Section{ID: "modifies", Heading: headingExtensions, Question: "How the behavior of existing resources is modified"}
	switch c.Profile.Type {
	case inventory.Mutating:
		s.Answers = []string{"it may change and refuse the objects that it is called for"}
		if c.Profile.Reinvocation == admissionv1.IfNeededReinvocationPolicy {
			s.Answers = append(s.Answers, "it is called again where the object is changed after it (reinvocationPolicy IfNeeded)")
		}
		s.Blanks = []string{"which fields of which objects it sets, and to what"}
	case inventory.Validating:
		s.Answers = []string{"it may refuse the objects that it is called for; it changes none"}
		s.Blanks = []string{"what it refuses, and why"}
	default:
		s.Answers = []string{"objects are read and written in all served versions, each conversion by a call"}
		s.Blanks = []string{"what is lost between the versions, if anything"}
	}
	return s
}

func (c Card) indicators() Section {
	return Section{
		ID: "slis", Heading: headingExtensions, Question: "Which SLIs show the health of the API extensions",
		Answers: []string{
			"the API servers' own series, and those of webhook-auditor",
			"the operator's conditions MutatingAdmissionWebhookConfigurationError, ValidatingAdmissionWebhookConfigurationError and CRDConversionWebhookConfigurationError",
		},
		Queries: queries(c.Profile),
	}
}

func (c Card) effects(r *classify.Report) Section {
	p := c.Profile
	s := Section{ID: "effects", Heading: headingExtensions, Question: "Which impact it has on existing SLIs"}
	s.Answers = append(s.Answers, latency(p))
	if o := r.Snapshot.Observed; o != nil {
		s.Answers = append(s.Answers, "observed: "+observedInWords(o, p.Type, o.Of(p.Series())))
	} else {
		s.Blanks = append(s.Blanks, "the latency as observed (read from the cluster with --observe=apiserver, or from Prometheus with --prometheus-url)")
	}
	for _, evidence := range r.Snapshot.AuditLog.Evidence(p.Series()) {
		s.Answers = append(s.Answers, "by the audit log, it "+evidence)
	}
	s.Answers = append(s.Answers, whenDown(p))
	s.Answers = append(s.Answers, dependency(p))
	for _, stop := range Stops(p) {
		if p.FailsClosed() {
			s.Answers = append(s.Answers, "while it cannot be called, this stops"+perhaps(stop.Match)+": "+stop.Function)
		}
	}
	return s
}

func (c Card) measuring() Section {
	return Section{
		ID: "measuring", Heading: headingExtensions, Question: "How the impact is measured, when and by whom",
		Answers:  []string{fmt.Sprintf("by the queries above: its 99th percentile must stay below %gs, the threshold of the alerts", c.Profile.Threshold)},
		Queries:  latencyQuery(c.Profile),
		Commands: []string{"webhook-auditor top --observe=apiserver"},
		Blanks:   []string{"when it is measured (each release, or in CI), and by whom"},
	}
}

func (c Card) failureModes() Section {
	p := c.Profile
	s := Section{ID: "failure-modes", Heading: headingFailures, Question: "Which failures are possible"}
	s.Answers = append(
		s.Answers,
		"the backend is gone or cannot be reached: "+whenDown(p),
		fmt.Sprintf("the backend hangs: each request waits %s, then the same", text.Seconds(p.Timeout)),
	)
	s.Answers = append(s.Answers, drains(p)...)
	if p.Webhook.Backend.Kind != inventory.BackendAPIServer {
		s.Answers = append(s.Answers, "its serving certificate expires, or the CA bundle of the registration does not match it: the same")
	}
	switch p.Type {
	case inventory.Mutating:
		s.Answers = append(s.Answers, "it answers with a patch that does not apply: the request is refused, whatever the failurePolicy")
	case inventory.Conversion:
		s.Answers = append(s.Answers, "it answers with an object that is not the one it was sent: reading it fails")
	}
	if len(p.MatchConditions) > 0 {
		s.Answers = append(s.Answers, "a matchCondition cannot be evaluated: the request is "+refusedOrPassed(p))
	}
	s.Answers = append(s.Answers, "it refuses what it should not: such requests fail with its message")
	s.Blanks = []string{"failures of its own, and what it needs besides (other Services, caches, external systems)"}
	return s
}

func (c Card) health() Section {
	p := c.Profile
	s := Section{ID: "cluster-health", Heading: headingFailures, Question: "How a failure affects the health of the cluster"}
	for _, stop := range Stops(p) {
		verb := "stops"
		if !p.FailsClosed() {
			verb = fmt.Sprintf("waits %s for each request while the backend hangs", text.Seconds(p.Timeout))
		}
		s.Answers = append(s.Answers, fmt.Sprintf("%s%s: %s", verb, perhaps(stop.Match), stop.Function))
	}
	switch {
	case len(s.Answers) > 0:
	case len(p.ControlPlane) > 0 && !p.Platform:
		s.Answers = []string{"the control plane needs requests that it is called for: the finding control-plane-path names them"}
	default:
		s.Answers = []string{"no function of the cluster itself is known to need the requests that it is called for"}
	}
	if p.Deadlock != nil {
		s.Answers = append(s.Answers, "it refuses what its own backend needs to start, so that it does not come back by itself: "+strings.Join(p.Deadlock.Steps, "; "))
	}
	return s
}

func teams(object inventory.Object) Section {
	s := Section{ID: "teams", Heading: headingFailures, Question: "Which teams are called in case of an escalation", Blanks: []string{"the team that owns it, and how it is reached"}}
	if owner := object.Owner.String(); owner != "" {
		s.Answers = []string{"its object is managed by " + owner}
	}
	return s
}

func (c Card) detection(r *classify.Report) Section {
	p := c.Profile
	s := Section{
		ID: "detection", Heading: headingSupport, Question: "How a failure is detected",
		Answers:  []string{symptom(p)},
		Queries:  []Query{{"alerts on it that fire", fmt.Sprintf("ALERTS{alertstate=\"firing\",%s}", selector(p, "name"))}},
		Commands: p.Commands().Inspect,
	}
	s.Answers = append(s.Answers, foundNow(r, p.Ref)...)
	return s
}

// foundNow are the findings on the webhook or policy.
func foundNow(r *classify.Report, ref inventory.Ref) []string {
	var out []string
	for _, f := range r.Findings {
		if f.Webhook == ref && !f.Acknowledged {
			out = append(out, fmt.Sprintf("found now, %s: %s: %s %s %s", f.Severity, f.Check.Name, ref.Type.Noun(), ref.Name, f.Message))
		}
	}
	return out
}

func (c Card) disabling() Section {
	p := c.Profile
	commands := p.Commands()
	s := Section{
		ID: "disabling", Heading: headingSupport, Question: "How it is disabled",
		Commands: []string{commands.Save, commands.Disable},
	}
	if others := siblings(p); len(others) > 0 {
		s.Answers = append(s.Answers, "the command disables all of its configuration, also "+some(others))
	}
	if commands.Reverts != "" {
		s.Answers = append(s.Answers, commands.Reverts)
	} else {
		s.Answers = append(s.Answers, "nothing in its object says that something puts it back")
		s.Blanks = append(s.Blanks, "whether its operator puts it back, and how that is stopped")
	}
	return s
}

func (c Card) afterwards() Section {
	p := c.Profile
	s := Section{ID: "disabled-cluster", Heading: headingSupport, Question: "Which consequences disabling it has for the health of the cluster"}
	if p.Type == inventory.Conversion {
		s.Answers = []string{"with strategy None objects change their apiVersion alone: what the versions spell differently is lost when such an object is written"}
		return s
	}
	s.Answers = []string{"requests no longer wait for it, and none are refused by it"}
	for _, stop := range Stops(p) {
		if p.FailsClosed() {
			s.Answers = append(s.Answers, "no longer depends on its backend: "+stop.Function)
		}
	}
	return s
}

func (c Card) running() Section {
	s := Section{ID: "disabled-running", Heading: headingSupport, Question: "Which consequences it has for existing, running workloads"}
	s.Answers = []string{"objects that exist stay as they are: admission is about requests"}
	if c.Profile.Type == inventory.Conversion {
		s.Answers = []string{"Pods run on; controllers of the resource meet objects as they are stored"}
	}
	s.Blanks = []string{"what else its backend does for running workloads (as a controller, say)"}
	return s
}

func (c Card) created() Section {
	p := c.Profile
	s := Section{ID: "disabled-new", Heading: headingSupport, Question: "Which consequences it has for newly created workloads"}
	switch p.Type {
	case inventory.Mutating:
		s.Answers = []string{"new and changed objects lack what it sets, until they are created anew: " + matched(p)}
	case inventory.Validating:
		s.Answers = []string{"new and changed objects are not checked by it: " + matched(p)}
	default:
		s.Answers = []string{"objects that are created in another version than is stored are stored without conversion"}
	}
	s.Blanks = []string{"whether workloads work without that"}
	return s
}

func (c Card) resuming() Section {
	p := c.Profile
	s := Section{
		ID: "resuming", Heading: headingSupport, Question: "Whether functionality resumes when it is enabled again, without risk to consistency",
		Commands: []string{p.Commands().Restore},
	}
	s.Answers = []string{"it is called again within seconds of its registration, on each API server"}
	if p.Type != inventory.Conversion {
		s.Answers = append(s.Answers, "the webhook does not see objects that were written meanwhile until they are written again: list them by creationTimestamp and managedFields")
	}
	s.Blanks = []string{"what must be repaired in objects that were written meanwhile"}
	return s
}

// siblings are the other webhooks of the configuration.
func siblings(p *classify.Profile) []string {
	var out []string
	for i := range p.Snapshot.Webhooks {
		w := p.Snapshot.Webhooks[i]
		if w.Type == p.Type && w.Configuration == p.Configuration && w.Index != p.Index {
			out = append(out, w.Name)
		}
	}
	return out
}
