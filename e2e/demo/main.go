// Command demo shows what webhook-auditor does: it starts a real control plane on
// this machine, registers healthy webhooks and one of each broken kind, runs
// the auditor against it and prints the report. It then sends requests to the
// broken webhooks while Prometheus and Alertmanager watch, until Ctrl-C; with
// DEMO_ONCE=1 in the environment it ends after the report.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // the reader of the output may end first: what runs must be stopped all the same
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is everything that is running.
type demo struct {
	out     io.Writer
	width   int
	plane   *cluster.ControlPlane
	hooks   *webhook.Server
	auditor *auditor.Auditor
	alerts  *monitoring.Stack // nil with DEMO_ONCE
	address string            // of the auditor, where Prometheus scrapes it; "" for any
	stops   []func() error
}

// What is run, as built, seen from the folder e2e.
const (
	binaries = "bin"
	program  = "../bin/webhook-auditor"
)

func run(ctx context.Context, out *os.File) error {
	d := &demo{out: out, width: widthOf(out)}
	err := d.show(ctx)
	failure := d.stop()
	if ctx.Err() != nil { // Ctrl-C is how a demo ends
		if failure != nil {
			fmt.Fprintln(os.Stderr, "demo:", failure)
		}
		return nil
	}
	return errors.Join(err, failure)
}

func (d *demo) show(ctx context.Context) error {
	if err := d.startCluster(ctx); err != nil {
		return err
	}
	all, err := readFixtures(d.hooks)
	if err != nil {
		return err
	}
	sound, breaking := byTime(all)
	if err := d.register(ctx, "registering", sound); err != nil {
		return err
	}
	if os.Getenv("DEMO_ONCE") != "1" {
		if err := d.startAlerts(ctx); err != nil {
			return err
		}
	}
	if err := d.startAuditor(ctx); err != nil {
		return err
	}
	if err := d.register(ctx, "breaking, while the auditor runs,", breaking); err != nil {
		return err
	}
	if err := d.report(ctx); err != nil {
		return err
	}
	if d.alerts == nil {
		d.say("the same as a page, until the demo ends: %s/", d.auditor.URL)
		return nil
	}
	d.invite()
	return d.sendRequests(ctx)
}

// say prints what happens next, wrapped between words.
func (d *demo) say(format string, args ...any) {
	width := 0
	for i, word := range strings.Fields(fmt.Sprintf("==> "+format, args...)) {
		switch length := utf8.RuneCountInString(word); {
		case i == 0:
			width = length
		case width+1+length > d.width:
			fmt.Fprint(d.out, "\n    ")
			width = 4 + length
		default:
			fmt.Fprint(d.out, " ")
			width += 1 + length
		}
		fmt.Fprint(d.out, word)
	}
	fmt.Fprintln(d.out)
}

// widthOf is how wide the lines are that the terminal shows; 100 where there is none.
func widthOf(out *os.File) int {
	if width, _, err := term.GetSize(int(out.Fd())); err == nil && width > 0 {
		return width
	}
	return 100
}

func (d *demo) startCluster(ctx context.Context) error {
	d.say("starting etcd, kube-apiserver and kube-controller-manager on 127.0.0.1: seconds, and up to 5 minutes on a slow machine")
	begun := time.Now()
	var err error
	if d.plane, err = cluster.Start(ctx, cluster.Options{Binaries: binaries}); err != nil {
		return logged(err)
	}
	d.stops = append(d.stops, d.plane.Stop)
	d.say("the control plane is up after %.1f seconds", time.Since(begun).Seconds())
	if d.hooks, err = webhook.Start(); err != nil {
		return err
	}
	d.stops = append(d.stops, d.hooks.Close)
	d.say("serving the healthy webhooks at %s", d.hooks.URL("/"))
	return nil
}

// logged keeps a failure with the last words of all servers in a file, as a user reads one
// sentence.
func logged(failure error) error {
	file, err := os.CreateTemp("", "demo-*.log")
	if err != nil {
		return failure
	}
	defer file.Close()
	if _, err := file.WriteString(failure.Error() + "\n"); err != nil {
		return failure
	}
	return fmt.Errorf("the control plane did not come up; the log of its servers is %s", file.Name())
}

func (d *demo) register(ctx context.Context, doing string, all []fixture) error {
	for _, f := range all {
		d.say("%s %s: %s", doing, f.file, f.summary)
		if err := load(ctx, d.plane.Config(), f, d.hooks); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) startAuditor(ctx context.Context) error {
	flags := []string{"--observe=apiserver"}
	if d.alerts != nil {
		flags = []string{"--prometheus-url=" + d.alerts.Prometheus, "--observe-for=1m"}
	}
	d.say("starting webhook-auditor run --kubeconfig=%s %s", d.plane.Kubeconfig(), strings.Join(flags, " "))
	var err error
	d.auditor, err = auditor.Start(ctx, auditor.Options{Binary: program, Kubeconfig: d.plane.Kubeconfig(), Address: d.address, Flags: flags})
	if err == nil {
		d.stops = append(d.stops, d.auditor.Stop)
	}
	return err
}

// report prints what "audit" says, straight to the terminal.
func (d *demo) report(ctx context.Context) error {
	d.say("asking for a report: webhook-auditor audit --kubeconfig=%s", d.plane.Kubeconfig())
	fmt.Fprintln(d.out)
	cmd := exec.CommandContext(ctx, program, "audit", "--kubeconfig="+d.plane.Kubeconfig())
	cmd.Stdout, cmd.Stderr = d.out, os.Stderr
	err := cmd.Run()
	fmt.Fprintln(d.out)
	const findings = 3 // the exit code where there is something to report, as here
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == findings {
		return nil
	}
	if err != nil {
		return fmt.Errorf("running %s: %w", cmd, err)
	}
	return nil
}

// invite says what to do until Ctrl-C, the page last. Commands are for the folder that
// users stand in: the project's.
func (d *demo) invite() {
	d.say("sending requests that meet the broken webhooks until Ctrl-C; alerts show here, as for them a minute takes %.0f seconds", 60*timeScale)
	d.say("in another terminal: export KUBECONFIG=%s; bin/webhook-auditor top; e2e/bin/kubectl get validatingwebhookconfigurations", d.plane.Kubeconfig())
	d.say("open %s/", d.auditor.URL)
}

// stop ends whatever was started, last started first.
func (d *demo) stop() error {
	d.say("stopping")
	var failures []error
	for _, stop := range slices.Backward(d.stops) {
		failures = append(failures, stop())
	}
	return errors.Join(failures...)
}
