package classify

import (
	"fmt"
	"slices"

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
			if (!found || !slices.Contains(out.Namespaces, ns)) &&
				d.matcher.Intercepts(p.Webhook, r.Resource, op, ns).Match == admission.Yes {
				found = true
				if !slices.Contains(out.Namespaces, ns) {
					out.Namespaces = append(out.Namespaces, ns)
				}
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

// excludeRunLevelZero adds what the namespaceSelector lacks.
func excludeRunLevelZero(p *Profile) []edit {
	var edits []edit
	for i, e := range p.lackedExclusions() {
		if i == 0 {
			edits = append(edits, excludeLabel(p, e))
			continue
		}
		edits = append(edits, set(p, "namespaceSelector/matchExpressions/-", e))
	}
	return edits
}
