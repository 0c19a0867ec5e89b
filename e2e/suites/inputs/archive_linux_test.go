package inputs

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// ceiling bounds the memory for an archive of which hardly anything is read.
const ceiling = 128 << 10 // KiB

// TestLogsAreNotRead audits a configuration behind far more logs than memory
// that it may take, and hundreds of thousands of files.
func TestLogsAreNotRead(t *testing.T) {
	reader, writer := io.Pipe()
	go func() { _ = writer.CloseWithError(hay(writer)) }()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(t.Context(), testenv.Binary(t), "audit", "-", "-o=json", "--fail-on=never")
	command.Stdin, command.Stdout, command.Stderr = reader, &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	d := testenv.Parse(t, auditor.Result{Stdout: stdout.String(), Stderr: stderr.String()})
	if !d.HasWebhookOf("sound") || len(d.Errors) > 0 || d.Inputs[0].Kind != "must-gather (archive)" || d.Inputs[0].Objects != 1 {
		t.Errorf("the needle is lost: %+v", d)
	}
	if peak := command.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; peak > ceiling {
		t.Errorf("%d MiB at most, want no more than %d", peak>>10, ceiling>>10)
	}
}

// hay writes the archive.
func hay(w io.Writer) error {
	archive := tar.NewWriter(w)
	add := func(name string, content []byte) error {
		if err := archive.WriteHeader(&tar.Header{Name: "must-gather.local.1/image/" + name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err := archive.Write(content)
		return err
	}
	log := bytes.Repeat([]byte("2026-01-01T00:00:00Z all is well\n"), 1<<15)
	for i := range 256 {
		if err := add(fmt.Sprintf("namespaces/a/pods/p-%d/c/c/logs/current.log", i), log); err != nil {
			return err
		}
	}
	for i := range 200_000 {
		if err := add(fmt.Sprintf("cluster-scoped-resources/example.com/things/%d.yaml", i), nil); err != nil {
			return err
		}
	}
	if err := add("cluster-scoped-resources/admissionregistration.k8s.io/validatingwebhookconfigurations/sound.yaml", []byte(sound)); err != nil {
		return err
	}
	return archive.Close()
}
