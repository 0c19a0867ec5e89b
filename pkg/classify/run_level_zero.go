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
			Fix: fmt.Sprintf("%s; or opt in: kubectl annotate %s %s=true%s",
				patch(p, excludeRunLevelZero(p)...), ObjectName(p), OptInAnnotation, guardMissing(p.Snapshot)),
		}}
	},
}

// RunLevelZero is what a webhook is called for on run level 0.
type RunLevelZero struct {
	Resources  []inventory.Resource
	Namespaces []string
}

// findRunLevelZero finds which webhooks are called for namespaced core resources
// in the namespaces on run level 0 that exist. Of webhooks that are called for the same
// it asks once; it costs the core resources that each matches.
func (p Policy) findRunLevelZero(w *work, m *admission.Matcher, profiles []Profile) {
	zero := p.onRunLevel(m.Snapshot, "0")
	if len(zero) == 0 {
		return
	}
	known := map[string]RunLevelZero{}
	for i := range profiles {
		h := &profiles[i]
		if h.Type == inventory.Conversion {
			continue
		}
		key := h.matchKey
		onZero, seen := known[key]
		if !seen {
			onZero = matchedOnZero(w, h, zero)
			known[key] = onZero
		}
		h.RunLevelZero = onZero
	}
}

// matchedOnZero stops at the first namespace of each resource, and the first
// resource of each namespace: a message needs no more.
func matchedOnZero(w *work, p *Profile, zero []string) RunLevelZero {
	var out RunLevelZero
	core := map[inventory.Resource]bool{}
	for _, r := range p.ByClass[ClassCore] {
		core[r] = true
	}
	for _, r := range p.Matched {
		if !r.Namespaced || !core[r.Resource] {
			continue
		}
		op := r.Operations.List()[0]
		found := false
		for _, ns := range zero {
			if !w.step() {
				return out
			}
			if (!found || !slices.Contains(out.Namespaces, ns)) && p.Matcher.Intercepts(p.Webhook, r.Resource, op, ns).Match == admission.Yes {
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
	named := newGlobs(p.RunLevelZero)
	var out []string
	for name, ns := range s.Namespaces {
		if p.RunLevelLabel != "" && ns.Labels[p.RunLevelLabel] == level || level == "0" && named.match(name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out[:min(len(out), maxOnRunLevel)]
}

// excludeRunLevelZero adds what the namespaceSelector lacks.
func excludeRunLevelZero(p *Profile) []edit {
	var edits []edit
	for i, r := range p.lackedExclusions() {
		e := expression{r.Key, string(r.Operator), r.Values}
		if i == 0 {
			edits = append(edits, excludeLabel(p, e))
			continue
		}
		edits = append(edits, set(p, "namespaceSelector/matchExpressions/-", e))
	}
	return edits
}

// guardMissing says that the server cannot have the run-level guard.
func guardMissing(s *inventory.Snapshot) string {
	served := slices.ContainsFunc(s.Served, func(r inventory.Served) bool { return r.Resource == guardedBy && r.Version == "v1" })
	if served {
		return ""
	}
	return "; the run-level guard, which does so for all webhooks, is not available: this server does not serve " +
		"MutatingAdmissionPolicy v1, as Kubernetes 1.36 and newer do"
}
