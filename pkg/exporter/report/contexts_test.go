package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// TestMerge: findings of several clusters are sorted together, keep their context,
// and errors name theirs.
func TestMerge(t *testing.T) {
	of := func(severity classify.Severity, name string) Document {
		return Document{
			Server:   "v1.37.1",
			Webhooks: []Webhook{{Type: "validating", Configuration: "policy", Name: name}},
			Findings: []Finding{{Check: "over-broad", Severity: severity, Type: "validating", Configuration: "policy", Name: name}},
			Errors:   []Error{{Source: "services", Message: "forbidden"}},
			Totals:   Totals{Webhooks: 1},
		}
	}
	one := of(classify.Warning, "one.example.com")
	merged := Merge([]Document{one.InContext("a"), of(classify.Critical, "one.example.com").InContext("b")})
	if one.Findings[0].Context != "" {
		t.Error("the Document itself was changed")
	}
	if merged.Findings[0].Context != "b" || merged.Findings[1].Context != "a" || merged.Totals.Webhooks != 2 || merged.Server != "v1.37.1" {
		t.Errorf("merged: %+v", merged)
	}
	if got := merged.Errors[1].String(); got != "context b: services: forbidden" {
		t.Errorf("the error is %q", got)
	}
	if got := merged.summary(); !strings.Contains(got, "in 2 configurations of server v1.37.1") {
		t.Errorf("the summary is %q", got)
	}
	var table bytes.Buffer
	if err := WriteTable(&table, merged); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(table.String(), "\n")
	if !strings.HasPrefix(rows[0], "CONTEXT ") || !strings.HasPrefix(rows[1], "b ") || !strings.HasPrefix(rows[2], "a ") {
		t.Errorf("the table is\n%s", table.String())
	}
}
