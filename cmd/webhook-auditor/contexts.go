package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

const (
	// contextLimit is how long a cluster may take of several, with its credential
	// plugin: one of 10,000 objects takes some seconds. A user who has to log in to
	// one by a browser does so before.
	contextLimit = time.Minute
	// contextsAtOnce bounds the clusters that are read at once: each takes the memory
	// of its objects, and runs its credential plugin.
	contextsAtOnce = 8
)

// contextNames is the flag --context. Commands that read one cluster take the last,
// as kubectl does.
type contextNames struct{ *clusterFlags }

// String returns the default: that of the kubeconfig.
func (contextNames) String() string { return "" }

// Set adds a context, or several where the command takes them.
func (c contextNames) Set(value string) error {
	names := []string{value}
	if c.severalContexts {
		names = strings.Split(value, ",")
	}
	if len(names) > 1 && slices.Contains(names, "") {
		return errors.New("must be names, with a comma between two")
	}
	for _, name := range names {
		if !slices.Contains(c.contextNames, name) {
			c.contextNames = append(c.contextNames, name)
		}
	}
	c.overrides.CurrentContext = names[len(names)-1]
	return nil
}

// Type is the type as help prints it.
func (contextNames) Type() string { return "string" }

// takeSeveral has --context take several, and adds --all-contexts.
func (a *clusterFlags) takeSeveral(flags *pflag.FlagSet) {
	a.severalContexts = true
	flags.Lookup("context").Usage = "kubeconfig context to use; several, with commas or given several times, make one report of all"
	flags.BoolVar(&a.allContexts, "all-contexts", false, "make one report of all contexts of the kubeconfig; of those with the same cluster and user, of the first")
}

// isSeveral reports whether the output is that of several clusters.
func (a *clusterFlags) isSeveral() bool { return a.allContexts || len(a.contextNames) > 1 }

// several are the contexts to read.
func (a *clusterFlags) several() ([]string, error) {
	if !a.allContexts {
		return a.contextNames, nil
	}
	raw, err := a.loader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	if len(raw.Contexts) == 0 {
		return nil, usageError{errors.New("--all-contexts: the kubeconfig has no context; name another one with --kubeconfig")}
	}
	return distinctContexts(raw.Contexts), nil
}

// distinctContexts are the names, sorted, without those of a cluster and user that
// another one has: oc adds a context for each project.
func distinctContexts(contexts map[string]*api.Context) []string {
	type login struct{ cluster, user string }
	seen := map[login]bool{}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(contexts)) {
		of := login{contexts[name].Cluster, contexts[name].AuthInfo}
		if !seen[of] {
			out = append(out, name)
		}
		seen[of] = true
	}
	return out
}

// in returns the flags for one of the contexts.
func (a *clusterFlags) in(name string) *clusterFlags {
	one := *a
	one.overrides.CurrentContext, one.contextNames, one.allContexts = name, []string{name}, false
	return &one
}

// notices is stderr for several clusters at once. It is no terminal: their lines of
// progress would be drawn over each other.
type notices struct {
	io.Writer
	mu *sync.Mutex
}

// Write writes a line.
func (n notices) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.Writer.Write(p)
}

// contextRead is how each of several clusters is read.
type contextRead[T any] struct {
	names []string
	limit time.Duration
	read  func(ctx context.Context, name string, s streams) (T, error)
}

// all reads some clusters at once and returns what each gave, in the order of the
// names. One that hangs is given up after the limit.
func (r contextRead[T]) all(ctx context.Context, s streams) []outcomeOf[T] {
	out := make([]outcomeOf[T], len(r.names))
	quiet := streams{in: s.in, out: io.Discard, err: notices{s.err, &sync.Mutex{}}}
	line := newProgress(s.err)
	defer line.clear()
	var done atomic.Int32
	var group errgroup.Group
	group.SetLimit(contextsAtOnce)
	for i, name := range r.names {
		group.Go(func() error {
			out[i].value, out[i].err = r.one(ctx, name, quiet)
			line.show("%d of %d contexts read", done.Add(1), len(r.names))
			return nil // the others are read all the same
		})
	}
	_ = group.Wait()
	return out
}

