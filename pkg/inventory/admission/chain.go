package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

type Chain struct {
	Request Request
	// Steps are the webhooks that are called, or may be: the mutating ones one
	// after the other in this order, then the validating ones all at once.
	Steps   []Step
	Skipped []Step
	// Policies are the admission policies that are evaluated, or may be: those that
	// mutate before the mutating webhooks, those that validate before the validating
	// ones. There is no order among those of a type. SkippedPolicies are the others.
	Policies, SkippedPolicies []PolicyStep
	// Limits are those of the request, the shortest first.
	Limits []Limit
	// Conversion is the conversion webhook that the request needs as well, if
	// any. It is called by the storage, not by admission, and not within the
	// budget.
	Conversion *Step
}

type Step struct {
	Webhook *inventory.Webhook
	Verdict
}

// Chain returns what the request meets, in the order of the Snapshot's
// webhooks: that in which the API server calls them.
func (m *Matcher) Chain(r Request) Chain {
	c := Chain{Request: r, Limits: m.Limits(r.Operation, r.Resource)}
	for i := range m.Snapshot.Webhooks {
		w := m.Snapshot.Webhooks[i]
		if w.Type == inventory.Conversion {
			continue
		}
		step := Step{w, r.either(func(q Request) Verdict { return q.Match(w) })}
		if step.Match == No {
			step.Detail = cmp.Or(step.Detail, m.excludedBy(r, step))
			c.Skipped = append(c.Skipped, step)
		} else {
			c.Steps = append(c.Steps, step)
		}
	}
	for _, p := range m.Snapshot.Policies {
		for _, step := range m.policySteps(r, p) {
			if step.Match == No {
				c.SkippedPolicies = append(c.SkippedPolicies, step)
			} else {
				c.Policies = append(c.Policies, step)
			}
		}
	}
	c.addValidations()
	c.Conversion = m.conversion(c)
	c.Request.Notes = slices.Concat(r.Notes, c.labelNotes(), c.kindNotes(), c.mirrorNotes(), m.serverNotes(c))
	return c
}

// labelNotes say what may become of the labels that were given, where an
// objectSelector decided by them.
func (c Chain) labelNotes() []string {
	decided := func(step Step) bool {
		return step.Reason == ReasonObjectSelector || step.Match == Yes && !step.Webhook.ObjectSelector.Empty()
	}
	changes := func(step Step) bool { return step.Webhook.Type == inventory.Mutating }
	if r := c.Request; r.requestContext == nil || !r.objectLabels.complete || r.Object != nil ||
		!slices.ContainsFunc(c.Steps, changes) ||
		!slices.ContainsFunc(slices.Concat(c.Steps, c.Skipped), decided) {
		return nil
	}
	return []string{"objectSelectors are asked about the labels as given: a mutating webhook may change them before the others are asked"}
}

// kindNotes say that mutating policies meet the object in several versions. Each changes
// a copy in its version, and the API server takes the last that was changed. Source:
// dispatchInvocations in k8s.io/apiserver/pkg/admission/plugin/policy/mutating.
func (c Chain) kindNotes() []string {
	kinds := map[Kind]bool{}
	for _, step := range slices.Concat(c.Policies, c.SkippedPolicies) {
		unconverted := step.Reason == ReasonRules && step.Binding != nil // its copy may be the last all the same
		if step.Policy.Type == inventory.MutatingPolicy && !step.Refused && (step.Match != No || unconverted) {
			kind, _ := c.Request.covers(step.Policy.Type, &step.Policy.MatchResources)
			kinds[kind] = true
		}
	}
	if len(kinds) < 2 {
		return nil
	}
	return []string{"mutating policies meet the object in several versions: the API server keeps what was changed in one of them, whichever comes last, and loses the rest"}
}

// mirrorNotes say what becomes of a mirror Pod that a webhook changes. Source: the plugins
// NodeRestriction and ServiceAccount of k8s.io/kubernetes.
func (c Chain) mirrorNotes() []string {
	mutating := func(s Step) bool { return s.Webhook.Type == inventory.Mutating }
	if nested(c.Request.Object, "metadata", "annotations", corev1.MirrorPodAnnotationKey) == "" ||
		!slices.ContainsFunc(c.Steps, mutating) {
		return nil
	}
	return []string{"this is a mirror Pod: if a mutating webhook adds a ServiceAccount, a Secret or a ConfigMap, the API server refuses it; a matchCondition on " + corev1.MirrorPodAnnotationKey + " leaves it out"}
}

