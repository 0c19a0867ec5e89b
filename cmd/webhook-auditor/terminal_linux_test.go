package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// screen is a terminal and what is to be seen on it.
type screen struct{ terminal, output *os.File }

func newScreen(t *testing.T) screen {
	t.Helper()
	shown := must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t)
	t.Cleanup(func() { shown.Close() })
	must.Succeed(t, unix.IoctlSetPointerInt(int(shown.Fd()), unix.TIOCSPTLCK, 0))
	number := must.Get(unix.IoctlGetInt(int(shown.Fd()), unix.TIOCGPTN))(t)
	terminal := must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	t.Cleanup(func() { terminal.Close() })
	return screen{terminal, shown}
}

// see returns what is shown up to the words; after a while there will be none.
func (s screen) see(t *testing.T, words string) string {
	t.Helper()
	late := time.AfterFunc(30*time.Second, func() { s.terminal.Close() })
	defer late.Stop()
	var seen bytes.Buffer
	for part := make([]byte, 1024); !strings.Contains(seen.String(), words); {
		n, err := s.output.Read(part)
		if err != nil {
			t.Fatalf("no %q in %q: %v", words, seen.String(), err)
		}
		seen.Write(part[:n])
	}
	return seen.String()
}

// TestColour: it is for terminals, and for who wants it.
func TestColour(t *testing.T) {
	for _, refused := range []string{"", "1"} {
		t.Setenv("NO_COLOR", refused)
		s := newScreen(t)
		const last = "the end"
		go func() {
			_ = run(t.Context(), []string{"audit", "testdata/webhooks.yaml"}, streams{out: s.terminal, err: s.terminal})
			fmt.Fprintln(s.terminal, last)
		}()
		if got := s.see(t, last); strings.Contains(got, "\x1b[") != (refused == "") {
			t.Errorf("NO_COLOR=%s: %q", refused, got)
		}
	}
	if r := execute(t, "", "audit", "testdata/webhooks.yaml"); strings.Contains(r.out, "\x1b[") {
		t.Errorf("not on a terminal: %q", r.out)
	}
}

// TestProgress: a long read is shown on a terminal, in a line that is drawn over.
func TestProgress(t *testing.T) {
	s := newScreen(t)
	line := newProgress(s.terminal)
	line.first.Stop()
	line.show("read %d files", 12) // too early
	line.next = time.Now()
	line.draw() // as first does
	line.next = time.Now()
	line.show("%d left", 3)
	line.clear()
	fmt.Fprint(s.terminal, "done")
	const want = "\rread 12 files\r3 left       \r      \rdone"
	expect.Equal(t, want, s.see(t, "done"))
	var pipe bytes.Buffer
	line = newProgress(&pipe)
	line.next = time.Now()
	line.show("no terminal")
	line.clear()
	if pipe.Len() > 0 {
		t.Errorf("not on a terminal: %q", &pipe)
	}
}
