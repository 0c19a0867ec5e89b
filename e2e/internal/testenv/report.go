package testenv

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
)

// Document is what "audit -o json" prints, as far as the tests read it.
type Document struct {
	Taken  time.Time
	Inputs []struct {
		Path, Kind string
		Taken      time.Time
		Objects    int
		Lacks      []string
	}
	Webhooks []ReportedWebhook
	Findings []ReportedFinding
	Totals   struct{ Findings map[string]int }
	Errors   []struct {
		Source  string
		Line    int
		Message string
	}
}

// ReportedWebhook is one webhook of a document.
type ReportedWebhook struct{ Type, Configuration, Name string }

// ReportedFinding is one finding of a document.
type ReportedFinding struct {
	Check, Severity, Type, Configuration, Name, Message, Fix, Look string
	Acknowledged                                                   bool
}

// HasWebhookOf says whether the document has a webhook of the configuration.
func (d Document) HasWebhookOf(configuration string) bool {
	return slices.ContainsFunc(d.Webhooks, func(w ReportedWebhook) bool { return w.Configuration == configuration })
}

// HasFinding says whether the check reports the configuration.
func (d Document) HasFinding(check, configuration string) bool {
	return slices.ContainsFunc(d.Findings, func(f ReportedFinding) bool { return f.Check == check && f.Configuration == configuration })
}

// Command runs the auditor as a command.
func Command(t testing.TB, args ...string) auditor.Result {
	t.Helper()
	return Get(auditor.Command(t.Context(), Binary(t), args...))(t)
}

// Report runs "audit -o json", whatever its exit code.
func Report(t testing.TB, args ...string) (Document, auditor.Result) {
	t.Helper()
	result := Command(t, append([]string{"audit", "-o", "json"}, args...)...)
	return Parse(t, result), result
}

// Parse reads what "audit -o json" printed.
func Parse(t testing.TB, result auditor.Result) Document {
	t.Helper()
	var d Document
	if err := json.Unmarshal([]byte(result.Stdout), &d); err != nil {
		t.Fatalf("%v\n%s%s", err, result.Stdout, result.Stderr)
	}
	return d
}

// ContainsAll says whether the text has all the parts.
func ContainsAll(text string, parts ...string) bool {
	text = oneLine(text)
	for _, part := range parts {
		if !strings.Contains(text, oneLine(part)) {
			return false
		}
	}
	return true
}

// oneLine is a text with one space where it has several, or is wrapped.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
