package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// explainEach answers "explain --requests": what it asks is read once, however
// many requests there are. Each is answered as it comes, and one that cannot be
// understood spoils no other.
func (e *explain) explainEach(ctx context.Context, args []string, s streams) error {
	if len(args) > 0 || e.request.given() {
		return usageError{errors.New("explain: --requests: must be given without a request: OPERATION, RESOURCE and flags of a request belong in its lines")}
	}
	file, err := e.open(s)
	if err != nil {
		return err
	}
	defer file.Close()
	snapshot, err := e.snapshot(ctx, s)
	if err != nil {
		return err
	}
	matcher := admission.New(snapshot)
	known := e.knowledge(ctx, matcher, s)
	total, refused := 0, 0
	for line := range lines(ctx, file) {
		if line.err != nil {
			return fmt.Errorf("reading the requests: %s:%d: %w", e.requests, line.number, line.err)
		}
		words := strings.Fields(line.text)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		total++
		chain, err := explainLine(words, known)
		if err != nil {
			refused++
			complain(s.err, "%s:%d: %v", e.requests, line.number, err)
			continue
		}
		if e.output == "text" && total-refused > 1 {
			fmt.Fprintln(s.out)
		}
		if err := show(e.output, report.NewExplanation(report.Explained{Chain: chain, Line: line.number, Snapshot: snapshot}), s); err != nil {
			return err
		}
	}
	err = reportErrors(matcher, s)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case total == 0:
		return usageError{fmt.Errorf("explain: --requests %s: must have a line with a request, for example: create pods -n default", e.requests)}
	case refused > 0:
		return usageError{fmt.Errorf("explain: %d of %d requests not understood", refused, total)}
	}
	return err
}

// open opens the file of --requests.
func (e *explain) open(s streams) (io.ReadCloser, error) {
	if e.requests != "-" {
		info, err := os.Stat(e.requests)
		if err == nil && info.IsDir() {
			err = fmt.Errorf("%s is a directory: must be a file of requests", e.requests)
		}
		if err != nil {
			return nil, usageError{fmt.Errorf("reading the requests: %w", err)}
		}
		return os.Open(e.requests)
	}
	if slices.Contains(e.from, "-") {
		return nil, usageError{errors.New("explain: --requests and --from: must not both read standard input")}
	}
	return io.NopCloser(s.in), nil
}

// numbered is a line of a file, or why there is none.
type numbered struct {
	number int
	text   string
	err    error
}

// lines reads lines until there are no more or the context ends: a user may type
// them, and interrupt.
func lines(ctx context.Context, from io.Reader) iter.Seq[numbered] {
	read := make(chan numbered)
	go func() {
		defer close(read)
		scanner := bufio.NewScanner(from)
		scanner.Buffer(nil, maxObject)
		next := numbered{number: 1}
		for ; scanner.Scan(); next.number++ {
			next.text = strings.TrimPrefix(scanner.Text(), "\ufeff")
			if !send(ctx, read, next) {
				return
			}
		}
		if next.err = scanner.Err(); next.err != nil {
			send(ctx, read, next)
		}
	}()
	return func(yield func(numbered) bool) {
		for {
			select {
			case line, more := <-read:
				if !more || !yield(line) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

func send(ctx context.Context, to chan<- numbered, line numbered) bool {
	select {
	case to <- line:
		return true
	case <-ctx.Done():
		return false
	}
}

// explainLine answers a request that is written as on the command line.
func explainLine(words []string, known knowledge) (admission.Chain, error) {
	flags := pflag.NewFlagSet("explain", pflag.ContinueOnError)
	flags.Usage = func() {} // that of the command would not help
	request := registerRequest(flags)
	if err := flags.Parse(words); err != nil {
		return admission.Chain{}, fmt.Errorf("%w; a line takes -n, -l, -f and --api-version, the command line all else", err)
	}
	switch {
	case request.file == "" && flags.NArg() < 2:
		return admission.Chain{}, errors.New("must be OPERATION RESOURCE[/SUB] [NAME], for example: create pods -n default; or -f FILE")
	case request.file == "-":
		return admission.Chain{}, errors.New("-f: must be a file: standard input has the requests")
	}
	arguments, err := request.read(flags.Args(), streams{})
	if err != nil {
		return admission.Chain{}, err
	}
	return arguments.chain(known)
}
