package classify

import (
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// TestScope: what a sentence says without a limit, the Matcher says of each namespace and of
// any labels; a namespace that a limit leaves out is never called for.
func TestScope(t *testing.T) {
	labels := []map[string]string{nil, admission.Unlabeled, {"app": "policy-0"}, {"app": "policy-1", "tier": "1"}, {"team": "x"}}
	unlimited, limited := 0, 0
	for seed := range uint64(300) {
		for _, p := range evaluate(t, DefaultPolicy(), MixedSnapshot(seed)).Profiles {
			for _, m := range p.Matched {
				scope := Scope(p, []admission.MatchedResource{m})
				for _, subject := range subjectsIn(p.Snapshot, m, labels) {
					for _, op := range m.Operations.List() {
						match := p.Matcher.InterceptsSubject(p.Webhook, m.Resource, op, subject).Match
						named, isNamed := strings.CutPrefix(scope, " in namespace")
						switch {
						case scope == "" && match != admission.Yes:
							t.Errorf("seed %d: %s of %s is printed of all, and is %s of %+v: %s", seed, op, m.Resource, match, subject, p.Name)
						case isNamed && p.Snapshot.NamespacesKnown && !slices.Contains(strings.FieldsFunc(named, func(r rune) bool { return r == ' ' || r == ',' }), subject.Namespace) && match != admission.No:
							t.Errorf("seed %d: %s of %s is printed%s, and is %s of %+v: %s", seed, op, m.Resource, scope, match, subject, p.Name)
						case scope == "":
							unlimited++
						case isNamed:
							limited++
						}
					}
				}
			}
		}
	}
	if unlimited < 100 || limited < 100 {
		t.Errorf("%d requests without a limit, %d with namespaces", unlimited, limited)
	}
}

// subjectsIn are objects of the resource in each namespace with each of the labels.
func subjectsIn(s *inventory.Snapshot, m admission.MatchedResource, labels []map[string]string) []admission.Subject {
	var out []admission.Subject
	for name := range s.Namespaces {
		for _, l := range labels {
			if !m.Namespaced {
				name = ""
			}
			out = append(out, admission.Subject{Namespace: name, Labels: l})
		}
	}
	return out
}
