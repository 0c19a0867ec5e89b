package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// explainEach answers "explain --requests": what it asks is read once, however
// many requests there are. Each is answered as it comes, and one that cannot be
// understood spoils no other.
func (e *explain) explainEach(ctx context.Context, args []string, s streams) error {
	if len(args) > 0 || e.request.given() {
		return usageError{errors.New("explain: --requests names the requests: want neither OPERATION and RESOURCE nor what else describes a request with it, but in its lines")}
	}
	write, err := e.writer()
	if err != nil {
		return err
	}
	lines, err := e.open(s)
	if err != nil {
		return err
	}
	defer lines.Close()
	snapshot, err := e.snapshot(ctx, s)
	if err != nil {
		return err
	}
	total, refused := 0, 0
	scanner := bufio.NewScanner(lines)
	for place := 1; scanner.Scan(); place++ {
		words := strings.Fields(scanner.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		total++
		chain, err := explainLine(words, snapshot)
		if err != nil {
			refused++
			fmt.Fprintf(s.err, "webhook-auditor: %s:%d: %v\n", e.requests, place, err)
			continue
		}
		if e.output == "text" && total-refused > 1 {
			fmt.Fprintln(s.out)
		}
		if err := write(s.out, chain); err != nil {
			return err
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("reading the requests %s: %w", e.requests, err)
	}
	err = told(snapshot, s)
	if refused > 0 {
		return usageError{fmt.Errorf("explain: %d of %d requests not understood", refused, total)}
	}
	return err
}

// open opens the file of --requests.
func (e *explain) open(s streams) (io.ReadCloser, error) {
	if e.requests != "-" {
		f, err := os.Open(e.requests)
		if err != nil {
			return nil, usageError{fmt.Errorf("reading the requests: %w", err)}
		}
		return f, nil
	}
	if slices.Contains(e.from, "-") {
		return nil, usageError{errors.New("explain: the standard input holds either --requests or what is read --from, not both")}
	}
	return io.NopCloser(s.in), nil
}

// explainLine answers a request that is written as on the command line.
func explainLine(words []string, snapshot *inventory.Snapshot) (inventory.Chain, error) {
	flags := pflag.NewFlagSet("explain", pflag.ContinueOnError)
	flags.Usage = func() {} // that of the command would not help
	request := registerRequest(flags)
	if err := flags.Parse(words); err != nil {
		return inventory.Chain{}, fmt.Errorf("explain: %w", err)
	}
	if request.file == "-" {
		return inventory.Chain{}, errors.New("explain: the object of a line cannot come from the standard input: want a file")
	}
	asked, err := request.read(flags.Args(), streams{})
	if err != nil {
		return inventory.Chain{}, err
	}
	return asked.chain(snapshot)
}
