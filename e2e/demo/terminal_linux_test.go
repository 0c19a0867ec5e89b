package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/web"
)

// maxWait bounds each wait: a busy machine takes minutes to start all of it.
const maxWait = 5 * time.Minute

// terminal is what a user sees of a program.
type terminal struct {
	*os.File
	ended chan error

	mu     sync.Mutex
	output bytes.Buffer
}

// open runs the command on a terminal of its own, as a shell does.
func open(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	file, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	s := &terminal{File: file, ended: make(chan error, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for part := make([]byte, 4096); ; {
			n, err := file.Read(part)
			s.mu.Lock()
			s.output.Write(part[:n])
			s.mu.Unlock()
			if err != nil {
				return // no process has it open any more
			}
		}
	}()
	go func() { s.ended <- cmd.Wait() }()
	t.Cleanup(func() {
		file.Close() // hangs up, which ends what still runs
		<-read
	})
	return s
}

func (s *terminal) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}

// sees waits until the terminal shows what matches, and returns the match.
func (s *terminal) sees(t *testing.T, pattern string) []string {
	t.Helper()
	wanted := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(maxWait); ; {
		if found := wanted.FindStringSubmatch(s.text()); found != nil {
			return found
		}
		select {
		case err := <-s.ended:
			t.Fatalf("ended (%v) without %q:\n%s", err, pattern, s.text())
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %q within %s:\n%s", pattern, maxWait, s.text())
		}
	}
}

// TestMakeDemo does what a user does: runs make demo-live, waits for its alerts, deletes what
// the report invites to delete, and ends it by Ctrl-C.
func TestMakeDemo(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("make", "--directory=../..", "--old-file=build", "demo-live") // all is built
	cmd.Env = append(os.Environ(), "DEMO_ONCE=", "MAKEFLAGS=", "MAKELEVEL=")
	s := open(t, cmd)
	kubeconfig := s.sees(t, `audit --kubeconfig=(\S+)`)[1]
	s.sees(t, `\d+ critical`)
	for _, alert := range []string{"WebhookBackendDown", "WebhookCallsFailing", "WebhookConversionFailing", "WebhookOnVirtualResource"} {
		s.sees(t, `alert after \d+ s: `+alert+` `)
	}
	page := s.sees(t, `open (http://\S+/)`)[1]
	for deadline := time.Now().Add(maxWait); ; time.Sleep(time.Second) { // it asks Prometheus once a minute
		text, err := web.Get(t.Context(), http.DefaultClient, page)
		if err == nil && strings.Contains(string(text), "Firing alerts") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the page shows no alert: %v", err)
		}
	}
	if err := deleteInvited(t.Context(), kubeconfig); err != nil {
		t.Fatal(err)
	}
	s.sees(t, `ended after \d+ s: WebhookCallsFailing`)
	if _, err := s.WriteString("\x03"); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	select {
	case err := <-s.ended:
		if err != nil {
			t.Errorf("Ctrl-C: %v, want exit code 0:\n%s", err, s.text())
		}
	case <-time.After(maxWait):
		t.Errorf("still running %s after Ctrl-C:\n%s", maxWait, s.text())
	}
}

// deleteInvited deletes a configuration and a CRD whose software is gone.
func deleteInvited(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	crds, err := clientset.NewForConfig(config)
	if err != nil {
		return err
	}
	return errors.Join(
		crds.ApiextensionsV1().CustomResourceDefinitions().Delete(ctx, "backups.storage.example.com", metav1.DeleteOptions{}),
		kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, "legacy-operator", metav1.DeleteOptions{}),
	)
}
