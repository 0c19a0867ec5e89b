package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
)

type scrape struct {
	tokenFile string
	insecure  bool
}

// scrapeTimeout is how long a scrape may take, as for Prometheus by default,
// maxScrape how much of the answer is read, and maxAge how old a current snapshot is.
const (
	scrapeTimeout = 10 * time.Second
	maxScrape     = 256 << 20
	maxAge        = 3 * time.Minute
)

func scrapeCommand(s streams) *cobra.Command {
	o := &scrape{}
	c := &cobra.Command{
		Use:   "scrape URL",
		Short: "Scrape the metrics of a running auditor, and check that they are current",
		Long: `Scrape the metrics of a running auditor, and check that they are current.

"helm test" runs it in the cluster. In a Pod it authenticates as its service
account.

Exit code: 0 the metrics are current, 1 they are not or cannot be scraped, 2
usage error.`,
		Example: `  # Scrape through a port-forward, as a service account that may get /metrics
  kubectl port-forward -n webhook-auditor service/webhook-auditor 8443 &
  kubectl create token prometheus -n monitoring > token
  webhook-auditor scrape https://localhost:8443/metrics --token-file token --insecure-skip-tls-verify`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("scrape: URL: must be one, as https://webhook-auditor.webhook-auditor.svc:8443/metrics")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              running(s, o.run),
	}
	var groups cliflag.NamedFlagSets
	flags := groups.FlagSet("scrape")
	flags.StringVar(&o.tokenFile, "token-file", "", "file with a bearer token (default: the service account's, in a Pod)")
	flags.BoolVar(&o.insecure, "insecure-skip-tls-verify", false, "do not verify the certificate, as the ServiceMonitor does while it is self-signed")
	addFlags(c, &groups)
	return c
}

func (o *scrape) run(ctx context.Context, args []string, s streams) error {
	target, err := o.check(args[0])
	if err != nil {
		return err
	}
	families, err := o.fetch(ctx, target)
	if err != nil {
		return fmt.Errorf("scraping %s: %w", target.Redacted(), err)
	}
	return checkFreshness(families, time.Now(), s.out)
}

// check reads the URL and the flags. A token must not be sent in the clear.
func (o *scrape) check(address string) (*url.URL, error) {
	target, err := url.Parse(address)
	if err != nil || target.Host == "" || target.Scheme != "https" {
		return nil, usageError{errors.New("scrape: URL: must be https://HOST[:PORT]/PATH")}
	}
	o.tokenFile = orFile(o.tokenFile, filepath.Join(serviceAccountDir, "token"))
	return target, nil
}

// orFile is a file that there is, where none is given.
func orFile(value, path string) string {
	if value != "" || !arguments.Exists(path) {
		return value
	}
	return path
}

// fetch follows no redirects: the token is for this address alone.
func (o *scrape) fetch(ctx context.Context, target *url.URL) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, scrapeTimeout, fmt.Errorf("no answer within %s", scrapeTimeout))
	defer cancel()
	c := config.HTTPClientConfig{TLSConfig: config.TLSConfig{InsecureSkipVerify: o.insecure}}
	if !o.insecure { // OpenShift's, else those of the system
		c.TLSConfig.CAFile = orFile("", filepath.Join(serviceAccountDir, "service-ca.crt"))
	}
	if o.tokenFile != "" {
		c.Authorization = &config.Authorization{Type: "Bearer", CredentialsFile: o.tokenFile}
	}
	client, err := config.NewClientFromConfig(c, program)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s%s", response.Status, scrapeCure[response.StatusCode])
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(io.LimitReader(response.Body, maxScrape))
}

// scrapeCure is what helps where the answer is a refusal.
var scrapeCure = map[int]string{
	http.StatusUnauthorized: ": give a token that the cluster accepts, --token-file",
	http.StatusForbidden:    ": bind the ClusterRole webhook-auditor-metrics-reader to the user of the token",
}

// checkFreshness prints what the metrics say of the auditor, and refuses them when they
// are not current.
func checkFreshness(families map[string]*dto.MetricFamily, now time.Time, out io.Writer) error {
	timestamps := families["webhook_auditor_snapshot_timestamp_seconds"]
	if len(timestamps.GetMetric()) == 0 {
		return errors.New("the answer has no webhook_auditor_snapshot_timestamp_seconds: it must be the URL of an auditor that is ready")
	}
	seconds := timestamps.GetMetric()[0].GetGauge().GetValue()
	age := now.Sub(time.UnixMilli(int64(seconds * 1000))).Round(time.Second)
	fmt.Fprintf(out, "%d webhooks; snapshot %s old\n", len(families["webhook_auditor_webhook_info"].GetMetric()), age)
	if age > maxAge {
		return fmt.Errorf("the metrics are not current: their snapshot is %s old, more than %s; the log of the auditor names the watch that is broken", age, maxAge)
	}
	return nil
}
