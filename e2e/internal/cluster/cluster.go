// Package cluster runs a real Kubernetes control plane, for tests and for the
// demo: kube-apiserver and, unless turned off, kube-controller-manager on the
// loopback interface with fresh certificates, and etcd behind a socket.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/ca"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
)

// starting bounds how long a control plane may take to come up: four seconds on an
// idle machine, and minutes on a slow one.
const starting = 5 * time.Minute

// Options say how a control plane differs from the usual one; the zero value
// is the usual one.
type Options struct {
	Binaries           string   // folder with etcd, kube-apiserver and kube-controller-manager
	APIServerFlags     []string // added last, so they win: --feature-gates=…, --emulated-version=…
	WithoutControllers bool
	Controllers        []string // those that run, in place of the usual ones
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	APIServer   *Server
	Etcd        *Server
	Controllers *Server // nil where there are none

	joined     []*Server // further API servers
	options    Options
	folder     folder
	kubeconfig string
	users      *ca.Authority
	admin      *rest.Config
	ports      struct{ apiServer, controllers int }
}

// Start brings a control plane up and returns once it answers. The caller must Stop
// it.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	const attempts = 3 // a port may be taken between choosing and using it
	var failures []error
	for range attempts {
		c, err := start(ctx, options)
		if err == nil {
			return c, nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	return nil, fmt.Errorf("starting the control plane: %w", errors.Join(failures...))
}

func start(ctx context.Context, options Options) (*ControlPlane, error) {
	ctx, cancel := context.WithTimeout(ctx, starting)
	defer cancel()
	c, err := prepare(options)
	if err != nil {
		return nil, err
	}
	for _, server := range c.servers() {
		if err := server.Start(ctx); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	return c, nil
}

// prepare makes the folder, the certificates and the kubeconfig.
func prepare(options Options) (*ControlPlane, error) {
	dir, err := os.MkdirTemp("", "control-plane-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	c := &ControlPlane{options: options, folder: folder(dir)}
	const longest = 100 // a little less than systems allow
	if len(c.folder.path(etcdSocket)) > longest {
		return nil, errors.Join(fmt.Errorf("the path %s is too long for a socket: set TMPDIR to a shorter one", c.folder.path(etcdSocket)), os.RemoveAll(dir))
	}
	if err := c.equip(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c.Etcd = c.server("etcd", c.etcdFlags(), answers(&rest.Config{Host: "http://localhost", Dial: c.dialStore}, "/health"))
	c.APIServer = c.server("kube-apiserver", c.apiServerFlags(c.ports.apiServer), answers(c.admin, "/readyz"))
	if !options.WithoutControllers {
		controllers := c.Config()
		controllers.Host = c.ControllersURL()
		c.Controllers = c.server("kube-controller-manager", c.controllerFlags(), answers(controllers, "/healthz"))
	}
	return c, nil
}

func (c *ControlPlane) equip() error {
	ports, err := process.FreePorts(2)
	if err != nil {
		return err
	}
	c.ports.apiServer, c.ports.controllers = ports[0], ports[1]
	if c.users, err = ca.New("e2e"); err != nil {
		return err
	}
	if err := Credentials(string(c.folder), c.users); err != nil {
		return err
	}
	if c.admin, err = c.As("admin", "system:masters"); err != nil {
		return err
	}
	c.kubeconfig = c.folder.path("kubeconfig")
	return WriteKubeconfig(c.kubeconfig, c.admin)
}

func (c *ControlPlane) server(name string, args []string, ready probe) *Server {
	return &Server{
		path:  filepath.Join(c.options.Binaries, name),
		args:  args,
		log:   c.folder.path(name + ".log"),
		ready: ready,
	}
}

// servers are the processes in the order in which they start.
func (c *ControlPlane) servers() []*Server {
	all := []*Server{c.Etcd, c.APIServer}
	if c.Controllers != nil {
		all = append(all, c.Controllers)
	}
	return append(all, c.joined...)
}

// Join starts a further API server on the same etcd, with further flags, which
// replace those of the same name, and returns what Config does for the first one. It
// ends with the control plane.
func (c *ControlPlane) Join(ctx context.Context, further ...string) (*rest.Config, error) {
	ctx, cancel := context.WithTimeout(ctx, starting)
	defer cancel()
	ports, err := process.FreePorts(1)
	if err != nil {
		return nil, err
	}
	config := c.Config()
	config.Host = fmt.Sprintf("https://127.0.0.1:%d", ports[0])
	flags := slices.DeleteFunc(c.apiServerFlags(ports[0]), func(flag string) bool {
		name, _, _ := strings.Cut(flag, "=")
		return slices.ContainsFunc(further, func(f string) bool { return strings.HasPrefix(f, name+"=") })
	})
	added := c.server("kube-apiserver", append(flags, further...), answers(config, "/readyz"))
	added.log = c.folder.path(fmt.Sprintf("kube-apiserver-%d.log", len(c.joined)+2))
	c.joined = append(c.joined, added)
	if err := added.Start(ctx); err != nil {
		return nil, fmt.Errorf("starting a further API server: %w", err)
	}
	return config, nil
}

// Stop ends all processes, last started first, and removes their data.
func (c *ControlPlane) Stop() error {
	var failures []error
	all := c.servers()
	for i := len(all) - 1; i >= 0; i-- {
		failures = append(failures, all[i].Stop())
	}
	failures = append(failures, os.RemoveAll(string(c.folder)))
	return errors.Join(failures...)
}

// Kubeconfig is the path of a kubeconfig that may do everything.
func (c *ControlPlane) Kubeconfig() string { return c.kubeconfig }

// Cache is a folder for what kubectl keeps from one start to the next. It ends
// with the control plane.
func (c *ControlPlane) Cache() string { return c.folder.path("kubectl") }

// Config is a client configuration that may do everything.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.admin) }

// ControllersURL is where kube-controller-manager serves its metrics, to who
// presents what Config holds.
func (c *ControlPlane) ControllersURL() string {
	return fmt.Sprintf("https://127.0.0.1:%d", c.ports.controllers)
}
