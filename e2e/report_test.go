package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/auditor"
)

// document is what "audit -o json" prints, as far as the tests read it.
type document struct {
	Taken  time.Time
	Inputs []struct {
		Path, Kind string
		Taken      time.Time
		Objects    int
		Lacks      []string
	}
	Webhooks []struct{ Type, Configuration, Name string }
	Findings []reported
	Errors   []struct {
		Source  string
		Line    int
		Message string
	}
}

// reported is one finding of a document.
type reported struct{ Check, Severity, Type, Configuration, Name, Message, Fix string }

// knows tells whether the document knows a webhook of the configuration.
func (d document) knows(configuration string) bool {
	for _, w := range d.Webhooks {
		if w.Configuration == configuration {
			return true
		}
	}
	return false
}

// finds tells whether the check reports the configuration.
func (d document) finds(check, configuration string) bool {
	for _, f := range d.Findings {
		if f.Check == check && f.Configuration == configuration {
			return true
		}
	}
	return false
}

// command runs the auditor as a command.
func command(t *testing.T, args ...string) auditor.Result {
	t.Helper()
	path, err := binary()
	must(t, err)
	result, err := auditor.Command(t.Context(), path, args...)
	must(t, err)
	return result
}

// report runs "audit -o json", whatever its exit code.
func report(t *testing.T, args ...string) (document, auditor.Result) {
	t.Helper()
	result := command(t, append([]string{"audit", "-o", "json"}, args...)...)
	return parsed(t, result), result
}

// parsed reads what "audit -o json" printed.
func parsed(t *testing.T, result auditor.Result) document {
	t.Helper()
	var d document
	if err := json.Unmarshal([]byte(result.Stdout), &d); err != nil {
		t.Fatalf("%v\n%s%s", err, result.Stdout, result.Stderr)
	}
	return d
}

// contains tells whether the text has all the parts.
func contains(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