// excludedBy names the labels of the namespace for which its namespaceSelector skips the
// webhook, and what else of that it does not have; "" where no label is in the way.
func (m *Matcher) excludedBy(r Request, s Step) string {
	namespace, ok := m.Snapshot.Namespaces[r.Namespace]
	if s.Reason != ReasonNamespaceSelector || !ok || s.Webhook.NamespaceSelector.Parsed == nil {
		return ""
	}
	requirements, _ := s.Webhook.NamespaceSelector.Parsed.Requirements()
	var has, lacks []string
	for _, q := range requirements {
		value, ok := namespace.Labels[q.Key()]
		switch {
		case q.Matches(labels.Set(namespace.Labels)):
		case ok:
			has = append(has, "has the label "+q.Key()+"="+value)
		default:
			lacks = append(lacks, "lacks "+q.String())
		}
	}
	if len(has) == 0 {
		return ""
	}
	return fmt.Sprintf("namespace %s %s", r.Namespace, strings.Join(append(has, lacks...), " and "))
}

// Budget is the worst case of a chain: how long a request waits if every
// webhook answers just before its timeout.
type Budget struct {
	// Mutating is the sum of the mutating ones, which are called one by one.
	Mutating time.Duration
	// Reinvocable is the sum of those that are called again if the object is
	// changed after them: by another webhook or, in answer to what a webhook
	// did, by the API server itself (as LimitRanger does for a container that
	// was added). Source: k8s.io/apiserver/pkg/admission/plugin/webhook/mutating.
	Reinvocable time.Duration
	// Validating is the slowest of the validating ones, which are called at
	// once.
	Validating time.Duration
	Webhooks   int
}

// Add adds what the webhook costs a request that meets it. None can change what
// is deleted, so that none is called again for that.
func (b Budget) Add(w *inventory.Webhook, op Operation) Budget {
	b.Webhooks++
	switch w.Type {
	case inventory.Mutating:
		b.Mutating += w.Timeout
		if w.Reinvocation == admissionv1.IfNeededReinvocationPolicy && op != Delete {
			b.Reinvocable += w.Timeout
		}
	case inventory.Validating:
		b.Validating = max(b.Validating, w.Timeout)
	}
	return b
}

// Plus joins the costs of two chains.
func (b Budget) Plus(o Budget) Budget {
	return Budget{
		Mutating:    b.Mutating + o.Mutating,
		Reinvocable: b.Reinvocable + o.Reinvocable,
		Validating:  max(b.Validating, o.Validating),
		Webhooks:    b.Webhooks + o.Webhooks,
	}
}

func (b Budget) Total() time.Duration { return b.Mutating + b.Reinvocable + b.Validating }

func (c Chain) Budget() Budget {
	var b Budget
	for _, step := range c.Steps {
		b = b.Add(step.Webhook, c.Request.Operation)
	}
	return b
}

// conversion is the step in which a webhook converts the request's objects, nil
// without one: between the version of the request, the stored one and those that
// the called webhooks ask for.
func (m *Matcher) conversion(c Chain) *Step {
	i := slices.IndexFunc(m.Snapshot.Webhooks, func(w *inventory.Webhook) bool {
		return w.Type == inventory.Conversion && w.CRD.Resource == c.Request.Resource.Parent()
	})
	if i < 0 {
		return nil
	}
	w := m.Snapshot.Webhooks[i]
	v := c.converted(w.CRD)
	if stored := StoredVersions(w.CRD); v.Match != Yes && len(stored) > 1 && c.Request.Operation != Create {
		v = Verdict{Match: Maybe, Detail: fmt.Sprintf("the object may be stored in another version than %s", w.CRD.StorageVersion)}
	}
	if v.Match == "" {
		return nil
	}
	return &Step{w, v}
}

// converted says whether and why objects are converted, however they are stored.
func (c Chain) converted(crd *inventory.CRD) Verdict {
	if storage := crd.StorageVersion; storage != c.Request.Version {
		return Verdict{Match: Yes, Detail: fmt.Sprintf("the request is in %s, the object is stored in %s", c.Request.Version, storage)}
	}
	var out Verdict
	note := func(registration *inventory.Registration, match Match) {
		if (out.Match == "" || match == Yes) && c.Request.getsOther(registration) {
			out = Verdict{Match: match, Detail: fmt.Sprintf("%s %s asks for it in another version than %s",
				registration.Type.Noun(), registration.Name, c.Request.Version)}
		}
	}
	for _, step := range c.Steps {
		note(&step.Webhook.Registration, step.Match)
	}
	for _, step := range c.Policies {
		note(&step.Policy.Registration, step.Match)
	}
	return out
}
