package cluster

import (
	"context"
	"fmt"
	"net"

	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/web"
)

// probe asks a server once whether it is ready.
type probe func(context.Context) error

// Server is one process of a control plane. It can be stopped, killed and
// started again at the same address with the same data.
type Server struct {
	path, log string
	args      []string
	ready     probe
	process   *process.Process // nil before the first start
}

// Start runs the server and returns once it is ready.
func (s *Server) Start(ctx context.Context) error {
	started, err := process.Sparingly("", s.path, s.log, s.args...)
	if err != nil {
		return err
	}
	s.process = started
	return started.Await(ctx, s.ready)
}

// Stop ends the server in an orderly way. One that is not running is fine.
func (s *Server) Stop() error {
	if s.process == nil {
		return nil
	}
	return s.process.Stop()
}

// Kill ends the server on the spot, as kill -9 does.
func (s *Server) Kill() {
	if s.process != nil {
		s.process.Kill()
	}
}

// Restart stops the server and starts it again.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.Start(ctx)
}

// PID is the process id of the server as last started.
func (s *Server) PID() int { return s.process.PID() }

// dialStore connects to etcd, whatever the address says.
func (c *ControlPlane) dialStore(ctx context.Context, _, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", c.folder.path(etcdSocket))
}

// answers wants a 200 from a path of the server that the configuration names.
func answers(config *rest.Config, path string) probe {
	return func(ctx context.Context) error {
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		_, err = web.Get(ctx, client, config.Host+path)
		return err
	}
}
