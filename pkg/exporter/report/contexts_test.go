package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestMerge: findings of several clusters are sorted together, keep their context,
// and errors name theirs.
func TestMerge(t *testing.T) {
	of := func(severity classify.Severity, name string) Document {
		return Document{
			Server:   "v1.37.1",
			Webhooks: []Webhook{{Ref: inventory.Ref{Type: "validating", Configuration: "policy", Name: name}}},
			Findings: []Finding{{Check: "over-broad", Severity: severity, Ref: inventory.Ref{Type: "validating", Configuration: "policy", Name: name}}},
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
	if got := merged.summary(); !strings.Contains(got, "Kubernetes v1.37.1 · ") {
		t.Errorf("the summary is %q", got)
	}
	var table bytes.Buffer
	must.Succeed(t, Write(&table, "table", merged, TextOptions{}))
	rows := strings.Split(table.String(), "\n")
	if strings.Contains(table.String(), "UNREADABLE") {
		t.Errorf("the findings have the clusters among them:\n%s", table.String())
	}
	if !strings.HasPrefix(rows[0], "CONTEXT ") || !strings.HasPrefix(rows[1], "b ") || !strings.HasPrefix(rows[2], "a ") {
		t.Errorf("the table is\n%s", table.String())
	}
}

// TestWriteContexts: a line for each cluster, the worst first; what could not be read
// is first, and its numbers are unknown. One cluster has no such table.
func TestWriteContexts(t *testing.T) {
	of := func(name string, findings FindingTotals) Document {
		return Document{Taken: time.Unix(1, 0), Server: "v1.37.1", Totals: Totals{Webhooks: 3, Findings: findings}}.InContext(name)
	}
	merged := Merge([]Document{
		of("info", FindingTotals{Info: 9}), of("warning", FindingTotals{Warning: 1}), of("critical", FindingTotals{Critical: 1}),
		Document{Errors: []Error{{Message: "timed out"}}}.InContext("dead"), of("clean", FindingTotals{}),
	})
	var out bytes.Buffer
	must.Succeed(t, Blocks{{Table: merged.ByContext()}}.WriteText(&out, TextOptions{}))
	const want = `CONTEXT   SERVER    WEBHOOKS  CRITICAL  WARNING  INFO  UNREADABLE
dead      not read         -         -        -     -           1
critical  v1.37.1          3         1        0     0           0
warning   v1.37.1          3         0        1     0           0
info      v1.37.1          3         0        0     9           0
clean     v1.37.1          3         0        0     0           0
`
	if out.String() != want {
		t.Errorf("the table is\n%s", out.String())
	}
}

// TestTopSelect: a table is narrowed to the webhooks that a document has.
func TestTopSelect(t *testing.T) {
	of := func(name string) TopWebhook {
		return TopWebhook{Series: inventory.Series{Type: "validating", Name: name}}
	}
	top := Top{Webhooks: []TopWebhook{of("a"), of("b")}, NotCalled: []TopWebhook{of("c")}}
	narrow := top.Select(Document{Webhooks: []Webhook{{Ref: inventory.Ref{Type: "validating", Name: "b"}}}})
	if len(narrow.Webhooks) != 1 || narrow.Webhooks[0].Name != "b" || len(narrow.NotCalled) != 0 {
		t.Errorf("narrowed to b: %+v", narrow)
	}
}
