// Package auditor runs the built webhook-auditor binary as its users do: as a
// server whose metrics are scraped, and as a command whose output is read.
package auditor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
)

// starting bounds how long the auditor may take to have a first snapshot.
const starting = time.Minute

// Options say which auditor to run against which cluster.
type Options struct {
	Binary     string
	Kubeconfig string
	Flags      []string // further flags of "run"
}

// Auditor is a running "webhook-auditor run".
type Auditor struct {
	URL     string // of its web server, without path
	process *process.Process
	dir     string
}

// Start runs the auditor and returns once it is ready. The caller must
// Stop it.
func Start(ctx context.Context, o Options) (*Auditor, error) {
	ctx, cancel := context.WithTimeout(ctx, starting)
	defer cancel()
	a, err := Launch(o)
	if err != nil {
		return nil, fmt.Errorf("starting the auditor: %w", err)
	}
	if err := a.process.Await(ctx, a.Ready); err != nil {
		return nil, errors.Join(err, a.Stop())
	}
	return a, nil
}

// Launch runs the auditor and does not wait until it is ready. The caller
// it must Stop it.
func Launch(o Options) (*Auditor, error) {
	ports, err := process.FreePorts(1)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "auditor-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	args := append([]string{"run", "--kubeconfig=" + o.Kubeconfig, "--web.listen-address=" + address}, o.Flags...)
	p, err := process.RunWith(append(inPod(o.Kubeconfig), "GOGC=50"), o.Binary, filepath.Join(dir, "log"), args...) // as the manifests have it
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Auditor{URL: "http://" + address, process: p, dir: dir}, nil
}

// inPod is the environment of a Pod of the cluster, where nearly every auditor runs.
func inPod(kubeconfig string) []string {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil // the auditor says what is wrong with it
	}
	host, port, _ := net.SplitHostPort(strings.TrimPrefix(config.Host, "https://"))
	return []string{"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port}
}

// Ready reports whether the auditor has a snapshot to serve.
func (a *Auditor) Ready(ctx context.Context) error {
	response, err := a.get(ctx, "/readyz")
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// Page reads a page of the web server.
func (a *Auditor) Page(ctx context.Context, path string) (string, error) {
	response, err := a.get(ctx, path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// get wants a 200; the caller closes the body.
func (a *Auditor) get(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL+path, nil)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", path, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("asking for %s: %s", path, response.Status), response.Body.Close())
	}
	return response, nil
}

// PID is the process id of the auditor.
func (a *Auditor) PID() int { return a.process.PID() }

// Done is closed once the auditor has ended.
func (a *Auditor) Done() <-chan struct{} { return a.process.Done() }

// Kill ends the auditor on the spot, as kill -9 does.
func (a *Auditor) Kill() { a.process.Kill() }

// Terminate asks the auditor to end, and does not wait.
func (a *Auditor) Terminate() error { return syscall.Kill(a.PID(), syscall.SIGTERM) }

// ExitCode is what the auditor ended with; -1 while it runs or if a signal
// ended it.
func (a *Auditor) ExitCode() int { return a.process.ExitCode() }

// Output is what the auditor has logged so far.
func (a *Auditor) Output() string { return a.process.Output() }

// Stop ends the auditor in an orderly way.
func (a *Auditor) Stop() error {
	return errors.Join(a.process.Stop(), os.RemoveAll(a.dir))
}
