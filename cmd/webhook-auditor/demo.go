package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/operator"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// recorded is a cluster with broken webhooks, that of "make demo-live" as
// e2e/demo/archive.sh writes it down.
//
//go:embed demo.tar.gz
var recorded []byte

// recordedChanges are webhooks that change Pods, and the audit log of an API server with
// them; recordedCall is what "explain --call" printed there. TestWhoChanged of
// e2e/suites/observe writes them.
var (
	//go:embed demo_changes.tar.gz
	recordedChanges []byte
	//go:embed demo_call.json
	recordedCall []byte
)

// recordedVersion is the version of its API server, which the archive does not hold.
const recordedVersion = "v1.37.1"

// demo is "webhook-auditor demo".
type demo struct {
	listen               string
	once, fixes, changes bool
}

func demoCommand(s streams) *cobra.Command {
	d := &demo{}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Play a recorded incident: its status page, metrics and alerts, without a cluster",
		Long: `Plays what happened to a recorded cluster, again and again, until Ctrl-C: all is
well, two webhooks break, alerts fire, both are repaired. The status page and
/metrics on loopback, and the terminal, say the same. It needs no cluster.`,
		Example: `  webhook-auditor demo

  # The report of the recorded cluster, with five broken webhooks
  webhook-auditor demo --once`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              untilStopped(s, d.run),
	}
	c.Flags().StringVar(&d.listen, "web.listen-address", "127.0.0.1:0", "loopback address to serve the status page and /metrics on; port 0 is any free port")
	c.Flags().BoolVar(&d.once, "once", false, "print the report of the recorded cluster, and end")
	c.Flags().BoolVar(&d.changes, "changes", false, "print which webhook changed which field, as a recorded audit log and recorded calls show it, and end")
	c.Flags().BoolVar(&d.fixes, "fixes", false, "with --once: print what to do about each finding")
	return c
}

func (d *demo) run(ctx context.Context, _ []string, s streams) error {
	switch {
	case !loopback(d.listen):
		return usageError{fmt.Errorf("--web.listen-address: must be a loopback address, not %s", d.listen)}
	case d.fixes && !d.once:
		return usageError{errors.New("--fixes: must be given with --once: the status page has the commands")}
	}
	if d.changes {
		return showChanges(ctx, s)
	}
	objects, err := readRecorded(recorded)
	if err != nil {
		return fmt.Errorf("reading the recorded cluster: %w", err)
	}
	taken := collected(objects.Inputs, time.Now())
	if !d.once {
		return d.play(ctx, &player{begun: taken, acts: newActs(objects)}, s)
	}
	evaluated, err := classify.DefaultPolicy().Evaluate(ctx, objects.Snapshot(taken))
	if err != nil {
		return err
	}
	return (&audit{output: "text", fixes: d.fixes, served: true}).write(report.NewDocument(evaluated), s)
}

// showChanges prints the commands that say who changed which field, each with its answer.
func showChanges(ctx context.Context, s streams) error {
	objects, err := readRecorded(recordedChanges)
	if err != nil {
		return err
	}
	log := auditLogFlags{paths: []string{"-"}, requestID: "d49226cb-f8f5-454e-834b-579ef6fee040"}
	snapshot := log.addTo(ctx, objects.Snapshot(time.Now()),
		streams{reader: bytes.NewReader(recordedChanges), err: io.Discard})
	evaluated, err := classify.DefaultPolicy().Evaluate(ctx, snapshot)
	if err != nil {
		return err
	}
	chain, err := audited(admission.New(snapshot), snapshot.AuditLog.Request)
	if err != nil {
		return err
	}
	var call report.CalledRequest
	if err := json.Unmarshal(recordedCall, &call); err != nil {
		return err
	}
	for _, answer := range []struct {
		command string
		view    report.View
	}{
		{"top --audit-log audit.log", report.NewAuditTop(evaluated, report.AuditDimensions[0])},
		{"explain --audit-log audit.log --request-id " + log.requestID + " -v", report.NewAuditedRequest(snapshot, chain)},
		{"explain create -f pod.yaml --call", call},
	} {
		fmt.Fprintf(s.out, "$ webhook-auditor %s\n\n", answer.command)
		if err := show("text", answer.view, s); err != nil {
			return err
		}
		fmt.Fprintln(s.out)
	}
	return nil
}

// readRecorded reads a recorded cluster.
func readRecorded(archive []byte) (inventory.Objects, error) {
	objects, err := (&input{server: recordedVersion}).objects([]string{"-"},
		streams{reader: bytes.NewReader(archive), err: io.Discard})
	for i := range objects.Inputs {
		objects.Inputs[i].Path = "a recorded cluster"
	}
	return objects, err
}

// play does what "run" does, over what the player shows, until the context ends.
func (d *demo) play(ctx context.Context, p *player, s streams) error {
	listener, err := net.Listen("tcp", d.listen)
	if err != nil {
		return fmt.Errorf("serving the status page: %w", err)
	}
	p.out, p.options = s.out, formatOptions("text", s)
	p.daemon = newDaemon(classify.DefaultPolicy(), operator.NewTracker(operator.TrackerOptions{
		RollUp: operator.RollUpOn, Inertia: 2 * time.Minute, Version: version.Version,
	}), slog.New(slog.DiscardHandler))
	p.daemon.clock = lastTaken
	p.say(report.Plain, fmt.Sprintf("A recorded incident plays, again and again. A minute of it takes %g seconds. Ctrl-C ends.", time.Minute.Seconds()/playSpeed))
	p.say(report.Plain, fmt.Sprintf("Status page: http://%s/", listener.Addr()), fmt.Sprintf("Metrics: http://%s/metrics", listener.Addr()))
	p.step(ctx, 0)
	web := webFlags{maxSeries: exporter.DefaultMaxSeries}
	server := newServer(web.ownHosts(web.handler(p.daemon)))
	ended := make(chan error, 1)
	go func() {
		ended <- serveUntil(ctx, server, 0, func() error { return server.Serve(listener) })
	}()
	p.follow(ctx)
	if err := <-ended; err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the status page: %w", err)
	}
	return nil
}
