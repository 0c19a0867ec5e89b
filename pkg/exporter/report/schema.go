package report

import (
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
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
	{"explain-call", "explain --call", CalledRequest{}},
	{"explain-check", "explain CHECK", Runbook{}},
	{"explain-error", "explain --error", Diagnosis{}},
	{"explain-request-id", "explain --request-id", AuditedRequest{}},
	{"impact", "impact CONFIGURATION", Impact{}},
	{"impact-change", "impact --down, --down-node and --delete", Consequences{}},
	{"diff", "diff", Changes{}},
	{"top", "top", Top{}},
	{"top-audit-log", "top --audit-log", AuditTop{}},
}

// WriteSchema writes the JSON Schema, draft 2020-12. The tags of the fields describe them.
func (s Schema) WriteSchema(w io.Writer) error {
	schema, err := jsonschema.ForType(reflect.TypeOf(s.root), &jsonschema.ForOptions{TypeSchemas: typeSchemas()})
	if err != nil {
		return fmt.Errorf("deriving the schema %s: %w", s.Name, err)
	}
	openUp(schema)
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

// openUp allows more properties, as a reader of one version has to accept what a newer one
// adds, and no null, as no document has one.
func openUp(s *jsonschema.Schema) {
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	if s.Items != nil {
		openUp(s.Items)
	}
	if len(s.Properties) > 0 {
		s.AdditionalProperties = nil
	}
	for _, property := range s.Properties {
		openUp(property)
	}
}
