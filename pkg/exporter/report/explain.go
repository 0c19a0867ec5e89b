package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Explanation is a chain as "explain -o json" prints it.
type Explanation struct {
	Version          string                 `json:"version"`
	Request          ExplainedRequest       `json:"request"`
	Notes            []string               `json:"notes,omitempty" jsonschema:"Notes say how the request was understood, and what the answer leaves open."`
	Chain            []ChainStep            `json:"chain" jsonschema:"Chain are the policies that are evaluated and the webhooks that are called, or may be, in order."`
	Conversion       *ConversionStep        `json:"conversion,omitempty" jsonschema:"Conversion is the webhook that storing the object calls as well; absent without one."`
	Skipped          []SkippedStep          `json:"skipped"`
	BudgetSeconds    int                    `json:"budgetSeconds" jsonschema:"BudgetSeconds is the worst case: how long the request waits if every webhook answers just before its timeout. Policies are evaluated by the API server itself, and add nothing. Nor is the conversion part of it."`
	Budget           *Budget                `json:"budget,omitempty" jsonschema:"Budget has its parts; absent where no webhook is called."`
	EndsAfterSeconds int                    `json:"endsAfterSeconds,omitempty" jsonschema:"EndsAfterSeconds is when the API server refuses the request if it waits that long, whatever the failurePolicy; 0 where it waits for all."`
	Deadlines        []Deadline             `json:"deadlines,omitempty" jsonschema:"Deadlines are what the worst case is compared with; absent where no webhook is called."`
	Observed         *inventory.Observation `json:"observed,omitempty" jsonschema:"Observed is where observed values come from."`
	Inputs           []inventory.Input      `json:"inputs,omitempty" jsonschema:"Inputs are the paths that were read; absent for a cluster."`
	Taken            time.Time              `json:"taken" jsonschema:"Taken is when the facts were true."`
	// endsForCertain says that the webhooks that are called for certain suffice for EndsAfterSeconds.
	endsForCertain bool
	files          bool
	// unread says that there may be configurations of webhooks that cannot be read.
	unread bool
}

type ExplainedRequest struct {
	Operation   admission.Operation `json:"operation"`
	Group       string              `json:"group"`
	Version     string              `json:"version"`
	Resource    string              `json:"resource"`
	Subresource string              `json:"subresource"`
	Namespace   string              `json:"namespace"`
	Name        string              `json:"name,omitempty"`
}

func (r ExplainedRequest) Title() string {
	resource := inventory.Resource{Group: r.Group, Name: r.Resource, Subresource: r.Subresource}
	out := strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Operation, resource, r.Name))
	if r.Namespace != "" && !resource.IsNamespaces() {
		out += " in " + r.Namespace
	}
	return out
}

// Budget are the parts of a worst case: of the mutating webhooks, which are called one
// after the other, of those among them that may be called again, and of the slowest
// validating one.
type Budget struct {
	MutatingSeconds   int `json:"mutatingSeconds"`
	ReinvokedSeconds  int `json:"reinvokedSeconds"`
	ValidatingSeconds int `json:"validatingSeconds"`
}

func (b Budget) Parts() []string {
	var out []string
	for _, part := range []struct {
		seconds int
		what    string
	}{
		{b.MutatingSeconds, "mutating, one after the other"},
		{b.ReinvokedSeconds, "called again"},
		{b.ValidatingSeconds, "the slowest validating one"},
	} {
		if part.seconds > 0 {
			out = append(out, fmt.Sprintf("%d s %s", part.seconds, part.what))
		}
	}
	return out
}

type Deadline struct {
	AfterSeconds int    `json:"afterSeconds"`
	Whose        string `json:"whose" jsonschema:"Whose completes \"the AFTERSECONDS s …\"."`
	Missed       bool   `json:"missed,omitempty" jsonschema:"Missed is set where the worst case is not shorter."`
	EndsRequest  bool   `json:"endsRequest,omitempty" jsonschema:"EndsRequest is set where the API server ends the request then, whatever it waits for."`
	// isInside says that it begins with the validating webhooks.
	isInside bool
	// certain says that the webhooks that are called for certain suffice to miss it.
	certain bool
}

func (d Deadline) FromBegin() bool { return !d.isInside }

func (d Deadline) String() string { return fmt.Sprintf("the %d s %s", d.AfterSeconds, d.Whose) }

type ConversionStep struct {
	inventory.Ref
	TimeoutSeconds int             `json:"timeoutSeconds"`
	Called         admission.Match `json:"called" jsonschema:"Called says whether storing the object calls it."`
	Detail         string          `json:"detail"`
	Backend        string          `json:"backend"`
	Unreachable    string          `json:"unreachable,omitempty" jsonschema:"Unreachable completes \"its backend …\": why it cannot be called now; absent where nothing is known to be wrong."`
	look           string
}

