package classify

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// TestScope: what a sentence says without a limit, the Matcher says of each namespace and of
// any labels; a namespace that a limit leaves out is never called for, and one that it names
// always. The same of sources without Namespaces.
func TestScope(t *testing.T) {
	labels := []map[string]string{nil, admission.Unlabeled, {"app": "policy-0"}, {"app": "policy-1", "tier": "1"}, {"team": "x"}}
	unlimited, limited := map[string]int{}, map[string]int{}
	for seed := range uint64(300) {
		source := "a cluster"
		s := MixedSnapshot(seed)
		namespaces := s.Namespaces
		if seed%2 > 0 {
			source = "files without Namespaces"
			s.Namespaces, s.NamespacesKnown = nil, false
		}
		for _, p := range evaluate(t, DefaultPolicy(), s).Profiles {
			for _, m := range p.Matched {
				scope := Scope(p, []admission.MatchedResource{m})
				names := strings.FieldsFunc(scope, func(r rune) bool { return r == ' ' || r == ',' })
				isNamed := strings.HasPrefix(scope, " in namespace") && !strings.Contains(scope, "that match") && !strings.Contains(scope, " where ")
				for _, subject := range subjectsIn(namespaces, m, labels) {
					for _, op := range m.Operations.List() {
						match := p.Matcher.InterceptsSubject(p.Webhook, m.Resource, op, subject).Match
						want := admission.Yes
						if isNamed && !slices.Contains(names, subject.Namespace) {
							want = admission.No
						}
						switch {
						case (scope == "" || isNamed && m.Namespaced) && match != want:
							t.Errorf("seed %d: %s of %s is printed%s, and is %s of %+v: %s", seed, op, m.Resource, scope, match, subject, p.Name)
						case scope == "":
							unlimited[source]++
						case isNamed:
							limited[source]++
						}
					}
				}
			}
		}
	}
	for source, n := range unlimited {
		if n < 100 || limited[source] < 100 {
			t.Errorf("%s: %d requests without a limit, %d with namespaces", source, n, limited[source])
		}
	}
}

// TestPolicyScope: the same of policies, which their bindings narrow as well.
func TestPolicyScope(t *testing.T) {
	labels := []map[string]string{nil, admission.Unlabeled, {"app": "a"}, {"app": "b"}}
	unlimited, limited := 0, 0
	for seed := range uint64(300) {
		objects, _ := manifest.Read([]string{"-"}, manifest.Options{Stdin: strings.NewReader(boundPolicy(rand.New(rand.NewPCG(seed, 0))))})
		snapshot := objects.Snapshot(taken)
		namespaces := snapshot.Namespaces
		if snapshot.NamespacesKnown = seed%2 == 0; !snapshot.NamespacesKnown {
			snapshot.Namespaces = nil
		}
		r := evaluate(t, DefaultPolicy(), snapshot)
		p := r.Snapshot.Policies[0]
		for _, m := range r.Matcher.PolicyResources(p) {
			scope := r.policyScope(p, m)
			for _, subject := range subjectsIn(namespaces, m, labels) {
				request := must.Get(r.Matcher.OpenRequest(m.Operations.List()[0], m.Resource, subject))(t)
				verdict := func(want admission.Match) bool {
					return slices.ContainsFunc(p.Bindings, func(b *inventory.PolicyBinding) bool { return r.Matcher.MatchPolicy(request, p, b).Match == want })
				}
				switch isNamed := strings.HasPrefix(scope, " in namespace") && !strings.Contains(scope, "that match") && !strings.Contains(scope, " or where"); {
				case scope == "" && !verdict(admission.Yes):
					t.Errorf("seed %d: %s is printed of all, and not met by %+v", seed, m.Resource, subject)
				case isNamed && !slices.Contains(strings.FieldsFunc(scope, func(r rune) bool { return r == ' ' || r == ',' }), subject.Namespace) && (verdict(admission.Yes) || verdict(admission.Maybe)):
					t.Errorf("seed %d: %s is printed%s, and met by %+v", seed, m.Resource, scope, subject)
				case scope == "":
					unlimited++
				case isNamed:
					limited++
				}
			}
		}
	}
	if unlimited < 100 || limited < 100 {
		t.Errorf("%d requests without a limit, %d with namespaces", unlimited, limited)
	}
}

// boundPolicy is a policy with one to three bindings, and namespaces.
func boundPolicy(r *rand.Rand) string {
	one := func(values ...string) string { return values[r.IntN(len(values))] }
	selectors := func() string {
		return fmt.Sprintf("namespaceSelector: %s, objectSelector: %s", one("{}", "{}", "{matchLabels: {team: x}}", "{matchLabels: {kubernetes.io/metadata.name: b}}", "{matchExpressions: [{key: team, operator: NotIn, values: [x]}]}"),
			one("{}", "{}", "{}", "{matchLabels: {app: a}}"))
	}
	rules := func() string {
		return fmt.Sprintf(`resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE], resources: [%s]}]`, one("pods", "services", "nodes", "pods, services, nodes"))
	}
	out := []string{fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {matchConstraints: {%s, %s}, validations: [{expression: "true"}]}}
`, rules(), selectors())}
	for i := range 1 + r.IntN(3) {
		matched := selectors()
		if r.IntN(4) == 0 {
			matched += ", " + rules()
		}
		out = append(out, fmt.Sprintf("---\n{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: b%d}, spec: {policyName: p, validationActions: [Deny], matchResources: {%s}}}\n", i, matched))
	}
	for name, team := range map[string]string{"a": "x", "b": "y", "c": "x", "d": "z", "e": "x", "f": "x"} {
		out = append(out, fmt.Sprintf("---\n{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {team: %s, kubernetes.io/metadata.name: %s}}}\n", name, team, name))
	}
	return strings.Join(out, "")
}

// subjectsIn are objects of the resource in each namespace with each of the labels.
func subjectsIn(namespaces map[string]inventory.Namespace, m admission.MatchedResource, labels []map[string]string) []admission.Subject {
	var out []admission.Subject
	for name := range namespaces {
		for _, l := range labels {
			if !m.Namespaced {
				name = ""
			}
			out = append(out, admission.Subject{Namespace: name, Labels: l})
		}
	}
	return out
}
