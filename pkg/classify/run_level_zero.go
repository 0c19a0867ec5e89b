package classify

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

var runLevelZero = &Check{
	Name:     "run-level-zero",
	Summary:  "A webhook is called for core resources in namespaces on run level 0, and did not opt in.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		zero := p.RunLevelZero
		if len(zero.Namespaces) == 0 || p.Platform || p.Object.Annotations[OptInAnnotation] == "true" {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("is called for %s in %s, on run level 0, without having opted in", byRule(p, zero.Resources), JoinBounded(zero.Namespaces)),
			Fix: fmt.Sprintf("%s; or opt in: kubectl annotate %s %s=true",
				patch(p, excludeRunLevelZero(p)...), ObjectName(p), OptInAnnotation),
		}}
	},
}

// RunLevelZero is what a webhook is called for on run level 0.
type RunLevelZero struct {
	Resources  []inventory.Resource
	Namespaces []string
}

// matchedOnZero returns the namespaced core resources that the webhook is called for
// in the namespaces on run level 0 that exist. It costs the core resources that the
// webhook matches, and stops at the first namespace of each resource, and the first
// resource of each namespace: a message needs no more.
func (d *deriver) matchedOnZero(p *Profile) RunLevelZero {
	var out RunLevelZero
	if len(d.runLevelZero) == 0 {
		return out
	}
	for _, r := range p.Matched {
		if !r.Namespaced || !slices.Contains(d.classesOf(r.Resource), ClassCore) {
			continue
		}
		op := r.Operations.List()[0]
		found := false
		for _, ns := range d.runLevelZero {
			if !d.work.step() {
				return out
			}
			isListed := slices.Contains(out.Namespaces, ns)
			if found && isListed ||
				d.matcher.Intercepts(p.Webhook, r.Resource, op, ns).Match != admission.Yes {
				continue
			}
			if found = true; !isListed {
				out.Namespaces = append(out.Namespaces, ns)
			}
		}
		if found {
			out.Resources = append(out.Resources, r.Resource)
		}
	}
	return out
}

// onRunLevel returns the first namespaces on the run level, sorted.
func (p Policy) onRunLevel(s *inventory.Snapshot, level string) []string {
	var out []string
	for name, ns := range s.Namespaces {
		if p.RunLevelLabel != "" && ns.Labels[p.RunLevelLabel] == level ||
			level == "0" && matchAny(p.RunLevelZero, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out[:min(len(out), maxOnRunLevel)]
}

// excludeRunLevelZero adds what the namespaceSelector lacks: the run-level guard adds the same to
// a webhook that is registered after it.
func excludeRunLevelZero(p *Profile) []edit {
	var edits []edit
	for _, lacked := range p.Policy.RunLevelExclusions(p.Snapshot) {
		has := func(e metav1.LabelSelectorRequirement) bool {
			return e.Key == lacked.Key && e.Operator == lacked.Operator &&
				sets.New(e.Values...).HasAll(lacked.Values...)
		}
		switch {
		case slices.ContainsFunc(p.NamespaceSelector.Raw.MatchExpressions, has):
		case len(edits) == 0:
			edits = append(edits, excludeLabel(p, lacked)...)
		default:
			edits = append(edits, set(p, "namespaceSelector/matchExpressions/-", lacked))
		}
	}
	return edits
}

// RunLevelExclusions are the requirements that keep a namespaceSelector off
// run level 0: one by the label, and one by name for the namespaces that the
// Policy names. The Snapshot says which ones a glob stands for.
func (p Policy) RunLevelExclusions(s *inventory.Snapshot) []metav1.LabelSelectorRequirement {
	var out []metav1.LabelSelectorRequirement
	if p.RunLevelLabel != "" {
		out = append(out, metav1.LabelSelectorRequirement{
			Key: p.RunLevelLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"0"},
		})
	}
	var names []string
	for _, glob := range p.RunLevelZero {
		if !IsGlob(glob) {
			names = append(names, glob)
			continue
		}
		for name := range s.Namespaces {
			if match(glob, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) > 0 {
		out = append(out, metav1.LabelSelectorRequirement{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: lists.Distinct(names),
		})
	}
	return out
}

// IsGlob reports whether a glob of the Policy is more than a name.
func IsGlob(glob string) bool { return strings.ContainsAny(glob, `*?[\`) }
