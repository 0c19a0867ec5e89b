package nodes

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/apply"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
)

// LeaseDuration is how long kube-controller-manager and kube-scheduler lead, at most,
// after they have last renewed their leases. It is longer than elsewhere, for the sake of
// machines under load.
const LeaseDuration = time.Minute

// patience bounds how long a cluster may take to come up.
const patience = 6 * time.Minute

// Options say what a cluster is made of.
type Options struct {
	Binaries       string   // folder of the programs, as e2e/node/build.sh fills it
	Folder         string   // for all that the cluster writes
	Nodes          int      // the first has the control plane
	ProxyMode      string   // iptables or nftables
	APIServerFlags []string // added last, so they win
	Emulated       string   // release that the servers emulate, such as 1.36
	Images         []string // archives that each node imports when it boots
}

// FromEnvironment is a cluster with what was built in a repository, as variables say.
func FromEnvironment(root, folder string) Options {
	binaries := filepath.Join(root, "e2e", "bin")
	return Options{
		Binaries: binaries, Folder: folder, Nodes: 3,
		Images:    []string{filepath.Join(root, "dist", "webhook-auditor-image.tar"), filepath.Join(binaries, "coredns.tar"), filepath.Join(binaries, "fixture.tar")},
		ProxyMode: cmp.Or(os.Getenv("PROXY_MODE"), "iptables"), APIServerFlags: strings.Fields(os.Getenv("APISERVER_FLAGS")), Emulated: os.Getenv("EMULATED_VERSION"),
	}
}

// Cluster is a control plane and nodes.
type Cluster struct {
	Nodes   []*Node
	Kube    kubernetes.Interface
	options Options
	folder  string
	admin   *rest.Config
	api     *process.Process
}

// Start brings a cluster up, inside an Isolated program, and returns once all its nodes
// are ready. It ends with the program.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := &Cluster{options: options, folder: options.Folder}
	for i := range options.Nodes {
		name := "cp"
		if i > 0 {
			name = fmt.Sprintf("w%d", i)
		}
		c.Nodes = append(c.Nodes, &Node{Name: name, number: i, cluster: c})
	}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	if err := c.Control().Boot(ctx); err != nil {
		return nil, err
	}
	boots, within := errgroup.WithContext(ctx)
	for _, n := range c.Nodes[1:] {
		boots.Go(func() error { return n.Boot(within) })
	}
	if err := boots.Wait(); err != nil {
		return nil, err
	}
	if err := c.AwaitNodes(ctx); err != nil {
		return nil, err
	}
	return c, c.dns(ctx)
}

//go:embed coredns.yaml
var coreDNS []byte // as kubeadm installs it, with one replica

// dns installs CoreDNS. A user who needs names waits for it.
func (c *Cluster) dns(ctx context.Context) error {
	objects, err := apply.Objects(coreDNS)
	if err != nil {
		return err
	}
	return apply.Apply(ctx, c.admin, objects...)
}

