package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// explain are the flags of the command explain.
type explain struct {
	access  *clusterFlags
	input   *input
	from    []string
	subject inventory.Subject
	labels  string
	labeled func() bool
	// file holds the object of the request, pasted the error to explain.
	file, pasted string
	blamed       func() bool
	output       string
}

func explainCommand(flags *pflag.FlagSet) action {
	e := &explain{input: &input{}}
	flags.StringVarP(&e.subject.Namespace, "namespace", "n", "", "namespace of the object (default: default)")
	flags.StringVarP(&e.labels, "labels", "l", "", "labels of the object, as k=v,…; '' says that it has none, without the flag they are not known")
	flags.StringVar(&e.subject.Version, "api-version", "", "version of the API in which the request is made, as v1 or apps/v1 (default: the preferred one)")
	flags.StringVarP(&e.file, "filename", "f", "", "file that holds the object (-: the standard input); OPERATION is create and RESOURCE its kind unless they are given")
	flags.StringVar(&e.pasted, "error", "", "in place of a request: what kubectl, an Event or a log printed about a webhook (-: the standard input)")
	flags.StringArrayVar(&e.from, "from", nil, "file or directory to read instead of a cluster; may be repeated")
	flags.StringVarP(&e.output, "output", "o", "text", "form of the answer: text or json")
	flags.StringVar(&e.input.server, "server-version", "", "version of the API server to judge for, as v1.36: that which files are meant for, or the next one of a cluster (default: what the input says, else the newest known)")
	e.access = registerCluster(flags)
	e.labeled = func() bool { return flags.Changed("labels") }
	e.blamed = func() bool { return flags.Changed("error") }
	return e.run
}

func (e *explain) run(ctx context.Context, args []string, s streams) error {
	if e.blamed() {
		return e.diagnose(ctx, args, s)
	}
	write, err := e.writer()
	if err != nil {
		return err
	}
	operation, resource, err := e.request(args, s)
	if err != nil {
		return err
	}
	snapshot, err := e.snapshot(ctx, s)
	if err != nil {
		return err
	}
	request, err := snapshot.Request(operation, resource, e.subject)
	if err != nil {
		return usageError{fmt.Errorf("explain: %w", err)}
	}
	if e.file != "" {
		request.Notes = append(request.Notes, asWritten)
	}
	request.Notes = append(request.Notes, exporter.InputNotes(snapshot)...)
	if err := write(s.out, snapshot.Chain(request)); err != nil {
		return err
	}
	return told(snapshot, s)
}

// describe takes what is known of the object from the command line.
func (e *explain) describe(name []string) error {
	if len(name) > 0 {
		e.subject.Name = name[0]
	}
	if !e.labeled() {
		return nil
	}
	set, err := labels.ConvertSelectorToLabelsMap(e.labels)
	if err != nil {
		return usageError{fmt.Errorf("--labels %q: %w", e.labels, err)}
	}
	e.subject.Labels = set
	return nil
}

func (e *explain) writer() (func(io.Writer, inventory.Chain) error, error) {
	switch e.output {
	case "text":
		return func(w io.Writer, c inventory.Chain) error { return exporter.WriteExplainText(w, c, textOptions(w)) }, nil
	case "json":
		return exporter.WriteExplainJSON, nil
	}
	return nil, usageError{fmt.Errorf("explain: --output %q: want text or json", e.output)}
}

func (e *explain) snapshot(ctx context.Context, s streams) (*inventory.Snapshot, error) {
	if len(e.from) > 0 {
		return e.input.read(e.from, s)
	}
	return e.access.read(ctx, e.input, s)
}
