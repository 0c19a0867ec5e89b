// Package nodes runs a cluster of real nodes on one Linux machine: kubelets,
// containers, kube-proxy and a Service network, in namespaces that have no way out and
// end with the program that made them. It needs root.
package nodes

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The program starts itself again in these roles.
const (
	roleVariable   = "WEBHOOK_AUDITOR_E2E_NODES"
	folderVariable = "WEBHOOK_AUDITOR_E2E_NODES_FOLDER"
	inside         = "inside"
	sweeper        = "sweeper"
)

// Isolated has a program run in namespaces of its own, and returns its exit code. All that it
// starts there ends with it, however it ends; what the kernel then leaves behind, a
// process outside sweeps up.
type Isolated struct {
	// Outside runs beside it, in the namespaces of the machine, with its folder.
	Outside func(folder string) error
	// Inside is the program.
	Inside func(folder string) int
}

// Run is called first thing in main, with the program's own arguments.
func (i Isolated) Run() int {
	folder := os.Getenv(folderVariable)
	switch os.Getenv(roleVariable) {
	case inside:
		if err := enter(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return i.Inside(folder)
	case sweeper:
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the last of what runs inside
		return sweep(folder)
	}
	code, err := i.supervise()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func (i Isolated) supervise() (int, error) {
	if os.Geteuid() != 0 {
		return 1, errors.New("nodes need root: run it with sudo")
	}
	folder, err := os.MkdirTemp("", "nodes-")
	if err != nil {
		return 1, fmt.Errorf("making a folder: %w", err)
	}
	if strings.HasPrefix(folder, "/var/") {
		return 1, errors.Join(fmt.Errorf("%s is below /var, which nodes have of their own: set TMPDIR to another folder", folder), os.Remove(folder))
	}
	before := Left(folder)
	lives, alive, err := os.Pipe()
	if err != nil {
		return 1, fmt.Errorf("making a pipe: %w", err)
	}
	sweeps := again(sweeper, folder)
	sweeps.Stdin, sweeps.SysProcAttr = lives, &syscall.SysProcAttr{Setsid: true}
	if err := sweeps.Start(); err != nil {
		return 1, fmt.Errorf("starting what sweeps up: %w", err)
	}
	_ = lives.Close()
	if i.Outside != nil {
		if err := i.Outside(folder); err != nil {
			return 1, err
		}
	}
	code, err := isolate(folder, alive)
	_ = alive.Close()
	err = errors.Join(err, sweeps.Wait())
	if after := Left(folder); after != before {
		err = errors.Join(err, fmt.Errorf("something is left or changed on this machine\nbefore:\n%s\nafter:\n%s", before, after))
	}
	return code, err
}

// again starts this program in another role.
func again(role, folder string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), roleVariable+"="+role, folderVariable+"="+folder)
	return cmd
}

// isolate runs this program inside, as process 1, with which the kernel ends all
// others. The kernel kills it when this thread ends, hence the lock.
func isolate(folder string, alive *os.File) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := again(inside, folder)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{alive}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("starting in namespaces: %w", err)
	}
	_ = alive.Close()
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return 1, fmt.Errorf("running in namespaces: %w", err)
	}
	if cmd.ProcessState.ExitCode() < 0 {
		return 0, fmt.Errorf("running in namespaces: %s", cmd.ProcessState)
	}
	return cmd.ProcessState.ExitCode(), nil
}

// enter makes the namespaces usable: mounts that stay inside, and a network that is
// nothing but a bridge for the nodes.
func enter() error {
	for _, command := range [][]string{
		{"mount", "--make-rprivate", "/"},
		{"mount", "-t", "proc", "proc", "/proc"},
		{"mount", "-t", "tmpfs", "tmpfs", "/run"},
		{"ip", "link", "set", "lo", "up"},
		{"ip", "link", "add", bridge, "type", "bridge"},
		{"ip", "address", "add", gateway + "/24", "dev", bridge},
		{"ip", "link", "set", bridge, "up"},
	} {
		if err := do(command...); err != nil {
			return err
		}
	}
	return nil
}

func do(command ...string) error {
	if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, output)
	}
	return nil
}

// plugins is the folder of the CNI plugins, as Debian or as others install them.
func plugins() (string, error) {
	for _, folder := range []string{"/usr/lib/cni", "/opt/cni/bin"} {
		if _, err := os.Stat(filepath.Join(folder, "ptp")); err == nil {
			return folder, nil
		}
	}
	return "", errors.New("nodes need CNI plugins: install Debian's package containernetworking-plugins, or run e2e/node/build.sh")
}

// cgroups is the prefix of the names of the nodes' control groups.
func cgroups(folder string) string { return filepath.Base(folder) }

// hierarchies are the roots of the control groups: one of version 2, several of 1, to
// which an empty one of 2 may be added.
func hierarchies() []string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return []string{"/sys/fs/cgroup"}
	}
	all, _ := filepath.Glob("/sys/fs/cgroup/*") // the pattern is right
	return slices.DeleteFunc(all, func(path string) bool {
		info, err := os.Lstat(path)
		return err != nil || !info.IsDir()
	})
}

// sweep removes what namespaces do not take with them, and returns an exit code.
func sweep(folder string) int {
	const patience = 2 * time.Minute // for the kernel to end what ran
	end := time.Now().Add(patience)
	for !swept(folder) {
		if time.Now().After(end) {
			return 1
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := os.RemoveAll(folder); err != nil {
		return 1
	}
	return 0
}

// swept removes the control groups of a run, and reports whether all are gone.
func swept(folder string) bool {
	gone := true
	for _, root := range hierarchies() {
		left, _ := filepath.Glob(filepath.Join(root, cgroups(folder)+"*"))
		for _, group := range left {
			gone = removeGroup(group) && gone
		}
	}
	return gone
}

// removeGroup removes a control group, the deepest below it first: its files are the
// kernel's.
func removeGroup(group string) bool {
	entries, _ := os.ReadDir(group)
	for _, e := range entries {
		if e.IsDir() {
			removeGroup(filepath.Join(group, e.Name()))
		}
	}
	err := syscall.Rmdir(group)
	return err == nil || errors.Is(err, syscall.ENOENT)
}

// Left is what nodes could leave on the machine, or change there.
func Left(folder string) string {
	var out strings.Builder
	for _, root := range hierarchies() {
		groups, _ := filepath.Glob(filepath.Join(root, cgroups(folder)+"*"))
		fmt.Fprintln(&out, "control groups:", groups)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.SplitSeq(string(mounts), "\n") {
		if strings.Contains(line, folder) {
			fmt.Fprintln(&out, "mount:", line)
		}
	}
	for _, pattern := range []string{bridge, "to-*"} { // others come and go by what else the machine does
		links, _ := filepath.Glob("/sys/class/net/" + pattern)
		fmt.Fprintln(&out, "links:", links)
	}
	for _, name := range slices.Sorted(maps.Keys(tunables)) {
		fmt.Fprintln(&out, name, read("/proc/sys/"+name))
	}
	return out.String() + "tables:\n" + read("/proc/net/ip_tables_names")
}

func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "none\n"
	}
	return string(text)
}
