package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster"
)

// operator are the flags of the command run.
type operator struct {
	access    *access
	input     *input
	listen    []string
	webConfig string
	level     *promslog.Level
	format    *promslog.Format
	settle    time.Duration
}

func runCommand(flags *pflag.FlagSet) action {
	o := &operator{access: accessFlags(flags), input: &input{}, level: promslog.NewLevel(), format: promslog.NewFormat()}
	flags.StringVar(&o.input.config, "config", "", "file of the Policy: classes, thresholds, budgets, platform namespaces, acknowledgements")
	flags.StringSliceVar(&o.listen, "web.listen-address", []string{":8443"}, "addresses to serve /metrics, /healthz and /readyz on")
	flags.StringVar(&o.webConfig, "web.config.file", "", "file that enables TLS or authentication, see https://github.com/prometheus/exporter-toolkit")
	flags.Var(value{o.level}, "log.level", "debug, info, warn or error")
	flags.Var(value{o.format}, "log.format", "logfmt or json")
	flags.DurationVar(&o.settle, "settle", 100*time.Millisecond, "the least time between two evaluations while changes keep coming")
	return o.run
}

// value makes a flag of the standard library one of pflag.
type value struct{ flag.Value }

// Type is what the usage shows.
func (value) Type() string { return "string" }

func (o *operator) run(ctx context.Context, args []string, s streams) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("run: unexpected argument %q", args[0])}
	}
	log := promslog.New(&promslog.Config{Level: o.level, Format: o.format, Writer: s.err})
	config, err := o.access.config()
	if err != nil {
		return err
	}
	routing, err := parseRouting(o.access.routing)
	if err != nil {
		return err
	}
	policy, err := o.input.policy()
	if err != nil {
		return err
	}
	clients, err := cluster.NewClients(config)
	if err != nil {
		return err
	}
	log.Info("starting", "version", version.Info(), "cluster", config.Host)
	b := board{policy: policy, log: log, evaluation: exporter.NewEvaluationDuration()}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return cluster.Watch(ctx, clients, cluster.Options{Settle: o.settle, Routing: routing, Waiting: b.waiting}, b.publish)
	})
	group.Go(func() error { return o.serve(ctx, &b) })
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	log.Info("stopped")
	return nil
}

// serve answers HTTP until the context ends.
func (o *operator) serve(ctx context.Context, b *board) error {
	server := &http.Server{Handler: exporter.NewHandler(b.current, b.evaluation), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	systemd := false
	err := web.ListenAndServe(server, &web.FlagConfig{
		WebListenAddresses: &o.listen,
		WebSystemdSocket:   &systemd,
		WebConfigFile:      &o.webConfig,
	}, b.log)
	if errors.Is(err, http.ErrServerClosed) {
		return ctx.Err()
	}
	return fmt.Errorf("serving on %v: %w", o.listen, err)
}

// board is where the current Report hangs for everybody to read.
type board struct {
	policy     classify.Policy
	evaluation prometheus.Histogram
	log        *slog.Logger
	report     atomic.Pointer[classify.Report]
	said       map[string]bool
}

func (b *board) current() *classify.Report { return b.report.Load() }

func (b *board) publish(s *inventory.Snapshot) {
	began := time.Now()
	report := b.policy.Evaluate(s)
	b.evaluation.Observe(time.Since(began).Seconds())
	before := b.report.Swap(report)
	b.waiting(s.Errors)
	b.announce(before, report)
}

// announce logs what changed, one line per change of the totals: the findings
// themselves are on record in the metrics and are never logged as errors.
func (b *board) announce(before, now *classify.Report) {
	if before != nil && before.Totals() == now.Totals() && len(before.Profiles) == len(now.Profiles) {
		return
	}
	t := now.Totals()
	b.log.Info("evaluated", "webhooks", len(now.Profiles), "critical", t.Critical, "warning", t.Warning, "info", t.Info, "acknowledged", t.Acknowledged)
}

// waiting logs what cannot be looked at, each once, and once when it can again.
func (b *board) waiting(errs []inventory.Error) {
	now := map[string]bool{}
	for _, e := range errs {
		now[e.Error()] = true
		if !b.said[e.Error()] {
			b.log.Warn("could not look", "err", e)
		}
	}
	for message := range b.said {
		if !now[message] {
			b.log.Info("can look again", "was", message)
		}
	}
	b.said = now
}
