package observed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// The bounds of what a Prometheus may answer.
const (
	prometheusLimit = 20 * time.Second
	maxAnswer       = 64 << 20
)

// Prometheus says where the series of the API servers are, and over which range.
type Prometheus struct {
	URL string
	// TokenFile holds a bearer token, CAFile the CAs to trust besides the
	// system's; "" for neither.
	TokenFile, CAFile string
	// Selector holds label matchers that choose one cluster of several, as
	// cluster="prod"; "" for all series.
	Selector string
	Range    time.Duration
}

// Observe asks for the range that ends now. The error names what could not be
// read; the Observation is nil then.
func (p Prometheus) Observe(ctx context.Context) (*inventory.Observation, []inventory.Error) {
	ctx, cancel := context.WithTimeoutCause(ctx, prometheusLimit, fmt.Errorf("no answer within %s", prometheusLimit))
	defer cancel()
	o, err := p.observe(ctx, time.Now())
	if err != nil {
		return nil, []inventory.Error{{Object: "Prometheus " + p.address(), Message: shortened(timedOut(ctx, err)).Error()}}
	}
	return o, nil
}

func (p Prometheus) address() string {
	u, err := url.Parse(p.URL)
	if err != nil {
		return "(unreadable URL)"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

func (p Prometheus) observe(ctx context.Context, now time.Time) (*inventory.Observation, error) {
	client, err := p.client()
	if err != nil {
		return nil, err
	}
	c := querier{client, now, p.Selector}
	all, err := c.all(ctx, p.Range)
	if err != nil {
		return nil, err
	}
	o := &inventory.Observation{
		Source:  "prometheus",
		Servers: []inventory.ObservedServer{{Address: p.address(), From: now.Add(-p.Range).UTC(), To: now.UTC()}},
	}
	all.fill(o)
	if o.Scraped, err = c.number(ctx, scrapedServers); err != nil {
		return nil, err
	}
	if o.Scraped == 0 {
		return nil, errors.New("it has no series of API servers" + c.choice() + ": see that it scrapes them, and keeps " + scraped)
	}
	if o.Alerts, err = c.alerts(ctx); err != nil {
		return nil, err
	}
	o.CalledLastWeek, err = c.calledLastWeek(ctx)
	return o, err
}

func (q querier) all(ctx context.Context, span time.Duration) (statsByWebhook, error) {
	all := statsByWebhook{}
	for _, f := range measured {
		if f.name == promql.OldConversionSeconds {
			continue
		}
		for name, expression := range f.queries() {
			answers, err := q.run(ctx, strings.ReplaceAll(expression, "RANGE", model.Duration(span).String()))
			if err != nil {
				return nil, err
			}
			for _, s := range answers {
				s.Metric[model.MetricNameLabel] = model.LabelValue(name)
				all.count(s.Metric, float64(s.Value), span.Seconds())
			}
		}
	}
	return all, nil
}

// client follows no redirects: the token is for this address alone.
func (p Prometheus) client() (promv1.API, error) {
	c := config.HTTPClientConfig{EnableHTTP2: true, TLSConfig: config.TLSConfig{CAFile: p.CAFile}}
	if p.TokenFile != "" {
		c.Authorization = &config.Authorization{Type: "Bearer", CredentialsFile: p.TokenFile}
	}
	client, err := config.NewClientFromConfig(c, "webhook-auditor")
	if err != nil {
		return nil, fmt.Errorf("preparing the client: %w", err)
	}
	client.Transport = bounded{client.Transport}
	connection, err := api.NewClient(api.Config{Address: p.URL, Client: client})
	if err != nil {
		return nil, fmt.Errorf("preparing the client: %w", err)
	}
	return promv1.NewAPI(connection), nil
}

// bounded ends answers that are too long.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxAnswer)
	}
	return response, err
}

type querier struct {
	promv1.API
	now      time.Time
	selector string
}

func (q querier) choice() string {
	if q.selector == "" {
		return ""
	}
	return " with " + q.selector
}

func (q querier) run(ctx context.Context, expression string) (model.Vector, error) {
	value, _, _, err := q.Query(ctx, strings.ReplaceAll(expression, "SELECTOR", q.selector), q.now)
	var failure *promv1.Error
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, fmt.Errorf("its answer is longer than %d MiB", maxAnswer>>20)
	case errors.As(err, &failure):
		return nil, explained(failure)
	case err != nil:
		return nil, err
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("it answers with a %s where a vector is wanted", value.Type())
	}
	return vector, nil
}

// explained says what an error means for the one who chose the address.
func explained(e *promv1.Error) error {
	switch {
	case e.Type == promv1.ErrBadResponse:
		return fmt.Errorf("its answer is not that of Prometheus' HTTP API (%s): --prometheus-url must be the address that /api/v1/query follows", e.Msg)
	case strings.HasSuffix(e.Msg, " 401"), strings.HasSuffix(e.Msg, " 403"):
		return fmt.Errorf("it refuses the credentials (%s): name a file with a bearer token by --prometheus-token-file", e.Msg)
	}
	return fmt.Errorf("%s: %s", e.Type, e.Msg)
}

func (q querier) number(ctx context.Context, expression string) (int, error) {
	answer, err := q.run(ctx, expression)
	if err != nil || len(answer) == 0 {
		return 0, err
	}
	value := float64(answer[0].Value)
	if math.IsNaN(value) || value < 0 || value > maxSeries {
		return 0, fmt.Errorf("it answers %g where a number of API servers is wanted", value)
	}
	return int(value), nil
}

func (q querier) alerts(ctx context.Context) ([]inventory.Alert, error) {
	answer, err := q.run(ctx, firing)
	var out []inventory.Alert
	for _, s := range answer {
		out = append(out, inventory.Alert{
			Name: string(s.Metric[model.AlertNameLabel]), Severity: string(s.Metric["severity"]),
			Series: inventory.Series{Type: inventory.Type(s.Metric["type"]), Name: string(s.Metric["name"])},
			Since:  time.Unix(int64(s.Value), 0),
		})
	}
	slices.SortFunc(out, func(a, b inventory.Alert) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Series.Name, b.Series.Name))
	})
	return out, err
}

func (q querier) calledLastWeek(ctx context.Context) (map[inventory.Series]bool, error) {
	covered, err := q.run(ctx, coversLastWeek)
	if err != nil || len(covered) == 0 {
		return nil, err
	}
	answer, err := q.run(ctx, calledLastWeek)
	if err != nil {
		return nil, err
	}
	out := map[inventory.Series]bool{}
	for _, s := range answer {
		out[inventory.Series{Type: inventory.Type(s.Metric["type"]), Name: string(s.Metric["name"])}] = true
	}
	return out, nil
}
