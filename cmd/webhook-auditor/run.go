package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/common/version"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/operator"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster"
)

// operatorFlags are the flags of the command run.
type operatorFlags struct {
	access    *clusterFlags
	input     *input
	web       webFlags
	probe     probeFlags
	level     *promslog.Level
	format    *promslog.Format
	settle    time.Duration
	degraded  string
	inertia   time.Duration
	elect     bool
	namespace string
}

func runCommand(flags *pflag.FlagSet) action {
	o := &operatorFlags{access: registerCluster(flags), input: &input{}, level: promslog.NewLevel(), format: promslog.NewFormat()}
	flags.StringVar(&o.input.config, "config", "", "file of the Policy: classes, thresholds, budgets, platform namespaces, acknowledgements; read again when it changes")
	o.web.register(flags)
	o.probe.register(flags)
	flags.Var(value{o.level}, "log.level", "debug, info, warn or error")
	flags.Var(value{o.format}, "log.format", "logfmt or json")
	flags.DurationVar(&o.settle, "settle", 100*time.Millisecond, "the least time between two evaluations while changes keep coming")
	flags.StringVar(&o.degraded, "degraded", string(operator.RollUpOn), "what errors are rolled up to: on (Degraded), evaluate (EvaluationConditionsDetected) or off")
	flags.DurationVar(&o.inertia, "degraded.inertia", 2*time.Minute, "how long an error lasts before it is rolled up")
	flags.BoolVar(&o.elect, "leader-elect", false, "write conditions and Events to the cluster, one replica at a time")
	flags.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of the lease (default: $POD_NAMESPACE)")
	return o.run
}

// value makes a flag of the standard library one of pflag.
type value struct{ flag.Value }

// Type is what the usage shows.
func (value) Type() string { return "string" }

// check refuses what makes no sense before anything is started.
func (o *operatorFlags) check(args []string) error {
	switch {
	case len(args) > 0:
		return usageError{fmt.Errorf("run: unexpected argument %q", args[0])}
	case !slices.Contains([]string{"on", "evaluate", "off"}, o.degraded):
		return usageError{fmt.Errorf("--degraded %q: want on, evaluate or off", o.degraded)}
	case o.settle < 0:
		return usageError{fmt.Errorf("--settle %s: must be 0 or longer, as in 100ms", o.settle)}
	case o.inertia < 0:
		return usageError{fmt.Errorf("--degraded.inertia %s: must be 0 or longer, as in 2m", o.inertia)}
	case o.elect && o.namespace == "":
		return usageError{errors.New("--leader-elect: want --namespace, or $POD_NAMESPACE")}
	}
	return cmp.Or(o.probe.check(), o.web.check())
}

func (o *operatorFlags) run(ctx context.Context, args []string, s streams) error {
	if err := o.check(args); err != nil {
		return err
	}
	routing, err := parseRouting(o.access.routing)
	if err != nil {
		return err
	}
	text, err := o.input.policyText(ctx, s.err)
	if err != nil {
		return err
	}
	policy, err := o.input.parsePolicy(text)
	if err != nil {
		return err
	}
	config, err := o.access.config()
	if err != nil {
		return err
	}
	if err := awaitCredentials(ctx, config, s.err); err != nil {
		return err
	}
	clients, err := cluster.NewClients(config)
	if err != nil {
		return err
	}
	log := promslog.New(&promslog.Config{Level: o.level, Format: o.format, Writer: s.err})
	o.web.names = o.names()
	log.Info("starting", "version", version.Info(), "cluster", config.Host)
	b := newBoard(policy, operator.NewTracker(o.conditions()), log)
	klog.SetSlogLogger(slog.New(newLibraryLog(log.Handler(), "klog", b.messages)))
	group, ctx := errgroup.WithContext(ctx)
	if o.elect {
		if b.writer, err = o.writer(config, b); err != nil {
			return err
		}
		b.writer.Seed(ctx)
		group.Go(func() error { b.writer.Run(ctx); return ctx.Err() })
	}
	publish := o.probe.join(ctx, group, saveMemory(func(s *inventory.Snapshot) { b.publish(ctx, s) }))
	group.Go(func() error {
		return cluster.Watch(ctx, clients, cluster.Options{Debounce: o.settle, Routing: routing, OnStartupErrors: b.waiting}, publish)
	})
	if o.input.rereadable() {
		changed := func(policy classify.Policy, err error) { b.policyChanged(ctx, policy, err) }
		group.Go(func() error { return o.input.followPolicy(ctx, text, time.Tick(policyInterval), changed) })
	}
	group.Go(func() error { return o.web.serve(ctx, config, b) })
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	log.Info("stopped")
	return nil
}

// names are those under which this replica is reached: from beside it, and by
// the Service that the manifests make.
func (o *operatorFlags) names() []string {
	out := []string{"localhost", "127.0.0.1", "::1"}
	if host, err := os.Hostname(); err == nil {
		out = append(out, host)
	}
	if o.namespace != "" {
		out = append(out, "webhook-auditor."+o.namespace+".svc")
	}
	return out
}

func (o *operatorFlags) conditions() operator.TrackerOptions {
	return operator.TrackerOptions{RollUp: operator.RollUp(o.degraded), Inertia: o.inertia, Version: version.Version}
}

// writer writes what the board shows to the cluster.
func (o *operatorFlags) writer(config *rest.Config, b *board) (*operator.Writer, error) {
	identity, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("naming this replica: %w", err)
	}
	return operator.NewWriter(config, operator.Options{
		Identity:  fmt.Sprintf("%s_%d", identity, os.Getpid()),
		Namespace: o.namespace,
		Version:   version.Version,
		Tracker:   b.tracker,
		Outcome:   b.wrote,
	})
}
