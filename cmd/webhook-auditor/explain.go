package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// explain are the flags of the command explain.
type explain struct {
	access  *clusterFlags
	input   *input
	from    []string
	request *requestFlags
	// requests holds many requests, pasted the error to explain.
	requests, pasted string
	many, blamed     func() bool
	output           string
}

func explainCommand(flags *pflag.FlagSet) action {
	e := &explain{input: &input{}}
	e.request = registerRequest(flags)
	flags.StringVar(&e.requests, "requests", "", "in place of one request: file of many (-: the standard input), a line each, as on the command line: create pods web -n shop -l app=web")
	flags.StringVar(&e.pasted, "error", "", "in place of a request: what kubectl, an Event or a log printed about a webhook (-: the standard input)")
	flags.StringArrayVar(&e.from, "from", nil, "file or directory to read instead of a cluster; may be repeated")
	flags.StringVarP(&e.output, "output", "o", "text", "form of the answer: text or json")
	flags.StringVar(&e.input.server, "server-version", "", "version of the API server to judge for, as v1.36: that which files are meant for, or the next one of a cluster (default: what the input says, else the newest known)")
	e.access = registerCluster(flags)
	e.many = func() bool { return flags.Changed("requests") }
	e.blamed = func() bool { return flags.Changed("error") }
	return e.run
}

func (e *explain) run(ctx context.Context, args []string, s streams) error {
	switch {
	case e.blamed():
		return e.diagnose(ctx, args, s)
	case e.many():
		return e.explainEach(ctx, args, s)
	}
	write, err := e.writer()
	if err != nil {
		return err
	}
	asked, err := e.request.read(args, s)
	if err != nil {
		return err
	}
	snapshot, err := e.snapshot(ctx, s)
	if err != nil {
		return err
	}
	chain, err := asked.chain(snapshot)
	if err != nil {
		return err
	}
	if err := write(s.out, chain, 0); err != nil {
		return err
	}
	return told(snapshot, s)
}

// writer returns what writes the answer to a line of --requests, or to line 0,
// the command line.
func (e *explain) writer() (func(io.Writer, inventory.Chain, int) error, error) {
	switch e.output {
	case "text":
		return func(w io.Writer, c inventory.Chain, _ int) error {
			return report.WriteExplainText(w, c, textOptions(w))
		}, nil
	case "json":
		return report.WriteExplainJSON, nil
	}
	return nil, usageError{fmt.Errorf("explain: --output %q: want text or json", e.output)}
}

func (e *explain) snapshot(ctx context.Context, s streams) (*inventory.Snapshot, error) {
	if len(e.from) > 0 {
		return e.input.read(e.from, s)
	}
	return e.access.read(ctx, e.input, s)
}
