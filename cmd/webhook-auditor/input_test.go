package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// pipe makes a named pipe that nothing writes to; it is opened and closed in the
// end, so that what waits for it goes on.
func pipe(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pipe")
	must.Succeed(t, syscall.Mkfifo(name, 0o600))
	t.Cleanup(func() {
		if w, err := os.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK, 0); err == nil {
			w.Close()
		}
	})
	return name
}

// TestInterrupted: an interrupted command ends, wherever it is.
func TestInterrupted(t *testing.T) {
	webhooks := "testdata/webhooks.yaml"
	for name, args := range map[string][]string{
		"reading a pipe":        {"audit", pipe(t)},
		"reading the input":     {"audit", "-"},
		"reading the baseline":  {"audit", webhooks, "--baseline", pipe(t)},
		"reading the object":    {"explain", "--from", webhooks, "-f", pipe(t)},
		"reading what explains": {"explain", "create", "pods", "--from", pipe(t)},
		"reading an error":      {"explain", "--from", webhooks, "--error", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			in, typed := io.Pipe()
			t.Cleanup(func() { typed.Close() })
			ended := make(chan error, 1)
			go func() { ended <- run(ctx, args, streams{reader: in, out: io.Discard, err: io.Discard}) }()
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TestWrongInput: what commands.tsv does not hold, as the files are none to commit.
func TestWrongInput(t *testing.T) {
	before := must.Get(os.ReadFile(written(t, "testdata/webhooks.yaml")))(t)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"testdata/webhooks.yaml", "--baseline", must.File(t, "before.json", string(before)+"garbage")}, exitUsage, "and nothing else: something follows at byte"},
		{[]string{must.File(t, "empty.tar", strings.Repeat("\x00", 10240))}, exitError, "empty.tar: no webhook in it"},
		{[]string{chart(t)}, exitError, "render it first, as with helm template"},
	} {
		if r := execute(t, "", append([]string{"audit"}, test.args...)...); r.code != test.code || strings.Count(r.err, test.want) != 1 {
			t.Errorf("exit code %d, want %d; stderr %q, want %q once", r.code, test.code, r.err, test.want)
		}
	}
}

// TestServerVersionNamed: what the user states is not reported as missing.
func TestServerVersionNamed(t *testing.T) {
	r := execute(t, "", "audit", "testdata/webhooks.yaml", "--server-version", "v1.34", "--fail-on", "never")
	if r.code != exitOK || strings.Contains(r.out, "No server version") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
}

// chart packs a chart of software with webhooks, as helm package does.
func chart(t *testing.T) string {
	t.Helper()
	const template = "{{- if .Values.webhook }}\nkind: ValidatingWebhookConfiguration\n{{- end }}\n"
	packed := must.Gzip(t, must.Tar(t, map[string]string{"policy/templates/webhook.yaml": template}))
	return must.File(t, "policy-1.0.0.tgz", string(packed))
}
