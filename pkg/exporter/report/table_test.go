package report

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report/reporttest"
)

func TestTables(t *testing.T) {
	d := NewDocument(reporttest.Blind(reporttest.Report()))
	for file, write := range map[string]func(io.Writer) error{
		"table.txt":            func(w io.Writer) error { return Write(w, "table", d, TextOptions{Width: 120}) },
		"table-healthy.txt":    func(w io.Writer) error { return Write(w, "table", NewDocument(reporttest.Healthy()), TextOptions{}) },
		"table-comparison.txt": func(w io.Writer) error { return Write(w, "table", change(), TextOptions{}) },
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
