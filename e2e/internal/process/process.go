// Package process starts programs, watches them and ends them again, so that
// nothing is left behind however a test ends.
package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// stopTimeout is how long a process may take to end after SIGTERM.
const stopTimeout = 15 * time.Second

// Process is a program that was started and can be ended again. It ends with
// the program that started it, however that one ends (on Linux).
type Process struct {
	Name  string
	log   string // file that takes its output
	cmd   *exec.Cmd
	ended chan struct{} // closed once the process is gone and reaped
}

// Sparingly is what Run does for a server that shares the machine with many, in a working
// directory, or in that of this program if it is empty: unless GOMAXPROCS says otherwise it
// computes on one core at a time. What such a server has to itself, it spends on waiting
// for work.
func Sparingly(dir, path, log string, args ...string) (*Process, error) {
	var environment []string
	if os.Getenv("GOMAXPROCS") == "" {
		environment = []string{"GOMAXPROCS=1"}
	}
	return run(dir, environment, path, log, args...)
}

// Run starts the program at path. Its output is appended to the file log.
func Run(path, log string, args ...string) (*Process, error) { return run("", nil, path, log, args...) }

// RunWith is Run with further environment variables, as NAME=VALUE.
func RunWith(environment []string, path, log string, args ...string) (*Process, error) {
	return run("", environment, path, log, args...)
}

func run(dir string, environment []string, path, log string, args ...string) (*Process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", path, err)
	}
	defer output.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = attributes()
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environment...)
	p := &Process{Name: path, log: log, cmd: cmd, ended: make(chan struct{})}
	started := make(chan error, 1)
	go p.watch(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}
	return p, nil
}

// watch starts the process and stays with it on one thread, because the kernel
// takes the end of that thread, not of the whole program, for the parent's.
func (p *Process) watch(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.ended)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // how it ended is in ProcessState
	}
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed once the process has ended.
func (p *Process) Done() <-chan struct{} { return p.ended }

// ExitCode is what the process ended with; -1 while it runs or if a signal
// ended it.
func (p *Process) ExitCode() int {
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	default:
		return -1
	}
}

// Stop asks the process to end and waits; after a while it is killed instead.
// Stopping a process that is gone is fine.
func (p *Process) Stop() error {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopTimeout):
	}
	p.Kill()
	return fmt.Errorf("stopping %s: still running %s after SIGTERM, killed", p.Name, stopTimeout)
}

// Kill ends the process on the spot, as kill -9 does, and waits until it is
// gone.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// signal reaches the process's whole group, so that nothing it started stays.
func (p *Process) signal(s syscall.Signal) {
	select {
	case <-p.ended:
	default:
		_ = syscall.Kill(-p.PID(), s)
	}
}

// Output is everything the process has written so far.
func (p *Process) Output() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Await calls ready until it returns nil, the process ends or ctx does.
func (p *Process) Await(ctx context.Context, ready func(context.Context) error) error {
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("waiting for %s: it ended (%s); its last words:\n%s", p.Name, p.cmd.ProcessState, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; its last words:\n%s", p.Name, err, p.tail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// tail is the end of the log, where the reason of a failure stands.
func (p *Process) tail() string {
	const lines = 20
	all := bytes.Split(bytes.TrimSpace([]byte(p.Output())), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
