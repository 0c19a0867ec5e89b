// Command bench fills a real control plane with webhooks and measures what
// webhook-auditor costs there, beside a bare LIST of the same objects,
// kube-state-metrics and plain informers, and for files beside kube-score:
//
//	go run ./bench --profile huge --binary ../bin/webhook-auditor --peers bin
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
	peers    string
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
	flag.StringVar(&o.profile, "profile", "small", "size of the cluster: "+strings.Join(profileNames(), ", ")+"; or "+files)
	flag.Func("binary", "webhook-auditor to measure; may be repeated", func(path string) error {
		o.binaries = append(o.binaries, path)
		return nil
	})
	flag.StringVar(&o.servers, "servers", "bin", "folder with etcd and kube-apiserver")
	flag.StringVar(&o.peers, "peers", "", "folder with kube-state-metrics, kube-score and informers to compare with")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each binary is measured; the table has the medians")
	flag.IntVar(&o.changes, "changes", 40, "how many changes of each kind are measured per round; 0 for none")
	flag.DurationVar(&o.settle, "settle", 30*time.Second, "time without changes before the memory is read")
	flag.Parse()
	o.changes += o.changes % 2 // every second one undoes the one before
	return o
}

func run(ctx context.Context, o options) error {
	size, isLive := profiles[o.profile]
	switch {
	case !isLive && o.profile != files:
		return fmt.Errorf("--profile: must be one of %s, %s", strings.Join(profileNames(), ", "), files)
	case len(o.binaries) == 0:
		return errors.New("--binary: must name at least one build of webhook-auditor")
	case o.profile == files:
		return printFiles(ctx, o)
	}
	return measureLive(ctx, o, size)
}

// files is a profile without a control plane.
const files = "files"

func printFiles(ctx context.Context, o options) error {
	t, err := measureFiles(ctx, o)
	if err != nil {
		return err
	}
	fmt.Println(t.shapes.inputs(cpu))
	fmt.Println(t.growth.inputs(cpu))
	return errors.Join(t.shapes.exceeded(shapeLimits()), t.growth.exceeded(growthLimits()))
}

func measureLive(ctx context.Context, o options, size profile) (err error) {
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
	fmt.Printf("Profile %s, filled in %.0f s: %+v\n\n", o.profile, time.Since(began).Seconds(), size)
	table, err := compare(ctx, o, loaded)
	fmt.Println(table.programs())
	if err != nil || o.peers == "" {
		return err
	}
	return table.exceeded(size.limits())
}

// compare measures each program in turn, and a bare LIST, round after round, so
// that all of them meet the same load of the machine.
func compare(ctx context.Context, o options, c *filled) (*table, error) {
	table := newTable()
	for range o.rounds {
		for _, p := range c.programs(o) {
			if err := c.measure(ctx, o, p, table.column(p.name)); err != nil {
				return table, fmt.Errorf("measuring %s: %w", p.name, err)
			}
		}
		if err := c.measureList(ctx, table.column("bare LIST")); err != nil {
			return table, err
		}
	}
	return table, nil
}
