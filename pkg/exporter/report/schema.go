package report

import (
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// A Schema is the JSON Schema of what a command prints with -o json.
type Schema struct {
	// Name is what "print schema" takes.
	Name string
	// Command is what prints such documents.
	Command string
	root    any
}

// Schemas are those of all commands.
var Schemas = []Schema{
	{"audit", "audit", Document{}},
	{"audit-baseline", "audit --baseline", Comparison{}},
	{"explain", "explain", Explanation{}},
	{"explain-error", "explain --error", Diagnosis{}},
	{"explain-request-id", "explain --request-id", AuditedRequest{}},
	{"impact", "impact CONFIGURATION", Impact{}},
	{"impact-change", "impact --down, --down-node and --delete", Consequences{}},
	{"diff", "diff", Changes{}},
	{"top", "top", Top{}},
	{"top-audit-log", "top --audit-log", AuditTop{}},
}

// sources are read for their comments, which describe the fields.
var sources = []embed.FS{source, impact.Source, inventory.Comments}

//
//go:embed auditlog.go auditrequest.go changes.go comparison.go consequences.go diagnosis.go document.go explain.go impact.go observed.go
var source embed.FS

// WriteSchema writes the JSON Schema, draft 2020-12.
func (s Schema) WriteSchema(w io.Writer) error {
	comments, err := readComments()
	if err != nil {
		return fmt.Errorf("describing the fields of %s: %w", s.Name, err)
	}
	root := reflect.TypeOf(s.root)
	schema, err := jsonschema.ForType(root, &jsonschema.ForOptions{TypeSchemas: typeSchemas()})
	if err != nil {
		return fmt.Errorf("deriving the schema %s: %w", s.Name, err)
	}
	describe(schema, root, comments)
	schema.Schema = "https://json-schema.org/draft/2020-12/schema"
	schema.Title = "webhook-auditor " + s.Command + " -o json"
	return WriteJSON(w, schema)
}

// typeSchemas are those of types that write themselves.
func typeSchemas() map[reflect.Type]*jsonschema.Schema {
	severities := []any{}
	for _, s := range classify.Severities {
		severities = append(severities, s.String())
	}
	outcomes := []any{}
	for _, o := range inventory.AuditOutcomes {
		outcomes = append(outcomes, o)
	}
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[inventory.AuditOutcome](): {Type: "string", Enum: outcomes},
		reflect.TypeFor[inventory.Type]():         {Type: "string", Enum: []any{"mutating", "validating", "conversion", "mutatingpolicy", "validatingpolicy"}},
		reflect.TypeFor[time.Time]():              {Type: "string", Format: "date-time"},
		reflect.TypeFor[inventory.Resource]():     {Type: "string"},
		reflect.TypeFor[Reach](): {
			Type: "object", AdditionalProperties: &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"}},
		},
		reflect.TypeFor[classify.Severity](): {Type: "string", Enum: severities},
		reflect.TypeFor[admission.Match]():   {Type: "string", Enum: []any{admission.Yes, admission.No, admission.Maybe}},
	}
}

// describe adds the comments. A reader of one version has to accept what a newer
// one adds, so that more properties are allowed; no document has a null.
func describe(s *jsonschema.Schema, t reflect.Type, comments map[string]string) {
	notNull(s)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if s.Items != nil {
			s = s.Items
			notNull(s)
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || s.Properties == nil {
		return
	}
	s.AdditionalProperties = nil
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := s.Properties[name]
		if property == nil {
			continue
		}
		if comment := comments[owner(t, field).Name()+"."+field.Name]; comment != "" {
			property.Description = comment
		}
		describe(property, field.Type, comments)
	}
}

func notNull(s *jsonschema.Schema) {
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
}

// owner is the struct that declares the field: an embedded one has comments of its own.
func owner(t reflect.Type, field reflect.StructField) reflect.Type {
	for _, i := range field.Index[:len(field.Index)-1] {
		t = t.Field(i).Type
	}
	return t
}

// readComments returns what the comments of the sources say of each field of a struct, by
// "Struct.Field".
func readComments() (map[string]string, error) {
	out := map[string]string{}
	for _, source := range sources {
		if err := addSource(out, source); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func addSource(out map[string]string, source embed.FS) error {
	files, err := source.ReadDir(".")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := source.ReadFile(file.Name())
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), text, parser.ParseComments)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				addComments(out, spec)
			}
			return true
		})
	}
	return nil
}

func addComments(out map[string]string, spec *ast.TypeSpec) {
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range fields.Fields.List {
		for _, name := range field.Names {
			if key := spec.Name.Name + "." + name.Name; out[key] == "" { // the report's own type first
				out[key] = strings.Join(strings.Fields(field.Doc.Text()), " ")
			}
		}
	}
}
