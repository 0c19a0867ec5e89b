// Package alerts runs a real Prometheus and a real Alertmanager beside a
// control plane, set up as an installation of webhook-auditor sets them up.
package monitoring

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/web"
)

// starting bounds how long each of the two servers may take to be ready.
const starting = 5 * time.Minute

// Options say what is watched, and where what watches it comes from.
type Options struct {
	Binaries  string       // folder with prometheus and alertmanager
	Auditor   string       // the auditor's binary, which prints the rules
	Rules     []string     // further flags of what prints the rules
	Routes    string       // Alertmanager's configuration, whose receivers are replaced
	TimeScale float64      // of all waiting times, so that no test waits as long as an alert does
	APIServer *rest.Config // whose series are scraped, with its credentials
	Targets
}

// Targets are what is scraped besides the API server.
type Targets struct {
	Controllers string   // URL of kube-controller-manager; empty: not scraped
	Auditors    []string // URLs
	Without     string   // regular expression of the API server's series that are dropped; empty: none
}

// Stack is a running Prometheus and its Alertmanager.
type Stack struct {
	Prometheus, Alertmanager string // URLs, without path

	dir       string
	options   Options
	processes []*process.Process
}

// Start runs both and returns once they are ready. The caller must Stop
// them.
func Start(ctx context.Context, o Options) (*Stack, error) {
	ctx, cancel := context.WithTimeout(ctx, starting)
	defer cancel()
	s, err := prepare(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("preparing Prometheus: %w", err)
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// prepare chooses addresses and writes the configuration.
func prepare(ctx context.Context, o Options) (*Stack, error) {
	ports, err := process.FreePorts(2)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "alerts-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	s := &Stack{
		Prometheus:   fmt.Sprintf("http://127.0.0.1:%d", ports[0]),
		Alertmanager: fmt.Sprintf("http://127.0.0.1:%d", ports[1]),
		dir:          dir,
		options:      o,
	}
	if err := s.configure(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *Stack) start(ctx context.Context) error {
	err := s.run(
		ctx, "alertmanager", s.Alertmanager,
		"--config.file="+s.path("alertmanager.json"),
		"--storage.path="+s.path("alertmanager"),
		"--web.listen-address="+Address(s.Alertmanager),
		"--cluster.listen-address=", // alone
	)
	if err != nil {
		return err
	}
	return s.run(
		ctx, "prometheus", s.Prometheus,
		"--config.file="+s.path("prometheus.json"),
		"--storage.tsdb.path="+s.path("prometheus"),
		"--web.listen-address="+Address(s.Prometheus),
		"--web.enable-lifecycle",
		"--rules.alert.resend-delay=1s",
		"--query.lookback-delta="+scaled(lookback, s.options.TimeScale),
	)
}

// run starts a server and waits until it is ready.
func (s *Stack) run(ctx context.Context, binary, url string, args ...string) error {
	program, err := filepath.Abs(filepath.Join(s.options.Binaries, binary))
	if err != nil {
		return fmt.Errorf("finding %s: %w", binary, err)
	}
	p, err := process.Sparingly(s.dir, program, s.path(binary+".log"), args...)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	return p.Await(ctx, func(ctx context.Context) error {
		_, err := web.Get(ctx, http.DefaultClient, url+"/-/ready")
		return err
	})
}

// Stop ends both and removes their data.
func (s *Stack) Stop() error {
	var failures []error
	for i := len(s.processes) - 1; i >= 0; i-- {
		failures = append(failures, s.processes[i].Stop())
	}
	return errors.Join(append(failures, os.RemoveAll(s.dir))...)
}

func (s *Stack) path(name string) string { return filepath.Join(s.dir, name) }
