package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/observed"
)

type observeFlags struct {
	source     string
	span       time.Duration
	prometheus observed.Prometheus
	audit      auditLogFlags
	paths      []string
}

// The defaults of --observe-for, and its bounds.
const (
	scrapeSpan     = 10 * time.Second
	prometheusSpan = 5 * time.Minute
	minScrapeSpan  = time.Second
	maxScrapeSpan  = 10 * time.Minute
	minPrometheus  = time.Minute
	maxPrometheus  = 30 * 24 * time.Hour
)

func (o *observeFlags) register(flags *pflag.FlagSet) {
	enumFlag(flags, &o.source, "observe", "", "add the API servers' measurements of webhooks, from two scrapes of their /metrics", []string{"off", "apiserver"})
	flags.DurationVar(&o.span, "observe-for", 0, "time between the two scrapes, or range to read from Prometheus (default 10s, or 5m for Prometheus)")
	flags.StringVar(&o.prometheus.URL, "prometheus-url", "", "URL of a Prometheus that scrapes the API servers: add their measurements of webhooks")
	flags.StringVar(&o.prometheus.TokenFile, "prometheus-token-file", "", "file with a bearer token for Prometheus (default: the service account's, in a Pod, for a Service by HTTPS)")
	flags.StringVar(&o.prometheus.CAFile, "prometheus-ca-file", "", "file with the CAs that sign the certificate of Prometheus (default: the system's, or the service CA of OpenShift)")
	flags.StringVar(&o.prometheus.Selector, "prometheus-selector", "", `label matchers that select one cluster of several in Prometheus, for example 'cluster="prod"'`)
}

func (o *observeFlags) enabled() bool { return o.source == "apiserver" || o.prometheus.URL != "" }

// check reads the flags. Files have no API server to scrape.
func (o *observeFlags) check(paths []string) error {
	o.paths = paths
	if err := exist(o.audit.paths); err != nil {
		return err
	}
	switch {
	case o.source == "apiserver" && len(paths) > 0:
		return usageError{errors.New("--observe=apiserver: must be given without files: they have no API server to scrape")}
	case o.prometheus.URL != "":
		return o.checkPrometheus()
	case o.prometheus.TokenFile+o.prometheus.CAFile+o.prometheus.Selector != "":
		return usageError{errors.New("--prometheus-token-file, --prometheus-ca-file and --prometheus-selector: must be given with --prometheus-url")}
	case o.source == "apiserver":
		return o.checkSpan(scrapeSpan, minScrapeSpan, maxScrapeSpan)
	case o.span != 0:
		return usageError{errors.New("--observe-for: must be given with --observe=apiserver or --prometheus-url")}
	}
	return nil
}

func (o *observeFlags) checkSpan(preset, least, most time.Duration) error {
	if o.span == 0 {
		o.span = preset
	}
	if o.span < least || o.span > most {
		return usageError{fmt.Errorf("--observe-for: must be from %s to %s, not %s", least, most, o.span)}
	}
	return nil
}

func (o *observeFlags) checkPrometheus() error {
	u, err := url.Parse(o.prometheus.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return usageError{errors.New("--prometheus-url: must be http://HOST[:PORT][/PATH] or https://…")}
	}
	if s := o.prometheus.Selector; s != "" {
		if _, err := parser.NewParser(parser.Options{}).ParseMetricSelector("{" + s + "}"); err != nil {
			return usageError{fmt.Errorf("--prometheus-selector: must be label matchers, as cluster=\"prod\": %w", err)}
		}
	}
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		o.serviceAccount(u, serviceAccountDir)
	}
	if o.prometheus.TokenFile != "" && u.Scheme != "https" && !loopback(net.JoinHostPort(u.Hostname(), "0")) {
		return usageError{errors.New("--prometheus-token-file: must be used with an https:// URL: a token must not be sent in the clear")}
	}
	err = o.checkSpan(prometheusSpan, minPrometheus, maxPrometheus)
	o.prometheus.Range = o.span
	return err
}

const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// serviceAccount has a Pod use its own credentials, in the folder, for Services of
// its cluster, as OpenShift's monitoring asks for.
func (o *observeFlags) serviceAccount(u *url.URL, dir string) {
	ofCluster := strings.HasSuffix(u.Hostname(), ".svc") || strings.HasSuffix(u.Hostname(), ".svc.cluster.local")
	if ofCluster && u.Scheme == "https" {
		o.prometheus.TokenFile = orFile(o.prometheus.TokenFile, filepath.Join(dir, "token"))
		o.prometheus.CAFile = orFile(o.prometheus.CAFile, filepath.Join(dir, "service-ca.crt"))
	}
}

type observation struct {
	observed *inventory.Observation
	errors   []inventory.Error
	// scrapes are what API servers answered last; nil of Prometheus.
	scrapes []observed.Scrape
}

// addTo returns the Snapshot with what was observed, nil where no source could be
// read, and why some could not.
func (found observation) addTo(s *inventory.Snapshot) *inventory.Snapshot {
	out := *s
	out.Observed = found.observed
	out.Errors = slices.Concat(s.Errors, found.errors)
	return &out
}

// start observes beside what else is read. The function that it returns waits
// for that, and adds it to a Snapshot.
func (o *observeFlags) start(ctx context.Context, access *clusterFlags,
	s streams,
) func(*inventory.Snapshot) *inventory.Snapshot {
	if !o.enabled() {
		return func(snapshot *inventory.Snapshot) *inventory.Snapshot { return o.audit.addTo(ctx, snapshot, s) }
	}
	result := make(chan observation, 1)
	go func() { result <- o.observe(ctx, access) }()
	return func(snapshot *inventory.Snapshot) *inventory.Snapshot {
		line := newProgress(s.err)
		defer line.clear()
		line.show("observing for %s", o.span)
		found := <-result
		return o.audit.addTo(ctx, found.addTo(snapshot), s)
	}
}

func (o *observeFlags) observe(ctx context.Context, access *clusterFlags) observation {
	var out observation
	if o.prometheus.URL != "" {
		out.observed, out.errors = o.prometheus.Observe(ctx)
		if config, err := access.config(); err == nil && out.observed != nil && len(o.paths) == 0 {
			out.observed.OfServers = cluster.CountAPIServers(ctx, config)
		}
		return out
	}
	var targets []inventory.MetricsServer
	all := 0
	config, err := access.config()
	if err == nil {
		targets, all, err = cluster.MetricsServers(ctx, config)
	}
	if err != nil {
		return observation{errors: []inventory.Error{{Object: "metrics of the API server", Message: err.Error()}}}
	}
	out.observed, out.scrapes, out.errors = observed.APIServers(ctx, targets, o.span)
	if out.observed != nil {
		out.observed.OfServers = all
	}
	return out
}