func (r contextRead[T]) one(ctx context.Context, name string, s streams) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, r.limit+time.Second) // the error is await's
	defer cancel()
	w := waiting{what: "reading the cluster", cure: fmt.Sprintf("see what it waits for with --context %s alone", name), limit: r.limit, notices: io.Discard}
	return await(ctx, w, func() (T, error) { return r.read(ctx, name, s) })
}

// contextFormats are the formats of a report of several clusters.
var contextFormats = []string{"text", "table", "json"}

// checkContexts refuses what is about one cluster where several are to be read.
func (a *audit) checkContexts(paths []string) error {
	switch {
	case !a.access.isSeveral():
		return nil
	case len(paths) > 0:
		return usageError{errors.New("--context: must be given without PATH: files are of no cluster")}
	case a.watch || a.baseline != "" || a.observe.given():
		return usageError{errors.New("--context: must be given once with --watch, --baseline, --observe, --prometheus-url or --audit-log")}
	case !slices.Contains(contextFormats, a.output):
		return usageError{fmt.Errorf("--context: must be given once with -o %s: several are for %v", a.output, contextFormats)}
	}
	return nil
}

// contextsReport reports on several clusters.
type contextsReport struct {
	*audit
	policy   classify.Policy
	selected selection
	limit    classify.Severity
}

// read reports on each of the contexts. One that cannot be read is an error of its
// Document.
func (a *contextsReport) read(ctx context.Context, s streams) ([]report.Document, error) {
	names, err := a.access.several()
	if err != nil {
		return nil, err
	}
	reads := contextRead[report.Document]{names, contextLimit, func(ctx context.Context, name string, s streams) (report.Document, error) {
		one := *a.audit
		one.access = a.access.in(name)
		evaluated, err := one.evaluate(ctx, a.policy, s)
		if err != nil {
			return report.Document{}, err
		}
		return report.NewDocument(evaluated), nil
	}}
	var out []report.Document
	for i, outcome := range reads.all(ctx, s) {
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case outcome.err != nil:
			outcome.value.Errors = []report.Error{{Message: outcome.err.Error()}}
		}
		out = append(out, outcome.value.InContext(names[i]))
	}
	if err := a.selected.check(report.Merge(out), s.err); err != nil {
		return nil, err
	}
	for i := range out {
		out[i] = a.selected.of(out[i])
	}
	return out, nil
}

// run prints one report of all; as text, one below the other, and the table by
// cluster at the end.
func (a *contextsReport) run(ctx context.Context, s streams) error {
	documents, err := a.read(ctx, s)
	if err != nil {
		return err
	}
	merged := report.Merge(documents)
	if a.output == "text" {
		err = a.printTexts(documents, s)
	} else {
		err = a.write(merged, a.limit, s)
	}
	if err == nil && a.output != "json" {
		fmt.Fprintln(s.out)
		err = report.Blocks{{Table: merged.ByContext()}}.WriteText(s.out, textOptions(s.out))
	}
	if err = errors.Join(err, writeErrors(merged.Errors, s)); err != nil {
		return err
	}
	return exitStatus(merged, a.limit)
}

// printTexts prints each cluster that could be read.
func (a *contextsReport) printTexts(documents []report.Document, s streams) error {
	for i, d := range documents {
		if i > 0 {
			fmt.Fprintln(s.out)
		}
		fmt.Fprintf(s.out, "Context %s:\n\n", d.Contexts[0].Context)
		if d.Contexts[0].Totals == nil {
			fmt.Fprintln(s.out, "Could not be read: what it holds is unknown.")
			continue
		}
		if err := a.write(d, a.limit, s); err != nil {
			return err
		}
	}
	return nil
}
