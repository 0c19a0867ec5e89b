package classify

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/version"

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

// TestConversionScope: what is reported of a dead conversion holds for each version that is served
// and each that is stored; what controllers read in another version is named, and of
// cluster-scoped objects no namespace or quota waits.
func TestConversionScope(t *testing.T) {
	said := map[string]int{}
	for seed := range uint64(250) {
		objects, _ := manifest.Read([]string{"-"}, manifest.Options{Stdin: strings.NewReader(convertedGroup(rand.New(rand.NewPCG(seed, 0))))})
		snapshot := objects.Snapshot(taken)
		for _, p := range evaluate(t, DefaultPolicy(), snapshot).Profiles {
			if p.Type != inventory.Conversion {
				continue
			}
			c := needsOf(snapshot, p.CRD)
			claims := map[string]bool{ // what is claimed, and whether it holds
				"nothing calls it":        !c.clients && !c.rules,
				"clients of versions":     c.clients && !c.ofStorage && !c.controllers && !c.rules,
				"gets in another version": c.rules && !c.controllers,
				"garbage collection":      c.controllers,
				"deletion":                c.controllers && p.CRD.Namespaced,
				"quota":                   c.controllers && p.CRD.Namespaced,
			}
			for _, text := range []string{Consequence(p), strings.Join(p.Functions(), ", ")} {
				for words, holds := range claims {
					switch is := strings.Contains(text, words); {
					case is && !holds:
						t.Errorf("seed %d: %q of %s: %+v", seed, text, p.Name, c)
					case is:
						said[words]++
					case holds && text == Consequence(p):
						t.Errorf("seed %d: no %q in %q of %s: %+v", seed, words, text, p.Name, c)
					}
				}
			}
		}
	}
	for _, words := range []string{"nothing calls it", "clients of versions", "gets in another version", "garbage collection", "deletion", "quota"} {
		if said[words] < 10 {
			t.Errorf("%q is reported %d times", words, said[words])
		}
	}
}

// TestConversionWithoutCA: of a CRD whose conversion has a bundle without a certificate, the API server
// serves no version; one without a bundle is served, and one of a file not there yet.
func TestConversionWithoutCA(t *testing.T) {
	const unserved, unread, two = "in any version", "garbage collection", ", {name: v1beta1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}"
	for name, tc := range map[string]struct {
		bundle, versions, status, created string
		says, omits                       []string
	}{
		"a line break":         {"Cg==", two, "", "2025-12-01T00:00:00Z", []string{unserved, unread}, nil},
		"no PEM":               {"aGVsbG8=", two, "", "2025-12-01T00:00:00Z", []string{unserved, unread}, nil},
		"one version":          {"Cg==", "", "", "2025-12-01T00:00:00Z", []string{unserved, unread}, []string{"nothing calls it"}},
		"never established":    {"Cg==", two, "status: {conditions: [{type: Established, status: \"False\"}]}", "2025-12-01T00:00:00Z", []string{unserved}, []string{unread}},
		"no bundle":            {`""`, two, "", "2025-12-01T00:00:00Z", []string{"clients of versions"}, []string{unserved}},
		"blanked":              {"eHh4eA==", two, "", "2025-12-01T00:00:00Z", []string{"clients of versions"}, []string{unserved}},
		"a file not there yet": {"Cg==", two, "", "", []string{"clients of versions"}, []string{unserved}},
	} {
		crd := fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: carts.shop.example.com, creationTimestamp: %s}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {kind: Cart, plural: carts}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {caBundle: %s, service: {namespace: shop, name: hook}}}}
  versions: [{name: v1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}%s]