func (c *Cluster) prepare() error {
	for _, folder := range []string{"pki", "etcd"} {
		if err := os.MkdirAll(c.path(folder, ""), 0o700); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes {
		if err := os.MkdirAll(n.path(""), 0o755); err != nil {
			return err
		}
	}
	if err := c.credentials(); err != nil {
		return err
	}
	var err error
	c.Kube, err = kubernetes.NewForConfig(c.admin)
	return err
}

// ImageName is what Pods name the image of a program of e2e/node/build.sh.
func ImageName(program string) string { return "docker.io/library/" + program + ":1" }

// Import has all nodes import the image of a program.
func (c *Cluster) Import(ctx context.Context, program string) error {
	for _, n := range c.Nodes {
		if err := n.load(ctx, c.program(program+".tar")); err != nil {
			return err
		}
	}
	return nil
}

// Control is the node with the control plane.
func (c *Cluster) Control() *Node { return c.Nodes[0] }

// Node is the node of the name; nil if there is none.
func (c *Cluster) Node(name string) *Node {
	for _, n := range c.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// ProxyMode is that of kube-proxy.
func (c *Cluster) ProxyMode() string { return c.options.ProxyMode }

// Config is a client configuration that may do everything.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.admin) }

// Kubeconfig is the path of a kubeconfig that may do everything.
func (c *Cluster) Kubeconfig() string { return c.path("pki", "super-admin.conf") }

func (c *Cluster) path(folder, name string) string { return filepath.Join(c.folder, folder, name) }

// program is the path of a program that was built, or the name of one of the machine's.
func (c *Cluster) program(name string) string {
	path := filepath.Join(c.options.Binaries, name)
	if _, err := os.Stat(path); err != nil {
		return name
	}
	return path
}

// controlPlane starts it as kubeadm has it, but as processes and not as Pods.
func (c *Cluster) controlPlane(ctx context.Context) error {
	const local = "http://127.0.0.1:2379"
	_, err := c.Control().start("etcd", "--data-dir="+c.path("etcd", "data"), "--listen-client-urls="+local, "--advertise-client-urls="+local,
		"--listen-peer-urls=http://127.0.0.1:0", "--unsafe-no-fsync", "--log-level=warn")
	if err != nil {
		return err
	}
	if err := c.APIServer(ctx); err != nil {
		return err
	}
	return c.leaders()
}

// leaders starts kube-controller-manager and kube-scheduler.
func (c *Cluster) leaders() error {
	controllers := append(c.leader("controller-manager"), "--client-ca-file="+c.path("pki", "ca.crt"), "--requestheader-client-ca-file="+c.path("pki", "front-proxy-ca.crt"),
		"--root-ca-file="+c.path("pki", "ca.crt"), "--service-account-private-key-file="+c.path("pki", "service-account.key"), "--use-service-account-credentials",
		"--controllers=*,bootstrapsigner,tokencleaner", "--service-cluster-ip-range="+services)
	return errors.Join(c.Control().keep("kube-controller-manager", controllers...), c.Control().keep("kube-scheduler", c.leader("scheduler")...))
}

func (c *Cluster) emulated() []string {
	if c.options.Emulated == "" {
		return nil
	}
	return []string{"--emulated-version=" + c.options.Emulated}
}

// leader are the flags that kube-controller-manager and kube-scheduler share.
func (c *Cluster) leader(name string) []string {
	config := c.path("pki", name+".conf")
	return append([]string{
		"--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
		"--bind-address=127.0.0.1", "--leader-elect", "--leader-elect-lease-duration=" + LeaseDuration.String(), "--leader-elect-renew-deadline=50s",
	}, c.emulated()...)
}

// APIServer starts the API server, with further flags, which win, and waits until it is
// ready. One that runs is killed.
func (c *Cluster) APIServer(ctx context.Context, further ...string) error {
	if c.api != nil {
		c.api.Kill()
		for err := error(nil); err == nil && ctx.Err() == nil; {
			_, err = c.Control().Ask(ctx, "https://127.0.0.1:6443/livez") // until its port is free
		}
	}
	flags := slices.Concat([]string{
		"--advertise-address=" + c.Control().Address(), "--secure-port=6443", "--allow-privileged", "--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction", "--enable-bootstrap-token-auth", "--etcd-servers=http://127.0.0.1:2379", "--service-cluster-ip-range=" + services,
		"--kubelet-client-certificate=" + c.path("pki", "kubelets.crt"), "--kubelet-client-key=" + c.path("pki", "kubelets.key"), "--kubelet-preferred-address-types=InternalIP",
	}, cluster.Trust(c.path("pki", "")), c.emulated(), c.options.APIServerFlags, further)
	var err error
	if c.api, err = c.Control().start("kube-apiserver", flags...); err != nil {
		return err
	}
	return c.api.Await(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return c.Kube.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// Await calls ready until it returns nil, or the API server or ctx ends.
func (c *Cluster) Await(ctx context.Context, ready func(context.Context) error) error {
	return c.api.Await(ctx, ready)
}

// AwaitNodes waits until all nodes are ready, and labels the one with the control plane
// as kubeadm does.
func (c *Cluster) AwaitNodes(ctx context.Context) error {
	if err := c.Await(ctx, c.ready); err != nil {
		for _, n := range c.Nodes {
			err = fmt.Errorf("%w\nkubelet of %s:\n%s", err, n.Name, n.log("kubelet"))
		}
		return err
	}
	patch := []byte(`{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`)
	_, err := c.Kube.CoreV1().Nodes().Patch(ctx, c.Control().Name, "application/merge-patch+json", patch, metav1.PatchOptions{})
	return err
}

func (c *Cluster) ready(ctx context.Context) error {
	var failures []error
	for _, n := range c.Nodes {
		node, err := c.Kube.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			failures = append(failures, err)
			continue
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
				failures = append(failures, fmt.Errorf("node %s: %s", n.Name, condition.Message))
			}
		}
	}
	return errors.Join(failures...)
}
