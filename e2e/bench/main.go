// Command bench fills a real control plane with webhooks and measures what
// webhook-auditor costs there, beside kube-state-metrics:
//
//	go run ./bench --profile medium --binary ../bin/webhook-auditor --peers bin
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
	profile, binary, servers, peers string
	rounds, changes                 int
	settle                          time.Duration
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
	flag.StringVar(&o.binary, "binary", "../bin/webhook-auditor", "webhook-auditor to measure")
	flag.StringVar(&o.servers, "servers", "bin", "folder with etcd and kube-apiserver")
	flag.StringVar(&o.peers, "peers", "bin", "folder with kube-state-metrics")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each program is measured; the table has the medians")
	flag.IntVar(&o.changes, "changes", 40, "how many changes of each kind are measured per round; 0 for none")
	flag.DurationVar(&o.settle, "settle", 30*time.Second, "time without changes before the memory is read")
	flag.Parse()
	o.changes += o.changes % 2 // every second one undoes the one before
	return o
}

func run(ctx context.Context, o options) (err error) {
	size, ok := profiles[o.profile]
	if !ok {
		return fmt.Errorf("--profile: must be one of %s", strings.Join(profileNames(), ", "))
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
	fmt.Printf("Profile %s, filled in %.0f s: %+v\n\n", o.profile, time.Since(began).Seconds(), size)
	table, err := compare(ctx, o, loaded)
	fmt.Println(table.programs())
	if err != nil {
		return err
	}
	return table.exceeded(limits)
}

// compare measures each program in turn, round after round, so that both meet the same
// load of the machine.
func compare(ctx context.Context, o options, c *filled) (*table, error) {
	table := &table{}
	for range o.rounds {
		for _, p := range []program{c.auditor(o.binary), c.kubeStateMetrics(o.peers)} {
			if err := c.measure(ctx, o, p, table.column(p.name)); err != nil {
				return table, fmt.Errorf("measuring %s: %w", p.name, err)
			}
		}
	}
	return table, nil
}
