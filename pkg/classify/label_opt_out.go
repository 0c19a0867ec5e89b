package classify

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var labelOptOut = &Check{
	Name:     "label-opt-out",
	Summary:  "A label on the object, or on its namespace, takes requests out of a validating webhook that refuses them otherwise.",
	Severity: Info,
	OptIn:    true,
	Find: func(p *Profile) []Problem {
		if p.Type != inventory.Validating || !p.FailsClosed() || p.Platform {
			return nil
		}
		if key := optOutKey(p.ObjectSelector); key != "" {
			return []Problem{{
				Message: fmt.Sprintf("is not called for objects with the label %s: any user who may create the object may set it", key),
				Fix:     "select by namespace in place of objectSelector, or restrict the label by a ValidatingAdmissionPolicy" + byOwner(p),
			}}
		}
		key := optOutKey(p.NamespaceSelector)
		if key == "" {
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
		if e.Key != corev1.LabelMetadataName && (e.Operator == metav1.LabelSelectorOpDoesNotExist || e.Operator == metav1.LabelSelectorOpNotIn) {
			return e.Key
		}
	}
	return ""
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
