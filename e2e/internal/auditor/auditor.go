// Package auditor runs the built webhook-auditor binary as its users do: as a
// server whose metrics are scraped, and as a command whose output is read.
package auditor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/web"
)

// Options say which auditor to run against which cluster.
type Options struct {
	Binary     string
	Kubeconfig string
	Flags      []string // further flags of "run"
	Address    string   // to serve on; empty for a free one
}

// Auditor is a running "webhook-auditor run".
type Auditor struct {
	*process.Process
	URL string // of its web server, without path
	dir string
}

// Start runs the auditor and returns once it is ready. The caller must
// Stop it.
func Start(ctx context.Context, o Options) (*Auditor, error) {
	ctx, cancel := context.WithTimeout(ctx, MaxWait)
	defer cancel()
	a, err := Launch(o)
	if err != nil {
		return nil, fmt.Errorf("starting the auditor: %w", err)
	}
	if err := a.Await(ctx, a.Ready); err != nil {
		return nil, errors.Join(err, a.Stop())
	}
	return a, nil
}

// Launch runs the auditor and does not wait until it is ready. The caller must Stop it.
func Launch(o Options) (*Auditor, error) {
	ports, err := process.FreePorts(1)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "auditor-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	address := cmp.Or(o.Address, fmt.Sprintf("127.0.0.1:%d", ports[0]))
	args := append([]string{"run", "--kubeconfig=" + o.Kubeconfig, "--web.listen-address=" + address}, o.Flags...)
	p, err := process.RunWith(append(inPod(o.Kubeconfig), "GOGC=50"), o.Binary, filepath.Join(dir, "log"), args...) // as the manifests have it
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Auditor{URL: "http://" + address, Process: p, dir: dir}, nil
}

// inPod is the environment of a Pod of the cluster, where nearly every auditor runs.
func inPod(kubeconfig string) []string {
	if kubeconfig == "" { // it reads files
		return nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil // the auditor says what is wrong with it
	}
	host, port, _ := net.SplitHostPort(strings.TrimPrefix(config.Host, "https://"))
	return []string{"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port}
}

// Ready reports whether the auditor has a snapshot to serve.
func (a *Auditor) Ready(ctx context.Context) error {
	_, err := a.Page(ctx, "/readyz")
	return err
}

// Page reads a page of the web server.
func (a *Auditor) Page(ctx context.Context, path string) (string, error) {
	text, err := web.Get(ctx, http.DefaultClient, a.URL+path)
	return string(text), err
}

// Stop ends the auditor in an orderly way.
func (a *Auditor) Stop() error { return errors.Join(a.Process.Stop(), os.RemoveAll(a.dir)) }
