package guard

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// unseen is what the audit finds in the fixtures and the policy cannot see,
// with the reason: it is given one object, and nothing else.
var unseen = map[string]string{
	"core-resource.yaml: core-resource validating openshift-policy crd.example.com": "that the resource is a part of OpenShift stands in its CRD",
}

// approvalWarning is what the policy says of unapproved webhooks.
var approvalWarning = regexp.MustCompile(`unapproved webhooks (on security-sensitive resources|in openshift-\* namespaces on core resources): ([^;]*);`)

// optInWarning is what it says of who opts in.
const optInWarning = "this configuration opts in to run level 0"

// checkOf is the check behind a warning.
var checkOf = map[string]string{
	"on security-sensitive resources":             "sensitive-resource",
	"in openshift-* namespaces on core resources": "core-resource",
}

// TestWarningsAreFindings: what the policy warns of when a fixture is
// registered, the audit finds in it; what else it finds is listed.
func TestWarningsAreFindings(t *testing.T) {
	t.Parallel()
	w := useUnguarded(t)
	w.warn(t)
	missed := map[string]bool{}
	for _, file := range fixtures(t) {
		warned, found := w.warned(t, file), foundUnapproved(t, file)
		for key := range warned {
			if !found[key] {
				t.Errorf("the policy warns of %s, and the audit finds no such thing", key)
			}
		}
		for key := range found {
			if !warned[key] {
				missed[key] = true
			}
		}
	}
	for key := range missed {
		if unseen[key] == "" {
			t.Errorf("the audit finds %s, and the policy does not warn of it: list it, with the reason, if it cannot", key)
		}
	}
	for key := range unseen {
		if !missed[key] {
			t.Errorf("listed as unseen by the policy, and seen or gone: %s", key)
		}
	}
}

// warn installs the warnings until the end of the test.
func (w environment) warn(t *testing.T) {
	t.Helper()
	policy, err := printed("registration-warnings")
	testenv.Must(t, err)
	testenv.Must(t, w.apply(t.Context(), strict(policy)...))
	t.Cleanup(func() { w.uninstallObjects(t, policy) })
	testenv.Eventually(t, func() error { return w.wantWarning(t, "secrets.guard.example.com") })
}

// wantWarning registers a webhook for secrets, in a dry run.
func (w environment) wantWarning(t *testing.T, want string) error {
	t.Helper()
	printed, err := w.dryRun(t, configuration("ValidatingWebhookConfiguration", "guard-warned", covering("secrets")))
	if err == nil && !strings.Contains(strings.Join(printed, "\n"), want) {
		err = fmt.Errorf("want the warning %q, have %q", want, printed)
	}
	return err
}

// covering is a webhook for the creation of a core resource.
func covering(resource string) map[string]any {
	hook := idle(resource)
	hook["rules"] = []any{map[string]any{
		"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{resource},
	}}
	return hook
}

// fixtures are those of the checks and the outages.
func fixtures(t *testing.T) []string {
	t.Helper()
	var out []string
	testenv.Must(t, filepath.WalkDir("../../../pkg/classify/testdata", func(path string, _ fs.DirEntry, err error) error {
		// The API server takes no object of refused-by-api.yaml.
		if filepath.Ext(path) == ".yaml" && filepath.Base(path) != "refused-by-api.yaml" {
			out = append(out, path)
		}
		return err
	}))
	if len(out) == 0 {
		t.Fatal("no fixtures")
	}
	return out
}

// warned are the webhooks of a file that the policy warns of, by check.
func (w environment) warned(t *testing.T, file string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, o := range fileObjects(t, file) {
		if _, ok := guardedKinds[o.GetKind()]; !ok {
			continue
		}
		printed, err := w.dryRun(t, o)
		if err != nil {
			t.Errorf("registering %s of %s: %v", o.GetName(), file, err)
		}
		for _, line := range printed {
			m := approvalWarning.FindStringSubmatch(line)
			if m == nil && !strings.Contains(line, optInWarning) {
				t.Errorf("registering %s of %s: the policy says %q", o.GetName(), file, line)
			}
			for _, name := range namesOf(m) {
				out[keyOf(file, checkOf[m[1]], typeOf(o), o.GetName(), name)] = true
			}
		}
	}
	return out
}

// namesOf are the webhooks that a warning names.
func namesOf(warning []string) []string {
	if warning == nil {
		return nil
	}
	return strings.Split(warning[2], ", ")
}

func keyOf(file string, webhook ...string) string {
	return filepath.Base(file) + ": " + strings.Join(webhook, " ")
}

func typeOf(o *unstructured.Unstructured) string {
	if o.GetKind() == "MutatingWebhookConfiguration" {
		return "mutating"
	}
	return "validating"
}

// foundUnapproved are the webhooks of a file that the audit finds unapproved.
func foundUnapproved(t *testing.T, file string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, f := range foundIn(t, file) {
		if slices.Contains(slices.Collect(maps.Values(checkOf)), f.Check) {
			out[keyOf(file, f.Check, f.Type, f.Configuration, f.Name)] = true
		}
	}
	return out
}

// found is a finding, as far as it is compared.
type found struct{ Check, Type, Configuration, Name, Fix string }

// foundIn are the findings of an audit.
func foundIn(t *testing.T, args ...string) []found {
	t.Helper()
	result := testenv.Command(t, append([]string{"audit", "-o", "json", "--fail-on", "never"}, args...)...)
	var out struct{ Findings []found }
	if err := json.Unmarshal([]byte(result.Stdout), &out); err != nil {
		t.Fatalf("auditing %v: %v\n%s", args, err, result.Stderr)
	}
	return out.Findings
}

// dryRun registers the configuration in a dry run and returns what the policy
// warns of.
func (w environment) dryRun(t *testing.T, object *unstructured.Unstructured) ([]string, error) {
	t.Helper()
	received := &warnings{}
	config := w.Plane.Config()
	config.WarningHandler = received
	client, err := dynamic.NewForConfig(config)
	testenv.Must(t, err)
	_, err = client.Resource(guardedKinds[object.GetKind()]).Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return received.byPolicy(), err
}

// warnings collects what the API server warns of.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

// HandleWarningHeader keeps one warning.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, text)
}

func (w *warnings) byPolicy() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.lines), func(line string) bool {
		return !strings.Contains(line, "ValidatingAdmissionPolicy 'webhook-auditor-registration-warnings'")
	})
}

// TestRegistrationWarnings: the API server passes the warnings on, whatever the
// number of webhooks. Which there are is tested in manifests.
func TestRegistrationWarnings(t *testing.T) {
	t.Parallel()
	w := useUnguarded(t)
	w.warn(t)
	crowd, others := make([]any, 1000), make([]any, 1000)
	for i := range crowd {
		hook := covering("secrets")
		hook["name"] = fmt.Sprintf("hook-%d.guard.example.com", i)
		crowd[i] = hook
		others[i] = idle(fmt.Sprintf("hook-%d", i))
	}
	for name, test := range map[string]struct {
		hooks []any
		want  string
	}{
		"crowd":           {crowd, "resources: 1000 webhooks; they"},
		"crowd of others": {others, ""},
	} {
		for kind := range guardedKinds {
			t.Run(name+"/"+kind, func(t *testing.T) {
				printed, err := w.dryRun(t, configuration(kind, "guard-warned", test.hooks...))
				testenv.Must(t, err)
				if test.want == "" && len(printed) > 0 || len(printed) > 1 || !strings.Contains(strings.Join(printed, ""), test.want) {
					t.Errorf("prints %q, want %q", printed, test.want)
				}
			})
		}
	}
}
