// Command bench fills a real control plane with webhooks and measures what one
// or several builds of webhook-auditor cost there, beside a bare LIST of the
// same objects:
//
//	go run ./bench --profile huge --binary ../bin/webhook-auditor
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
)

type options struct {
	profile  string
	binaries []string
	servers  string
	rounds   int
	changes  int
	settle   time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, parse()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse() options {
	var o options
	flag.StringVar(&o.profile, "profile", "small", "size of the cluster: "+strings.Join(profileNames(), ", "))
	flag.Func("binary", "webhook-auditor to measure; may be repeated", func(path string) error {
		o.binaries = append(o.binaries, path)
		return nil
	})
	flag.StringVar(&o.servers, "servers", "bin", "folder with etcd and kube-apiserver")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each binary is measured; the table has the medians")
	flag.IntVar(&o.changes, "changes", 40, "how many changes of each kind are measured per round; 0 for none")
	flag.DurationVar(&o.settle, "settle", 30*time.Second, "time without changes before the memory is read")
	flag.Parse()
	return o
}

func run(ctx context.Context, o options) (err error) {
	size, ok := profiles[o.profile]
	if !ok {
		return fmt.Errorf("--profile: must be one of %s", strings.Join(profileNames(), ", "))
	}
	if len(o.binaries) == 0 {
		return errors.New("--binary: must name at least one build of webhook-auditor")
	}
	plane, err := cluster.Start(ctx, cluster.Options{
		Binaries:           o.servers,
		APIServerFlags:     []string{"--service-cluster-ip-range=127.10.0.0/16"},
		WithoutControllers: true,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	began := time.Now()
	loaded, err := fill(ctx, plane, size)
	if err != nil {
		return err
	}
	fmt.Printf("profile %s, filled in %.0f s: %+v\n", o.profile, time.Since(began).Seconds(), size)
	return compare(ctx, o, loaded)
}

// compare measures the bare LIST and each binary in turn, round after round, so
// that all of them meet the same load of the machine. It prints what there is
// after each of them, should a later one fail.
func compare(ctx context.Context, o options, c *filled) error {
	table := newTable()
	for range o.rounds {
		if err := c.measureList(ctx, table.column("bare LIST")); err != nil {
			return err
		}
		for _, binary := range o.binaries {
			err := c.measureAuditor(ctx, o, binary, table.column(binary))
			table.print(os.Stdout)
			if err != nil {
				return fmt.Errorf("measuring %s: %w", binary, err)
			}
		}
	}
	return nil
}
