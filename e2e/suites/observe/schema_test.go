package observe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// schemas validates what each command prints with -o json by the schema that the
// binary prints for it.
func schemas(t *testing.T, kubeconfig, namespace string) {
	baseline := filepath.Join(t.TempDir(), "baseline.json")
	observe := []string{"--observe=apiserver", "--observe-for=5s"}
	text := `Internal error occurred: failed calling webhook "failing.observe.example.com": failed to call webhook: an error on the server ("oops") has prevented the request from succeeding`
	commands := []struct {
		schema string
		args   []string
	}{
		{"audit", append([]string{"audit"}, observe...)},
		{"audit-baseline", []string{"audit", "--baseline", baseline}},
		{"explain", append([]string{"explain", "create", "configmaps", "-n", namespace}, observe...)},
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
		schema := compileSchema(t, c.schema)
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(printed))
		testenv.Must(t, err)
		if err := schema.Validate(document); err != nil {
			t.Errorf("%v: %v", c.args, err)
		}
		if err := schema.Validate(map[string]any{"version": "v1"}); err == nil {
			t.Errorf("schema %s accepts a document without its fields", c.schema)
		}
	}
}

func compileSchema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	printed := testenv.Command(t, "print", "schema", name).Stdout
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(printed))
	testenv.Must(t, err)
	c := jsonschema.NewCompiler()
	testenv.Must(t, c.AddResource(name, document))
	schema, err := c.Compile(name)
	testenv.Must(t, err)
	return schema
}
