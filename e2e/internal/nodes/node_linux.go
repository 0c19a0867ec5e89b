package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
)

// The networks, none of which has a way out.
const (
	bridge            = "nodes"
	network           = "172.29.77."
	gateway           = network + "1" // forwards nothing
	services          = "10.96.0.0/12"
	kubernetesService = "10.96.0.1"
	pods              = "10.244."
)

// tunables are what kubelets set for the whole machine. Nodes have files in their
// place that say what kubelets want, so that they set nothing.
var tunables = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// Node is a bundle of namespaces in which a container runtime, a kubelet and
// kube-proxy run.
type Node struct {
	Name    string
	number  int
	cluster *Cluster
	holder  *process.Process // of the namespaces
	first   int              // process 1 of the node, as seen outside it
}

// Address is where the node is reached.
func (n *Node) Address() string { return network + strconv.Itoa(10+n.number) }

func (n *Node) pods() string { return fmt.Sprintf("%s%d.0/24", pods, n.number) }

func (n *Node) path(name string) string { return n.cluster.path(n.Name, name) }

func (n *Node) group() string { return cgroups(n.cluster.folder) + "-" + n.Name }

// Boot starts the node, with its old disk where it had one.
func (n *Node) Boot(ctx context.Context) error {
	for _, step := range []func(context.Context) error{n.namespaces, n.links, n.control, n.runtime} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("booting node %s: %w", n.Name, err)
		}
	}
	kubelet := n.keep("kubelet", "--config", n.path("kubelet.yaml"), "--kubeconfig", n.cluster.path("pki", n.Name+".conf"),
		"--hostname-override", n.Name, "--node-ip", n.Address(), "--v=1")
	_, proxy := n.start("kube-proxy", "--config", n.path("kube-proxy.yaml"))
	return errors.Join(kubelet, proxy)
}

// PowerOff pulls the plug: all that runs on the node ends at once.
func (n *Node) PowerOff() {
	_ = syscall.Kill(n.first, syscall.SIGKILL)
	n.holder.Kill()
	_ = do("ip", "link", "delete", "to-"+n.Name) // or it went with the other end
}

// control starts the control plane on the node that has it.
func (n *Node) control(ctx context.Context) error {
	if n != n.cluster.Control() {
		return nil
	}
	return n.cluster.controlPlane(ctx)
}

// initScript makes the mounts of a node. All that its programs write is its own.
func (n *Node) initScript() string {
	var script strings.Builder
	fmt.Fprintf(&script, "set -e\nhostname %s\nmount --make-rprivate /\nmount -t tmpfs tmpfs /run\n", n.Name)
	fmt.Fprintf(&script, "mount --bind %s /var\n", n.path("var"))
	for name := range tunables {
		fmt.Fprintf(&script, "mount --bind %s /proc/sys/%s\n", n.path("tunables/"+name), name)
	}
	// The kubelet's mounts are to be seen by containers that were started before.
	fmt.Fprintf(&script, "mount --make-rshared /\ntouch %s\nexec %s\n", n.path("ready"), n.cluster.program("fixture"))
	return script.String()
}