// ChainStep is a webhook of the chain, or a policy with a binding.
type ChainStep struct {
	Step int `json:"step" jsonschema:"Step counts from 1. Validating webhooks share one: they are called at once. So do the policies of a type, among which the API server has no order."`
	inventory.Ref
	Binding           string          `json:"binding,omitempty" jsonschema:"Binding is that of a policy, where it is not the policy that decides."`
	ValidationActions []string        `json:"validationActions,omitempty" jsonschema:"ValidationActions are those of the binding of a validating policy."`
	FailurePolicy     string          `json:"failurePolicy"`
	TimeoutSeconds    int             `json:"timeoutSeconds,omitempty" jsonschema:"TimeoutSeconds is that of a webhook: policies have none."`
	Called            admission.Match `json:"called" jsonschema:"Called says whether a webhook is called, or a policy evaluated."`
	Reinvocable       bool            `json:"reinvocable,omitempty" jsonschema:"Reinvocable is set where that may be done again, if the object is changed after it."`
	Unseen            []int           `json:"unseen,omitempty" jsonschema:"Unseen are the steps whose changes it does not see: they come after it, and its reinvocationPolicy is Never. Its own is among them where several policies share it."`
	Refuses           bool            `json:"refuses,omitempty" jsonschema:"Refuses is set where the request is refused instead of sent to the webhook."`
	Denies            bool            `json:"denies,omitempty" jsonschema:"Denies is set where a validation of the policy is false for the object that was given, which is refused."`
	Detail            string          `json:"detail,omitempty" jsonschema:"Detail is what decides, where that is not the request alone; of a validating policy that is evaluated, what it says of the object."`
	Backend           string          `json:"backend,omitempty" jsonschema:"Backend is what the API server calls; absent of a policy."`
	Ready             int             `json:"ready,omitempty" jsonschema:"Ready counts the ready endpoints of its Service; absent where that is not known."`
	Unreachable       string          `json:"unreachable,omitempty" jsonschema:"Unreachable completes \"its backend …\": why it cannot be called now; absent where nothing is known to be wrong."`
	Observed          *Observed       `json:"observed,omitempty" jsonschema:"Observed is what was measured of the webhook, for all its requests."`
	// look shows why it cannot be called, or refuses.
	look string
}

// SkippedStep is a webhook that is not called, or a policy that is not evaluated.
type SkippedStep struct {
	inventory.Ref
	Binding string           `json:"binding,omitempty"`
	Why     admission.Reason `json:"why"`
	Detail  string           `json:"detail,omitempty" jsonschema:"Detail says more of it, where the registration does not show it."`
	// registration has the selectors, which are not repeated for each request.
	registration *inventory.Registration
}

func NewExplanation(c admission.Chain, s *inventory.Snapshot) Explanation {
	r, budget := c.Request, c.Budget()
	e := Explanation{
		Version: documentVersion,
		Request: ExplainedRequest{
			r.Operation, r.Resource.Group, r.Version, r.Resource.Name, r.Resource.Subresource, r.Namespace, r.Name,
		},
		Notes:         r.Notes,
		Chain:         chainSteps(c, s),
		Skipped:       make([]SkippedStep, 0, len(c.Skipped)+len(c.SkippedPolicies)),
		BudgetSeconds: wholeSeconds(budget.Total()),
		Inputs:        newInputs(s),
		Observed:      s.Observed,
		Taken:         s.Taken.UTC(),
		files:         len(s.Inputs) > 0,
		unread: s.Unread(inventory.Ref{Type: inventory.Mutating}) ||
			s.Unread(inventory.Ref{Type: inventory.Validating}),
	}
	if len(c.Steps) > 0 {
		e.Budget = &Budget{
			wholeSeconds(budget.Mutating), wholeSeconds(budget.Reinvocable), wholeSeconds(budget.Validating),
		}
		certain := c
		certain.Steps = lists.Filter(c.Steps, func(s admission.Step) bool { return s.Match == admission.Yes })
		e.Deadlines = deadlines(c.Limits, budget, certain.Budget())
		if _, after, ended := admission.End(c.Limits, budget); ended {
			e.EndsAfterSeconds = wholeSeconds(after)
			_, end, ends := admission.End(c.Limits, certain.Budget())
			e.endsForCertain = ends && end == after
		}
	}
	if step := c.Conversion; step != nil {
		w := step.Webhook
		why, look := classify.Uncallable(w, s)
		e.Conversion = &ConversionStep{
			w.Ref, wholeSeconds(w.Timeout), step.Match, step.Detail, w.Backend.String(), why, look,
		}
	}
	for _, step := range c.SkippedPolicies {
		e.Skipped = append(e.Skipped, skippedStep(&step.Policy.Registration, bindingName(step), step.Verdict))
	}
	for _, step := range c.Skipped {
		e.Skipped = append(e.Skipped, skippedStep(&step.Webhook.Registration, "", step.Verdict))
	}
	return e
}

func skippedStep(r *inventory.Registration, binding string, v admission.Verdict) SkippedStep {
	return SkippedStep{r.Ref, binding, v.Reason, v.Detail, r}
}

