package report

import (
	"bytes"
	"io"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/reporttest"
)

func TestTables(t *testing.T) {
	d := NewDocument(reporttest.Blind(reporttest.Report()))
	for file, write := range map[string]func(io.Writer) error{
		"table.txt":            func(w io.Writer) error { return Write(w, "table", d, TextOptions{Width: 120}) },
		"table-healthy.txt":    func(w io.Writer) error { return Write(w, "table", NewDocument(reporttest.Healthy()), TextOptions{}) },
		"table-comparison.txt": func(w io.Writer) error { return Write(w, "table", change(), TextOptions{}) },
	} {
		golden.Compare(t, file, reporttest.Rendered(t, func(b *bytes.Buffer) error { return write(b) }))
	}
}
