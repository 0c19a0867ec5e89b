package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report/reporttest"
)

func TestTables(t *testing.T) {
	d := NewDocument(reporttest.Blind(reporttest.Report()))
	for file, write := range map[string]func(io.Writer) error{
		"table.txt":            func(w io.Writer) error { return Write(w, "table", d, TextOptions{Width: 120}) },
		"table-healthy.txt":    func(w io.Writer) error { return Write(w, "table", NewDocument(reporttest.Healthy()), TextOptions{}) },
		"table-comparison.txt": func(w io.Writer) error { return Write(w, "table", change(), TextOptions{}) },
		"junit.xml":            func(w io.Writer) error { return WriteJUnit(w, d, classify.Warning) },
	} {
		golden.Compare(t, file, reporttest.Rendered(t, func(b *bytes.Buffer) error { return write(b) }))
		if err := write(full{}); !errors.Is(err, errFull) {
			t.Errorf("%s: got error %v, want %v", file, err, errFull)
		}
	}
}

// TestTableHasOneLinePerFinding, whatever a message holds.
func TestTableHasOneLinePerFinding(t *testing.T) {
	d := NewDocument(reporttest.Report())
	d.Findings[0].Message = "a\nb\tc\x1b[31m"
	text := string(reporttest.Rendered(t, func(b *bytes.Buffer) error { return Write(b, "table", d, TextOptions{}) }))
	if got, want := strings.Count(text, "\n"), len(d.Findings)+3; got != want || strings.Contains(text, "\x1b") {
		t.Errorf("%d lines, want %d:\n%s", got, want, text)
	}
}

func TestJUnitLimits(t *testing.T) {
	d := NewDocument(reporttest.Blind(reporttest.Report()))
	for limit, failures := range map[classify.Severity]int{0: 0, classify.Critical: 2, classify.Warning: 3, classify.Info: 5} {
		text := reporttest.Rendered(t, func(b *bytes.Buffer) error { return WriteJUnit(b, d, limit) })
		var got junitSuites
		must.Succeed(t, xml.Unmarshal(text, &got))
		s := got.Suite
		if s.Failures != failures || s.Errors != 2 || s.Skipped != 1 || s.Tests != len(s.Cases) || s.Tests != len(d.Findings)+len(d.Errors) {
			t.Errorf("limit %s: %d tests, %d failures, %d errors, %d skipped", limit, s.Tests, s.Failures, s.Errors, s.Skipped)
		}
	}
}
