package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/page"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// recorded is a cluster with broken webhooks, that of "make demo" as
// e2e/demo/archive.sh writes it down.
//
//go:embed demo.tar.gz
var recorded []byte

// recordedVersion is the version of its API server, which the archive does not hold.
const recordedVersion = "v1.37.1"

// demo is "webhook-auditor demo".
type demo struct {
	listen      string
	once, fixes bool
}

func demoCommand(s streams) *cobra.Command {
	d := &demo{}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show a recorded cluster with broken webhooks: its report, and its status page",
		Long: `Prints the report of a recorded cluster with broken webhooks, and serves its
status page on loopback until Ctrl-C. It needs no cluster.`,
		Example: `  webhook-auditor demo
  webhook-auditor demo --once`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              untilStopped(s, d.run),
	}
	c.Flags().StringVar(&d.listen, "web.listen-address", "127.0.0.1:0", "loopback address to serve the status page on; port 0 is any free port")
	c.Flags().BoolVar(&d.once, "once", false, "end after the report")
	c.Flags().BoolVar(&d.fixes, "fixes", false, "print what to do about each finding")
	return c
}

func (d *demo) run(ctx context.Context, _ []string, s streams) error {
	if !loopback(d.listen) {
		return usageError{fmt.Errorf("--web.listen-address: must be a loopback address, not %s", d.listen)}
	}
	evaluated, err := evaluateRecorded(ctx)
	if err != nil {
		return fmt.Errorf("reading the recorded cluster: %w", err)
	}
	if err := (&audit{output: "text", fixes: d.fixes, served: true}).write(report.NewDocument(evaluated), s); err != nil || d.once {
		return err
	}
	return d.serve(ctx, evaluated, s)
}

// evaluateRecorded evaluates the recorded cluster as of the time of the record.
func evaluateRecorded(ctx context.Context) (*classify.Report, error) {
	objects, err := (&input{server: recordedVersion}).objects([]string{"-"}, streams{in: bytes.NewReader(recorded), err: io.Discard})
	if err != nil {
		return nil, err
	}
	for i := range objects.Inputs {
		objects.Inputs[i].Path = "a recorded cluster"
	}
	return classify.DefaultPolicy().Evaluate(ctx, objects.Snapshot(collected(objects.Inputs, time.Now())))
}

// serve serves the status page until the context ends.
func (d *demo) serve(ctx context.Context, r *classify.Report, s streams) error {
	listener, err := net.Listen("tcp", d.listen)
	if err != nil {
		return fmt.Errorf("serving the status page: %w", err)
	}
	web := webFlags{}
	taken := r.Snapshot.Taken
	pages := page.NewHandler(func() *classify.Report { return r }, func() time.Time { return taken }, pageOptions())
	server := newServer(web.ownHosts(pages))
	fmt.Fprintf(s.out, "\nStatus page: http://%s/   (Ctrl-C ends)\n", listener.Addr())
	err = serveUntil(ctx, server, 0, func() error { return server.Serve(listener) })
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the status page: %w", err)
	}
	return nil
}
