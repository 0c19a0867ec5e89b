package manifests

import (
	"path"
	"regexp"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// documents splits what was written and decodes each part strictly into the
// next of the objects.
func documents(t *testing.T, text []byte, objects ...any) {
	t.Helper()
	parts := strings.Split(string(text), "\n---\n")
	if len(parts) != len(objects) {
		t.Fatalf("%d documents, want %d", len(parts), len(objects))
	}
	for i, part := range parts {
		if err := yaml.UnmarshalStrict([]byte(part), objects[i]); err != nil {
			t.Fatalf("document %d: %v", i, err)
		}
	}
}

func TestGuardNeedsNames(t *testing.T) {
	for want, change := range map[string]func(*classify.Policy){
		`runLevelZero: "kube-*"`:  func(p *classify.Policy) { p.RunLevelZero = []string{"default", "kube-*"} },
		"set runLevelLabel or ru": func(p *classify.Policy) { p.RunLevelLabel = "" },
	} {
		p := classify.DefaultPolicy()
		change(&p)
		if _, err := RunLevelGuard(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, have %v", want, err)
		}
	}
}

func TestPolicies(t *testing.T) {
	text := must.Get(RunLevelGuard(classify.DefaultPolicy()))(t)
	var guard admissionv1.MutatingAdmissionPolicy
	documents(t, text, &guard, &admissionv1.MutatingAdmissionPolicyBinding{})
	if have := *guard.Spec.FailurePolicy; have != admissionv1.Ignore {
		t.Errorf("the guard's failurePolicy is %s: it must never block the change of a webhook", have)
	}
	text = must.Get(RegistrationWarnings(classify.DefaultPolicy()))(t)
	var warnings admissionv1.ValidatingAdmissionPolicy
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	documents(t, text, &warnings, &binding)
	if have := *warnings.Spec.FailurePolicy; have != admissionv1.Ignore {
		t.Errorf("the failurePolicy of the warnings is %s", have)
	}
	expect.Equal(t, []admissionv1.ValidationAction{admissionv1.Warn, admissionv1.Audit}, binding.Spec.ValidationActions) // it never denies
}

// TestWarningsFollowThePolicy: the lists are those of the checks.
func TestWarningsFollowThePolicy(t *testing.T) {
	p := classify.DefaultPolicy()
	p.CoreGroups = []string{"example.org"}
	p.PlatformWebhooks = []string{"ours-*", "theirs"}
	p.Classes[classify.ClassSensitive] = []inventory.Resource{
		{Group: "example.com", Name: "vaults"},
		{Group: "authentication.k8s.io", Name: "tokenreviews"},
	}
	b := must.Get(RegistrationWarnings(p))(t)
	text := string(b)
	for _, want := range []string{
		`g in ["*", "example.org"]`,
		`(object.metadata.name in ["theirs", "network-node-identity.openshift.io", `,
		` || object.metadata.name.matches("^ours-.*$"))`,
		`(r.apiGroups.exists(g, g in ["*", "example.com"]) && r.resources.exists(x, x in ["*", "*/*", "vaults", "vaults/*"]))`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s", want)
		}
	}
	if strings.Contains(text, "tokenreviews") {
		t.Error("warns of what no webhook is called for")
	}
}

func TestPatternIsTheGlob(t *testing.T) {
	names := []string{"", "a", "ab", "a.b", "a-b", "abc", "b", "xab", "a*b", "webhook.example.com"}
	for _, glob := range []string{"*", "a*", "*b", "a?b", "a.b", "[ab]", "[^a]", "[a-b]b", `a\*b`, "*.example.*", "a"} {
		expression := regexp.MustCompile(pattern(glob))
		for _, name := range names {
			want := must.Get(path.Match(glob, name))(t)
			if have := expression.MatchString(name); have != want {
				t.Errorf("%s as %s matches %q: %t, want %t", glob, expression, name, have, want)
			}
		}
	}
}
