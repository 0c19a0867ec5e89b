// Package alerts runs a real Prometheus and a real Alertmanager beside a
// control plane, set up as an installation of webhook-auditor sets them up.
package alerts

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/process"
)

// starting bounds how long each of the two servers may take to be ready.
const starting = time.Minute

// Options say what is watched, and where what watches it comes from.
type Options struct {
	Binaries  string       // folder with prometheus and alertmanager
	Auditor   string       // the auditor's binary, which prints the rules
	Routes    string       // Alertmanager's configuration, whose receivers are replaced
	Notify    string       // URL that is told of all notifications; empty: nobody is
	TimeScale float64      // of all waiting times, so that nobody waits as long as an alert does
	APIServer *rest.Config // whose series are scraped
	Auditors  []string     // URLs of the auditors that are scraped
}

// page shows the alerts: Prometheus' Go module lacks its own pages.
//
//go:embed page/index.html
var page []byte

// Stack is a running Prometheus and its Alertmanager.
type Stack struct {
	Prometheus, Alertmanager string // URLs, without path

	dir       string
	processes []*process.Process
}

// Start runs both and returns once they are ready. Whoever starts them must
// Stop them.
func Start(ctx context.Context, o Options) (*Stack, error) {
	ctx, cancel := context.WithTimeout(ctx, starting)
	defer cancel()
	s, err := prepare(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("preparing Prometheus: %w", err)
	}
	if err := s.start(ctx, o.Binaries); err != nil {
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
	}
	if err := s.configure(ctx, o); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *Stack) start(ctx context.Context, binaries string) error {
	err := s.run(
		ctx, filepath.Join(binaries, "alertmanager"), s.Alertmanager,
		"--config.file="+s.path("alertmanager.json"),
		"--storage.path="+s.path("alertmanager"),
		"--web.listen-address="+address(s.Alertmanager),
		"--cluster.listen-address=", // alone
	)
	if err != nil {
		return err
	}
	return s.run(
		ctx, filepath.Join(binaries, "prometheus"), s.Prometheus,
		"--config.file="+s.path("prometheus.json"),
		"--storage.tsdb.path="+s.path("prometheus"),
		"--web.listen-address="+address(s.Prometheus),
		"--web.user-assets="+s.path("page"),
		"--rules.alert.resend-delay=1s",
	)
}

// run starts a server and waits until it is ready.
func (s *Stack) run(ctx context.Context, binary, url string, args ...string) error {
	p, err := process.Run(binary, s.path(filepath.Base(binary)+".log"), args...)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	return p.Await(ctx, func(ctx context.Context) error { return get(ctx, url+"/-/ready", nil) })
}

// Page is where a browser shows the alerts as Prometheus has them.
func (s *Stack) Page() string { return s.Prometheus + "/user/" }

// Stop ends both and removes their data.
func (s *Stack) Stop() error {
	var failures []error
	for i := len(s.processes) - 1; i >= 0; i-- {
		failures = append(failures, s.processes[i].Stop())
	}
	return errors.Join(append(failures, os.RemoveAll(s.dir))...)
}

func (s *Stack) path(name string) string { return filepath.Join(s.dir, name) }
