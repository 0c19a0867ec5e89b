package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/operator"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster"
)

type operatorFlags struct {
	source
	web       webFlags
	level     string
	format    string
	settle    time.Duration
	degraded  string
	inertia   time.Duration
	elect     bool
	namespace string
}

func runCommand(s streams) *cobra.Command {
	o := &operatorFlags{source: source{input: &input{}}}
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the operator: watch a cluster, serve the status page and /metrics, write conditions",
		Example: `  # Watch the cluster of the current kubeconfig context, serve on loopback only
  webhook-auditor run --web.listen-address=127.0.0.1:8443

  # Serve what a must-gather, an archive or files say, on http://127.0.0.1:8443
  webhook-auditor run --from must-gather.tar.gz

  # In a cluster, with two replicas
  webhook-auditor run --leader-elect --namespace=webhook-auditor --web.self-signed`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(o.paths) > 0 && !c.Flags().Changed("web.listen-address") {
			o.web.listen = []string{filesAddress}
		}
		if err := o.unused(c.Flags().Changed); err != nil {
			return err
		}
		return untilStopped(s, o.run)(c, args)
	}
	var groups cliflag.NamedFlagSets
	flags := groups.FlagSet("operator")
	flags.StringSliceVar(&o.paths, "from", nil, "files to read instead of a cluster, as audit PATH; read anew when they change")
	flags.StringVar(&o.input.server, "server-version", "", serverVersionUsage+"; with --from")
	flags.StringVar(&o.input.config, "config", "", configUsage+"; reloaded when it changes")
	o.input.checksFlag(flags)
	flags.DurationVar(&o.settle, "settle", 100*time.Millisecond, "minimum time between two evaluations")
	modes := []operator.RollUp{
		operator.RollUpOn, operator.RollUpEvaluate, operator.RollUpOff, operator.RollUpEnhancement,
	}
	enumFlag(flags, &o.degraded, "degraded", "", "how error conditions affect Degraded", lists.Strings(modes))
	flags.DurationVar(&o.inertia, "degraded.inertia", 2*time.Minute, "how long an error condition lasts before it affects Degraded")
	flags.BoolVar(&o.elect, "leader-elect", false, "write conditions and Events to the cluster, one replica at a time")
	flags.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of the lease (default: $POD_NAMESPACE)")
	o.access = registerCluster(groups.FlagSet("cluster"))
	o.web.register(groups.FlagSet("web"))
	o.probe.register(groups.FlagSet("probe"))
	o.observe.register(groups.FlagSet("observation"))
	flags = groups.FlagSet("log")
	enumFlag(flags, &o.level, "log.level", "", "only log messages of this level or above", []string{"info", "debug", "warn", "error"})
	enumFlag(flags, &o.format, "log.format", "", "format of log messages", promslog.FormatFlagOptions)
	addFlags(c, &groups)
	c.MarkFlagsRequiredTogether("web.tls-cert-file", "web.tls-private-key-file")
	return c
}

func (o *operatorFlags) check() error {
	switch {
	case o.settle < 0:
		return usageError{fmt.Errorf("--settle: must be 0 or longer, for example 100ms, not %s", o.settle)}
	case o.inertia < 0:
		return usageError{fmt.Errorf("--degraded.inertia: must be 0 or longer, for example 2m, not %s", o.inertia)}
	case o.elect && o.namespace == "":
		return usageError{errors.New("--leader-elect: must be given with --namespace or $POD_NAMESPACE")}
	}
	return cmp.Or(notStandardInput(o.paths), o.probe.check(o.paths), o.observe.check(o.paths), o.web.check())
}