// Because is why it is skipped, in words; of one that NewExplanation made, not of one that
// was read from JSON.
func (s SkippedStep) Because() string {
	detail := s.Detail
	switch s.Why {
	case admission.ReasonExcluded:
		detail = "the API server calls no webhook for it"
		if s.Type.IsPolicy() {
			detail = "the API server evaluates no policy for it"
		}
	case admission.ReasonScope:
		detail = "its rules ask for the other scope"
	case admission.ReasonNamespaceSelector:
		detail = cmp.Or(detail, "the namespace is not selected by "+s.registration.NamespaceSelector.String())
	case admission.ReasonObjectSelector:
		detail = "the object is not selected by " + s.registration.ObjectSelector.String()
	case admission.ReasonExcludeRules:
		detail = "one of them covers it"
	}
	return strings.TrimSuffix(string(s.Why)+": "+detail, ": ")
}

// count counts a policy once, however many bindings it has.
func (e Explanation) count() (policies, webhooks int) {
	steps := lists.Filter(e.Chain, func(s ChainStep) bool { return s.Type.IsPolicy() })
	distinct := lists.Once(lists.Map(steps, func(s ChainStep) inventory.Ref { return s.Ref }))
	return len(distinct), len(e.Chain) - len(steps)
}

// chainSteps are all steps in the order of the request: policies before the webhooks
// of what they do.
func chainSteps(c admission.Chain, s *inventory.Snapshot) []ChainStep {
	out := make([]ChainStep, 0, len(c.Policies)+len(c.Steps))
	place := 0
	add := func(next ChainStep) {
		if len(out) == 0 || next.Type == inventory.Mutating || next.Type != out[len(out)-1].Type {
			place++
		}
		next.Step = place
		out = append(out, next)
	}
	for _, t := range []inventory.Type{
		inventory.MutatingPolicy, inventory.Mutating, inventory.ValidatingPolicy, inventory.Validating,
	} {
		for _, step := range c.Policies {
			if step.Policy.Type == t {
				add(newPolicyStep(step, c.Request.Operation))
			}
		}
		for _, step := range c.Steps {
			if step.Webhook.Type == t {
				add(newWebhookStep(step, c.Request.Operation, s))
			}
		}
	}
	if c.Request.Operation != admission.Delete {
		markUnseen(out)
	}
	return out
}

// markUnseen says which steps change the object after another has seen it for the last
// time. What is refused before changes nothing. Source: Dispatch in
// k8s.io/apiserver/pkg/admission/plugin/webhook/mutating and plugin/policy/mutating.
func markUnseen(chain []ChainStep) {
	changes := func(s ChainStep) bool { return !s.Type.Validates() && !s.Refuses }
	for i := range chain {
		if !changes(chain[i]) || chain[i].Reinvocable {
			continue
		}
		for n, later := range chain {
			if n != i && changes(later) &&
				(later.Step > chain[i].Step || later.Step == chain[i].Step && later.Ref != chain[i].Ref) {
				chain[i].Unseen = append(chain[i].Unseen, later.Step)
			}
		}
		chain[i].Unseen = slices.Compact(chain[i].Unseen)
	}
}

func newWebhookStep(step admission.Step, op admission.Operation, s *inventory.Snapshot) ChainStep {
	w := step.Webhook
	why, look := classify.Uncallable(w, s)
	return ChainStep{
		Ref:           w.Ref,
		FailurePolicy: string(w.FailurePolicy), TimeoutSeconds: wholeSeconds(w.Timeout),
		Called: step.Match, Refuses: step.Refused, Detail: step.Detail,
		Reinvocable: (admission.Budget{}).Add(w, op).Reinvocable > 0,
		Backend:     w.Backend.String(), Ready: s.State(w.Backend).Ready, Unreachable: why, look: look,
		Observed: newObserved(s.Observed, w.Series()),
	}
}

func newPolicyStep(step admission.PolicyStep, op admission.Operation) ChainStep {
	p := step.Policy
	out := ChainStep{
		Ref: p.Ref, Binding: bindingName(step),
		FailurePolicy: string(p.FailurePolicy),
		Called:        step.Match, Refuses: step.Refused, Denies: step.Denied, Detail: step.Detail,
		Reinvocable: p.Reinvocation == admissionv1.IfNeededReinvocationPolicy && op != admission.Delete,
	}
	if step.Binding != nil {
		out.ValidationActions = lists.Strings(step.Binding.Actions)
	}
	return out
}

// bindingName names the binding, "" where it is not the binding that decides.
func bindingName(step admission.PolicyStep) string {
	if step.Binding == nil {
		return ""
	}
	return step.Binding.Object.Name
}

func wholeSeconds(d time.Duration) int { return int(d.Seconds()) }

// deadlines are the limits of the webhooks that a request meets, beside its worst case.
func deadlines(limits []admission.Limit, b, certain admission.Budget) []Deadline {
	var out []Deadline
	for _, l := range limits {
		if l.Bounded(b) > 0 {
			out = append(out, Deadline{
				AfterSeconds: wholeSeconds(l.After), Whose: l.Whose, Missed: l.Missed(b), EndsRequest: l.Ends,
				isInside: l.Of == inventory.Validating, certain: l.Missed(certain),
			})
		}
	}
	return out
}
