package packaging

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/load"
	"sigs.k8s.io/yaml"
)

// persesDefinitions are the schemas that Perses shares among its plugins, by the
// key of a plugin's settings that has them.
var persesDefinitions = map[string]string{
	"calculation": "#calculation",
	"format":      "#format",
	"legend":      "#legendWithValues",
	"mappings":    "#mappings",
	"thresholds":  "#thresholds",
}

// persesColumn is what the Table plugin of Perses knows of a column since version
// 0.11, which its Go module lacks: earlier ones refuse boards with dataLink.
const persesColumn = `close({
	name!: string & !=""
	header?: string
	enableSorting?: bool
	hide?: bool
	format?: {...}
	cellSettings?: [...close({condition!: kind: "Value", condition!: spec: value: string & !="", text?: string, textColor?: =~"^#[0-9A-Fa-f]{6}$"})]
	dataLink?: close({url!: string, title?: string, openNewTab!: bool})
})`

// TestPersesColumns validates the columns of the tables.
func TestPersesColumns(t *testing.T) {
	column := cuecontext.New().CompileString(persesColumn)
	if err := column.Err(); err != nil {
		t.Fatal(err)
	}
	refused := func(json string) error {
		return column.Unify(column.Context().CompileString(json)).Validate(cue.Concrete(true))
	}
	columns := persesSettings(t)["columnSettings"]
	for _, c := range columns {
		if err := refused(c); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
	if len(columns) < 20 {
		t.Errorf("only %d columns", len(columns))
	}
	for _, bad := range []string{`{"name":"a","link":{}}`, `{"name":"a","dataLink":{"url":"x"}}`, `{"header":"a"}`} {
		if refused(bad) == nil {
			t.Errorf("%s is valid", bad)
		}
	}
}

// TestPersesSchemas validates the settings of the panels with the CUE schemas of
// Perses that its Go module has. It lacks those of single plugins.
func TestPersesSchemas(t *testing.T) {
	schemas := persesSchemas(t)
	checked := map[string]int{}
	settings := persesSettings(t)
	delete(settings, "columnSettings")
	for key, setting := range settings {
		checked[key] += len(setting)
		for _, s := range setting {
			if err := conforms(schemas, persesDefinitions[key], s); err != nil {
				t.Errorf("%s %s: %v", key, s, err)
			}
		}
	}
	if len(checked) != len(persesDefinitions) {
		t.Errorf("settings validated: %v, want all of %v", checked, persesDefinitions)
	}
	if conforms(schemas, "#format", `{"unit":"furlongs"}`) == nil {
		t.Error("an invented unit is valid")
	}
}

// persesSchemas are the schemas of the version of Perses that draws the boards.
func persesSchemas(t *testing.T) cue.Value {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/perses/perses")
	command.Dir = "../.."
	dir, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	instances := load.Instances([]string{"./common"}, &load.Config{Dir: filepath.Join(strings.TrimSpace(string(dir)), "cue")})
	schemas := cuecontext.New().BuildInstance(instances[0])
	if err := schemas.Err(); err != nil {
		t.Fatal(err)
	}
	return schemas
}

// persesSettings are the settings of all panels as JSON, by their key.
func persesSettings(t *testing.T) map[string][]string {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), "../../bin/webhook-auditor", "print", "dashboards", "--form", "perses").Output()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for board := range bytes.SplitSeq(text, []byte("---\n")) {
		var tree any
		if err := yaml.Unmarshal(board, &tree); err != nil {
			t.Fatal(err)
		}
		collectSettings(t, tree, out)
	}
	return out
}

func collectSettings(t *testing.T, tree any, into map[string][]string) {
	t.Helper()
	switch tree := tree.(type) {
	case []any:
		for _, inner := range tree {
			collectSettings(t, inner, into)
		}
	case map[string]any:
		for key, inner := range tree {
			collectSettings(t, inner, into)
			if persesDefinitions[key] == "" && key != "columnSettings" {
				continue
			}
			settings, isList := inner.([]any)
			if !isList {
				settings = []any{inner}
			}
			for _, s := range settings {
				text, err := json.Marshal(s)
				if err != nil {
					t.Fatal(err)
				}
				into[key] = append(into[key], string(text))
			}
		}
	}
}

func conforms(schemas cue.Value, definition, json string) error {
	value := schemas.Context().CompileString(json)
	return schemas.LookupPath(cue.ParsePath(definition)).Unify(value).Validate(cue.Concrete(true))
}
