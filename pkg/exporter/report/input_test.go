package report

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestInputsInAllForms: each form of a report names what it was made from,
// and as of when it is evaluated.
func TestInputsInAllForms(t *testing.T) {
	d := NewDocument(reporttest.Gathered(reporttest.Healthy()))
	c := NewComparison(d, d)
	for name, write := range map[string]func(io.Writer) error{
		"text":                 func(w io.Writer) error { return Write(w, "text", d, TextOptions{Verbose: true}) },
		"markdown":             func(w io.Writer) error { return Write(w, "markdown", d, TextOptions{}) },
		"JSON":                 func(w io.Writer) error { return WriteJSON(w, d) },
		"SARIF":                func(w io.Writer) error { return WriteSARIF(w, d, "v1.2.3") },
		"comparison, text":     func(w io.Writer) error { return Write(w, "text", c, TextOptions{Verbose: true}) },
		"comparison, markdown": func(w io.Writer) error { return Write(w, "markdown", c, TextOptions{}) },
		"comparison, JSON":     func(w io.Writer) error { return WriteJSON(w, c) },
		"comparison, SARIF":    func(w io.Writer) error { return WriteSARIF(w, c.Document(), "") },
	} {
		t.Run(name, func(t *testing.T) {
			text := string(reporttest.Rendered(t, func(b *bytes.Buffer) error { return write(b) }))
			expect.Contains(t, text, "must-gather (archive)", "2026-11-21T03:00:00Z", "ackends are unknown")
			if strings.Contains(text, "\x1b") {
				t.Errorf("it has a terminal's control characters:\n%s", text)
			}
		})
	}
}

// TestLacking: what one of several inputs holds is not lacking.
func TestLacking(t *testing.T) {
	hooks := inventory.Input{Objects: 1, Lacks: []string{"no Services: backends are unknown", "no EndpointSlices: endpoints are unknown"}}
	services := inventory.Input{Objects: 1, Lacks: []string{"no webhook configurations: x", "no EndpointSlices: endpoints are unknown"}}
	empty := inventory.Input{Lacks: []string{"no webhook configurations, CRDs or related objects found"}}
	for want, inputs := range map[string][]inventory.Input{
		"EndpointSlices, Services": {hooks}, "EndpointSlices": {hooks, empty, services},
		"webhook configurations, CRDs or related objects": {empty}, "": nil,
	} {
		if got := strings.Join(lacking(inputs), ", "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