// unused refuses flags that do nothing without another one, or beside it.
func (o *operatorFlags) unused(isGiven func(flag string) bool) error {
	files, tls := len(o.paths) > 0, o.web.ownTLS()
	for _, flag := range []struct {
		name, rule string
		works      bool
	}{
		{"server-version", "with --from: a cluster says its version", files},
		{"leader-elect", "without --from: conditions are written to a cluster", !files},
		{"settle", "without --from: files are read every few seconds", !files},
		{"namespace", "with --leader-elect: it is that of the lease", o.elect},
		{"web.tls-cert-file", "without --from: no API server reviews who may read", !files},
		{"web.self-signed", "without --from: no API server reviews who may read", !files},
		{"web.allow-anonymous", "with --web.tls-cert-file or --web.self-signed: plain HTTP asks for no credentials", tls},
		{"web.trusted-user", "with --web.tls-cert-file or --web.self-signed: plain HTTP asks for no certificate", tls},
		{"web.allow-http", "without --web.tls-cert-file and --web.self-signed", !tls},
		{"web.allowed-hosts", "without --web.tls-cert-file and --web.self-signed: it is for plain HTTP", !tls},
		{"web.observed-metrics", "with --observe=apiserver: it exports what is observed there", o.observe.source == "apiserver"},
	} {
		if isGiven(flag.name) && !flag.works {
			return usageError{fmt.Errorf("--%s: must be given %s", flag.name, flag.rule)}
		}
	}
	return nil
}

func (o *operatorFlags) run(ctx context.Context, _ []string, s streams) error {
	if err := o.check(); err != nil {
		return err
	}
	policyText, err := o.input.policyText()
	if err != nil {
		return err
	}
	policy, err := o.input.parsePolicy(policyText)
	if err != nil {
		return err
	}
	c, first, err := o.begin(ctx, s)
	if err != nil {
		return err
	}
	log, err := o.log(s)
	if err != nil {
		return err
	}
	log.Info("starting", "version", version.Version, "cluster", cmp.Or(c.config.Host, strings.Join(o.paths, ", ")))
	tracker := operator.NewTracker(operator.TrackerOptions{
		RollUp: operator.RollUp(o.degraded), Inertia: o.inertia, Version: version.Version,
	})
	d := newDaemon(policy, tracker, log)
	klog.SetSlogLogger(slog.New(newLibraryLog(log.Handler(), "klog", d.own.LibraryMessages)))
	group, ctx := errgroup.WithContext(ctx)
	if o.elect {
		if d.writer, err = o.writer(c.config, d); err != nil {
			return err
		}
		d.writer.Seed(ctx)
		group.Go(func() error { d.writer.Run(ctx); return ctx.Err() })
	}
	if len(o.paths) > 0 {
		d.clock = lastTaken
		group.Go(func() error { return o.followFiles(ctx, d, first, time.Tick(policyInterval)) })
	} else {
		publish := o.probe.join(ctx, group, o.probe.options(c.config), func(m *admission.Matcher) { d.publish(ctx, m) })
		group.Go(func() error {
			return cluster.Watch(ctx, c.clients,
				cluster.Options{Debounce: o.settle, Routing: c.routing, OnStartupErrors: d.unread}, publish)
		})
	}
	if o.input.config != "" {
		changed := func(policy classify.Policy, err error) { d.policyChanged(ctx, policy, err) }
		group.Go(func() error { return o.input.followPolicy(ctx, policyText, time.Tick(policyInterval), changed) })
	}
	if o.observe.enabled() {
		d.exportsObserved = o.web.observed
		group.Go(func() error { return o.followObservation(ctx, d) })
	}
	group.Go(func() error { return o.web.serve(ctx, c.config, d) })
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	log.Info("stopped")
	return nil
}

// begin prepares to reach the cluster, or reads the files a first time: what cannot be read
// at all ends the program.
func (o *operatorFlags) begin(ctx context.Context, s streams) (connection, reading, error) {
	if len(o.paths) == 0 {
		c, err := o.access.connect()
		return c, reading{}, err
	}
	first := o.readFiles(ctx, s)
	return connection{config: &rest.Config{}}, first, first.err
}

func (o *operatorFlags) log(s streams) (*slog.Logger, error) {
	level, format := promslog.NewLevel(), promslog.NewFormat()
	err := errors.Join(level.Set(o.level), format.Set(o.format))
	return promslog.New(&promslog.Config{Level: level, Format: format, Writer: s.err}), err
}

func (o *operatorFlags) writer(config *rest.Config, d *daemon) (*operator.Writer, error) {
	identity, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("naming this replica: %w", err)
	}
	return operator.NewWriter(config, operator.Options{
		Identity:  fmt.Sprintf("%s_%d", identity, os.Getpid()),
		Namespace: o.namespace,
		Version:   version.Version,
		Tracker:   d.tracker,
		History:   d.history,
		Outcome:   d.wrote,
	})
}
