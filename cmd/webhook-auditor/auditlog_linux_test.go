package main

import (
	"io"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// endless is a log that goes on until it is closed.
type endless struct{ closed chan bool }

// Read implements io.Reader.
func (e endless) Read(p []byte) (int, error) {
	select {
	case <-e.closed:
		return 0, io.EOF
	default:
		return copy(p, strings.Repeat("\n", len(p))), nil
	}
}

// TestAuditLogProgress: a terminal shows how far a long log is read.
func TestAuditLogProgress(t *testing.T) {
	s, in := newScreen(t), endless{make(chan bool)}
	read := make(chan bool)
	go func() {
		defer close(read)
		flags := auditLogFlags{paths: []string{"-"}}
		flags.addTo(t.Context(), &inventory.Snapshot{}, streams{in: in, err: s.terminal})
	}()
	s.see(t, "reading the audit log: ")
	close(in.closed)
	<-read
}
