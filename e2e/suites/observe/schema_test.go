package observe

import (
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// changedWebhook is a configuration of the traffic with another webhook, timeout and
// failurePolicy.
//
//go:embed testdata/schema.yaml
var changedWebhook string

// schemas validates what each command prints with -o json by the schema that the
// binary prints for it.
func schemas(t *testing.T, kubeconfig, namespace string) {
	baseline := filepath.Join(t.TempDir(), "baseline.json")
	observe := []string{"--observe=apiserver", "--observe-for=5s"}
	text := `Internal error occurred: failed calling webhook "failing.observe.example.com": failed to call webhook: an error on the server ("oops") has prevented the request from succeeding`
	changed := filepath.Join(t.TempDir(), "changed.yaml")
	testenv.Must(t, os.WriteFile(changed, []byte(changedWebhook), 0o600))
	commands := []struct {
		schema string
		args   []string
	}{
		{"audit", append([]string{"audit"}, observe...)},
		{"audit-baseline", []string{"audit", "--baseline", baseline}},
		{"diff", []string{"diff", changed}},
		{"explain", append([]string{"explain", "create", "configmaps", "-n", namespace}, observe...)},
		{"explain-check", []string{"explain", "service-missing"}},
		{"explain-error", []string{"explain", "--error", text}},
		{"impact", append([]string{"impact", "observe-slow"}, observe...)},
		{"impact-change", []string{"impact", "--delete", "observe-slow"}},
		{"top", append([]string{"top"}, observe...)},
	}
	for _, c := range commands {
		printed := testenv.Command(t, append(c.args, "-o", "json", kubeconfig)...).Stdout
		if c.schema == "audit" {
			testenv.Must(t, os.WriteFile(baseline, []byte(printed), 0o600))
		}
		validate(t, c.schema, printed)
	}
}

func validate(t *testing.T, name, printed string) {
	t.Helper()
	schema := compileSchema(t, name)
	document := testenv.Get(jsonschema.UnmarshalJSON(strings.NewReader(printed)))(t)
	if err := schema.Validate(document); err != nil {
		t.Errorf("schema %s: %v", name, err)
	}
	if err := schema.Validate(map[string]any{"version": "v1"}); err == nil {
		t.Errorf("schema %s accepts a document without its fields", name)
	}
}

func compileSchema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	printed := testenv.Command(t, "print", "schema", name).Stdout
	document := testenv.Get(jsonschema.UnmarshalJSON(strings.NewReader(printed)))(t)
	c := jsonschema.NewCompiler()
	testenv.Must(t, c.AddResource(name, document))
	return testenv.Get(c.Compile(name))(t)
}
