//go:build unix

package manifest

import (
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPipe does not wait for a writer to a pipe in a directory.
func TestPipe(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "dir/last.yaml", namespace("last"))
	if err := syscall.Mkfifo("dir/pipe.yaml", 0o600); err != nil {
		t.Fatal(err)
	}
	o, _ := Read([]string{"dir"}, Options{})
	want := []string{"last.yaml:1 Namespace /last", "! dir/pipe.yaml: not a regular file"}
	if diff := cmp.Diff(want, describe(o)); diff != "" {
		t.Error(diff)
	}
}
