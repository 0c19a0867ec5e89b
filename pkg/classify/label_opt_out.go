package classify

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var labelOptOut = &Check{
	Name:     "label-opt-out",
	Summary:  "A label on the object, or on its namespace, takes requests out of a validating webhook.",
	Severity: Info,
	OptIn:    true,
	Find: func(p *Profile) []Problem {
		if p.Type != inventory.Validating || p.Platform {
			return nil
		}
		if key := cmp.Or(optOutKey(p.ObjectSelector), conditionOptOut(p)); key != "" {
			return []Problem{{
				Message: fmt.Sprintf("is not called for objects with the label %s: any user who may create the object may set it", key),
				Fix:     "select by namespace in place of labels of the object, or restrict the label by a ValidatingAdmissionPolicy" + byOwner(p),
			}}
		}
		key := optOutKey(p.NamespaceSelector)
		inNamespaces := func(r admission.MatchedResource) bool { return r.Namespaced || r.IsNamespaces() }
		if key == "" || !slices.ContainsFunc(p.Matched, inNamespaces) {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("is not called in namespaces with the label %s: any user who may change the namespace may set it; %s", key, optedOut(p, key)),
			Fix:     "select namespaces by kubernetes.io/metadata.name, which no user can change, or restrict the label by a ValidatingAdmissionPolicy" + byOwner(p),
		}}
	},
}

// optOutKey is a label that takes its object out of the selector, "" for none. No user
// can set kubernetes.io/metadata.name.
func optOutKey(s inventory.Selector) string {
	if s.Raw == nil {
		return ""
	}
	for _, e := range s.Raw.MatchExpressions {
		if e.Key != corev1.LabelMetadataName &&
			(e.Operator == metav1.LabelSelectorOpDoesNotExist || e.Operator == metav1.LabelSelectorOpNotIn) {
			return e.Key
		}
	}
	return ""
}

// literal is a text in an expression, or a label that is read as a field.
var literal = regexp.MustCompile(`"([^"]*)"|'([^']*)'|labels\.\??(\w+)(?:[^\w(]|$)`)

// conditionOptOut is a label with which a matchCondition leaves its object out, "" for
// none. Which labels and values it asks for is tried with the texts that it has.
func conditionOptOut(p *Profile) string {
	for _, c := range p.MatchConditions {
		if !strings.Contains(c.Expression, "labels") || len(p.Matched) == 0 || !calledWith(p, admission.Unlabeled) {
			continue
		}
		texts := lists.Map(literal.FindAllStringSubmatch(c.Expression, maxListed),
			func(m []string) string { return m[1] + m[2] + m[3] })
		for _, key := range texts {
			for _, value := range append([]string{"true"}, texts...) {
				if len(validation.IsQualifiedName(key)) == 0 && !calledWith(p, map[string]string{key: value}) {
					return key
				}
			}
		}
	}
	return ""
}

// calledWith reports whether the matchConditions let an object with the labels through, or
// may do so.
func calledWith(p *Profile, labelSet map[string]string) bool {
	first := p.Matched[0]
	for _, op := range []admission.Operation{admission.Create, admission.Update} {
		if first.Operations.Has(op) {
			return p.Matcher.CallsFor(p.Webhook, first.Resource, op,
				admission.Subject{Labels: labelSet}) != admission.No
		}
	}
	return true
}

// optedOut names the namespaces that have the label and are not selected.
func optedOut(p *Profile, key string) string {
	var names []string
	for name, namespace := range p.Snapshot.Namespaces {
		if _, ok := namespace.Labels[key]; ok && !p.NamespaceSelector.Parsed.Matches(labels.Set(namespace.Labels)) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "none in the input did"
	}
	slices.Sort(names)
	return JoinBounded(names) + " did"
}