func (n *Node) namespaces(ctx context.Context) error {
	for _, folder := range []string{"var/lib/kubelet", "var/lib/containerd", "var/lib/cni", "var/log/pods", "var/log/containers", "var/tmp", "cni", "static", "plugins"} {
		if err := os.MkdirAll(n.path(folder), 0o755); err != nil {
			return err
		}
	}
	for name, value := range tunables {
		if err := os.MkdirAll(filepath.Dir(n.path("tunables/"+name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(n.path("tunables/"+name), []byte(value+"\n"), 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(n.path("init.sh"), []byte(n.initScript()), 0o600); err != nil {
		return err
	}
	if err := os.Remove(n.path("ready")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var err error
	n.holder, err = process.Run("unshare", n.path("init.log"), "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc", "sh", n.path("init.sh"))
	if err != nil {
		return err
	}
	if err := n.holder.Await(ctx, func(context.Context) error { _, err := os.Stat(n.path("ready")); return err }); err != nil {
		return err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", n.holder.PID(), n.holder.PID()))
	if err != nil {
		return err
	}
	n.first, err = strconv.Atoi(strings.TrimSpace(string(children)))
	return errors.Join(err, n.makeGroup(ctx))
}

// makeGroup makes the node's control group, which its kubelet wants to find. Groups from
// before a power cut, which no machine has, keep a kubelet from registering for minutes.
func (n *Node) makeGroup(ctx context.Context) error {
	err := n.holder.Await(ctx, func(context.Context) error {
		if !swept(n.group()) {
			return errors.New("control groups of before are left")
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, root := range hierarchies() {
		group := filepath.Join(root, n.group())
		if err := os.MkdirAll(group, 0o755); err != nil {
			return err
		}
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} { // empty at first, in version 1
			if inherited, err := os.ReadFile(filepath.Join(root, name)); err == nil {
				if err := os.WriteFile(filepath.Join(group, name), inherited, 0o644); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// links connects the node to the others, and to nothing else.
func (n *Node) links(ctx context.Context) error {
	outer := "to-" + n.Name
	commands := [][]string{
		{"ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(n.first)},
		{"ip", "link", "set", outer, "master", bridge, "up"},
		n.inside("ip", "link", "set", "lo", "up"),
		n.inside("ip", "address", "add", n.Address()+"/24", "dev", "eth0"),
		n.inside("ip", "link", "set", "eth0", "up"),
		n.inside("ip", "route", "add", services, "via", gateway),
		n.inside("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0", "net.ipv4.conf.all.route_localnet=1"),
	}
	for _, other := range n.cluster.Nodes {
		if other != n {
			commands = append(commands, n.inside("ip", "route", "add", other.pods(), "via", other.Address()))
		}
	}
	for _, command := range commands {
		if err := do(command...); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// inside is a command line that runs in the node.
func (n *Node) inside(command ...string) []string {
	return append([]string{"nsenter", "-t", strconv.Itoa(n.first), "-m", "-n", "-p", "-u", "-i", "--"}, command...)
}

// Run runs a command in the node and returns what it prints.
func (n *Node) Run(ctx context.Context, command ...string) (string, error) {
	line := n.inside(command...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("node %s: %s: %w\n%s%s", n.Name, strings.Join(command, " "), err, output, stderr.String())
	}
	return string(output), nil
}

// Ask is what a URL answers the node, with a bearer token where one is given.
func (n *Node) Ask(ctx context.Context, url string, token ...string) (string, error) {
	return n.Run(ctx, append([]string{n.cluster.program("fixture"), "ask", url}, token...)...)
}

// start starts a program in the node.
func (n *Node) start(name string, flags ...string) (*process.Process, error) {
	line := n.inside(append([]string{n.cluster.program(name)}, flags...)...)
	return process.Sparingly("", line[0], n.path(name+".log"), line[1:]...)
}

// keep starts a program in the node, and again when it ends, as leaders do that lose their
// leases and kubelets that fail to register; until the node is off.
func (n *Node) keep(name string, flags ...string) error {
	p, err := n.start(name, flags...)
	if err != nil {
		return err
	}
	go func(node *process.Process) {
		for err == nil {
			<-p.Done()
			select {
			case <-node.Done():
				return
			case <-time.After(time.Second):
				p, err = n.start(name, flags...)
			}
		}
	}(n.holder)
	return nil
}

func (n *Node) runtime(ctx context.Context) error {
	binaries, err := plugins()
	if err != nil {
		return err
	}
	err = write(map[string]string{
		n.path("containerd.toml"):       fmt.Sprintf(containerdConfig, ImageName("fixture"), binaries, n.path("cni")),
		n.path("cni/10-nodes.conflist"): fmt.Sprintf(cniConfig, n.pods(), services, pods+"0.0/16", network+"0/24"),
		n.path("resolv.conf"):           "",
		n.path("kubelet.yaml"):          n.kubeletConfig(),
		n.path("kube-proxy.yaml"):       fmt.Sprintf(proxyConfig, n.cluster.path("pki", "kube-proxy.conf"), pods+"0.0/16", n.cluster.options.ProxyMode, n.Name),
	})
	if err != nil {
		return err
	}
	containerd, err := n.start("containerd", "--config", n.path("containerd.toml"))
	if err != nil {
		return err
	}
	err = containerd.Await(ctx, func(ctx context.Context) error { _, err := n.Run(ctx, "ctr", "version"); return err })
	if err != nil {
		return err
	}
	return n.load(ctx, n.cluster.options.Images...)
}

// load has the node's container runtime import images.
func (n *Node) load(ctx context.Context, archives ...string) error {
	for _, archive := range archives {
		if _, err := n.Run(ctx, "ctr", "-n", "k8s.io", "images", "import", archive); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) kubeletConfig() string {
	taints := "[]"
	if n == n.cluster.Control() && len(n.cluster.Nodes) > 1 {
		taints = "[{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}]"
	}
	return fmt.Sprintf(kubeletConfig, n.cluster.path("pki", "ca.crt"), n.group(), n.path("resolv.conf"), n.path("static"), n.path("plugins"), taints)
}

func write(files map[string]string) error {
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(path, []byte(files[path]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// log is the end of what a program of the node wrote.
func (n *Node) log(program string) string {
	text := read(n.path(program + ".log"))
	const enough = 8000
	return text[max(0, len(text)-enough):]
}