%s
`, cmp.Or(tc.created, "null"), tc.bundle, tc.versions, tc.status)
		crd = strings.Replace(crd, "storage: false", "storage: true", 1)
		objects, _ := manifest.Read([]string{"-"}, manifest.Options{Stdin: strings.NewReader(crd)})
		report := evaluate(t, DefaultPolicy(), objects.Snapshot(taken))
		p := report.Profiles[0]
		text := Consequence(p) + "; " + strings.Join(p.Functions(), ", ")
		missing := slices.ContainsFunc(tc.says, func(s string) bool { return !strings.Contains(text, s) })
		if missing || slices.ContainsFunc(tc.omits, func(s string) bool { return strings.Contains(text, s) }) {
			t.Errorf("%s: %q", name, text)
		}
		isReported := func(f *Finding) bool { return strings.Contains(f.Message, unserved) }
		if want := slices.Contains(tc.says, unserved); slices.ContainsFunc(report.Findings, isReported) != want {
			t.Errorf("%s: %v in the findings, want %v", name, !want, want)
		}
	}
}

// needs are who needs the conversions of a CRD: some clients, clients of the storage version, the
// controllers that read all resources, and what is to get objects in a version of its own.
type needs struct{ clients, ofStorage, controllers, rules bool }

func needsOf(s *inventory.Snapshot, crd *inventory.CRD) needs {
	served := func(c *inventory.CRD) []string {
		if !c.Established {
			return nil
		}
		return c.ServedVersions()
	}
	var ofGroup []string
	for _, c := range s.CRDs {
		ofGroup = append(ofGroup, served(c)...)
	}
	stored, own := append(slices.Clone(crd.StoredVersions), crd.StorageVersion), served(crd)
	best := func(versions []string) string {
		return slices.MaxFunc(versions, version.CompareKubeAwareVersionStrings)
	}
	differs := func(v string) bool { return slices.ContainsFunc(stored, func(s string) bool { return s != v }) }
	var out needs
	if len(own) == 0 {
		return out
	}
	read := best(ofGroup)
	if !slices.Contains(own, read) {
		read = best(own)
	}
	out.clients, out.ofStorage, out.controllers = slices.ContainsFunc(own, differs), slices.Contains(own, crd.StorageVersion) && differs(crd.StorageVersion), differs(read)
	asks := func(r *inventory.Registration) bool {
		versions := r.Rules[0].APIVersions
		return r.MatchPolicy != admissionv1.Exact && !slices.Contains(versions, "*") && slices.Contains(crd.VersionNames(), versions[0]) && slices.ContainsFunc(own, func(v string) bool { return v != versions[0] })
	}
	for _, w := range s.Webhooks {
		out.rules = out.rules || w.Type != inventory.Conversion && asks(&w.Registration)
	}
	for _, p := range s.Policies {
		out.rules = out.rules || len(p.Bindings) > 0 && asks(&p.Registration)
	}
	return out
}

// convertedGroup is a group of two CRDs, one of which may never be served, and what may ask for
// a version of its own.
func convertedGroup(r *rand.Rand) string {
	one := func(values ...string) string { return values[r.IntN(len(values))] }
	var out []string
	for _, plural := range []string{"widgets", "gadgets"} {
		storage, status := r.IntN(3), []string{}
		var versions []string
		for i, name := range []string{"v1", "v2", "v1beta1"} {
			versions = append(versions, fmt.Sprintf(`{name: %s, served: %t, storage: %t}`, name, r.IntN(2) == 0, i == storage))
			if i == storage || r.IntN(4) == 0 {
				status = append(status, name)
			}
		}
		out = append(out, fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[1]s.g.example.com}, spec: {group: g.example.com, scope: %[2]s, names: {plural: %[1]s, singular: %[1]s, kind: K%[1]s}, conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: sys, name: gone}}}}, versions: [%[3]s]}%[4]s}
`, plural, one("Namespaced", "Cluster"), strings.Join(versions, ", "), one("", fmt.Sprintf(`, status: {storedVersions: [%s], conditions: [{type: Established, status: "%s"}]}`, strings.Join(status, ", "), one("True", "True", "False")))))
	}
	rule := fmt.Sprintf(`apiGroups: [g.example.com], apiVersions: ["%s"], operations: [CREATE], resources: [%s]`, one("*", "v1", "v2", "v1beta1", "v9"), one("widgets, gadgets", `"*"`))
	policy := one("Equivalent", "Equivalent", "Exact")
	switch r.IntN(3) {
	case 0:
		out = append(out, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}, webhooks: [{name: a.example.com, sideEffects: None, admissionReviewVersions: [v1], failurePolicy: %s, matchPolicy: %s, clientConfig: {service: {namespace: sys, name: s}}, rules: [{%s}]}]}
`, one("Fail", "Ignore"), policy, rule))
	case 1:
		out = append(out, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {matchConstraints: {matchPolicy: %s, resourceRules: [{%s}]}, validations: [{expression: "true"}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: b}, spec: {policyName: %s, validationActions: [Deny]}}
`, policy, rule, one("p", "other")))
	}
	return strings.Join(out, "---\n")
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
