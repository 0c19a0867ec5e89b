package classify

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var ineffectiveSelector = &Check{
	Name:     "ineffective-selector",
	Summary:  "A namespaceSelector excludes nothing: no namespaced resource is intercepted, or no namespace carries its labels.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if len(p.Matched) == 0 || p.NamespaceSelector.Empty() {
			return nil
		}
		clusterScoped := !slices.ContainsFunc(p.Matched, heedsNamespaces)
		if !clusterScoped && !looksExcluding(p) {
			return nil
		}
		own := ownRequirements(p)
		switch {
		case len(own) == 0:
			return nil
		case clusterScoped:
			return []Problem{{
				Message: fmt.Sprintf("has a namespaceSelector (%s) without effect: it never exempts cluster-scoped resources, and it is called for no others (%s)", strings.Join(own, ","), listed(resourceNames(p.Matched))),
				Fix:     patch(p, set(p, "namespaceSelector", struct{}{})),
			}}
		}
		return []Problem{{
			Message: fmt.Sprintf("has a namespaceSelector (%s) that excludes no namespace: none carries such a label, so that it is called for %s all the same", strings.Join(own, ","), controlPlaneNames(p.ControlPlane)),
			Fix:     "exclude by a label that every namespace has: " + patch(p, leaveAlone(p, p.ControlPlane)...),
		}}
	},
}

// heedsNamespaces reports whether a namespaceSelector has a say: Namespaces
// count by their own labels.
func heedsNamespaces(r admission.MatchedResource) bool { return r.Namespaced || r.Name == "namespaces" }

// ownRequirements are those that the webhook's author wrote, rather than
// a controller that writes them into all webhooks alike.
func ownRequirements(p *Profile) []string {
	raw := p.NamespaceSelector.Raw
	if raw == nil || p.NamespaceSelector.Err != nil || p.Type == inventory.Conversion {
		return nil
	}
	var out []string
	for key, value := range raw.MatchLabels {
		if !imposed(p, key) {
			out = append(out, key+"="+value)
		}
	}
	for _, e := range raw.MatchExpressions {
		if !imposed(p, e.Key) {
			out = append(out, metav1.FormatLabelSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{e}}))
		}
	}
	slices.Sort(out)
	return out
}

// imposed reports whether others write requirements on the key into webhooks:
// OLM, the admission enforcer of AKS, a guard of run levels.
func imposed(p *Profile, key string) bool {
	return strings.HasPrefix(key, "olm.operatorgroup.uid/") ||
		key == "kubernetes.azure.com/managedby" || key == "control-plane" ||
		key == p.Policy.RunLevelLabel
}

// looksExcluding reports whether the selector looks as if it kept the webhook off the
// control plane's path, and excludes no namespace that exists.
func looksExcluding(p *Profile) bool {
	if !p.FailsClosed() || len(p.ControlPlane) == 0 || optIn(p.NamespaceSelector) || !p.Snapshot.NamespacesKnown || len(p.Snapshot.Namespaces) == 0 {
		return false
	}
	for _, e := range p.NamespaceSelector.Raw.MatchExpressions {
		if e.Key == corev1.LabelMetadataName {
			return false
		}
		for _, ns := range p.Snapshot.Namespaces {
			if _, carried := ns.Labels[e.Key]; carried {
				return false
			}
		}
	}
	return true
}
