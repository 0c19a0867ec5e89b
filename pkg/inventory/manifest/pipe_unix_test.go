//go:build unix

package manifest

import (
	"syscall"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// TestPipe does not wait for a writer to a pipe in a directory.
func TestPipe(t *testing.T) {
	t.Chdir(t.TempDir())
	must.Write(t, "dir/last.yaml", namespace("last"))
	must.Succeed(t, syscall.Mkfifo("dir/pipe.yaml", 0o600))
	o, _ := Read([]string{"dir"}, Options{})
	want := []string{"last.yaml:1 Namespace /last", "! dir/pipe.yaml: not a regular file"}
	expect.Equal(t, want, describe(o))
}
