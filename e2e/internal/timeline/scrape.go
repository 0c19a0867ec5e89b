package timeline

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/web"
)

// Target is a server whose series are scraped.
type Target struct {
	Job, Instance string
	// URL is that of the exposition, and Client who is allowed to read it.
	URL    string
	Client *http.Client
	// Keep matches the names of the series that Prometheus keeps; nil keeps all.
	Keep *regexp.Regexp
}

// The kinds of series: what becomes of them when what was scraped is repeated.
const (
	gauge     = iota // stays
	counter          // grows again
	timestamp        // is as long ago
)

// sample is what a series was scraped as: how much a counter grew, how long before the scrape a
// time was.
type sample struct {
	labels labels.Labels
	value  float64
	kind   int
}

// round is what all targets say at a scrape.
type round map[string]sample

// scrape reads all targets.
func (l *Timeline) scrape(targets []Target) round {
	l.t.Helper()
	out := round{}
	for _, target := range targets {
		said, err := target.Scrape(l.t.Context())
		at, up := float64(time.Now().UnixMilli())/1000, metrics.Series{Name: "up", Value: 1}
		if err != nil {
			up.Value = 0
		}
		for _, s := range append(said, up) {
			of := labels.NewBuilder(labels.FromMap(s.Labels)).Set(model.MetricNameLabel, s.Name).Set(model.JobLabel, target.Job).Set(model.InstanceLabel, target.Instance).Labels()
			key, value, kind := of.String(), s.Value, gauge
			switch {
			case s.Counts:
				value, kind = l.grown(key, value), counter
			case strings.HasSuffix(s.Name, "_timestamp_seconds"):
				value, kind = value-at, timestamp
			}
			out[key] = sample{of, value, kind}
		}
	}
	return out
}

// grown is how much a counter has grown since it was last scraped, as Prometheus counts.
func (l *Timeline) grown(key string, now float64) float64 {
	before := l.read[key]
	l.read[key] = now
	if now < before {
		return now
	}
	return now - before
}

// Scrape is what the target says now.
func (target Target) Scrape(ctx context.Context) (metrics.Metrics, error) {
	body, err := web.Get(ctx, target.Client, target.URL)
	if err != nil {
		return nil, err
	}
	return metrics.ParseOf(target.Keep, body)
}

// sum is that of the series of the name with these labels.
func (target Target) sum(ctx context.Context, name string, selector metrics.Labels) (float64, error) {
	said, err := target.Scrape(ctx)
	return said.Select(name, selector).Sum(), err
}

// Says is an error until the sum of such series is above zero.
func (target Target) Says(name string, selector metrics.Labels) func(context.Context) error {
	return func(ctx context.Context) error { return target.exceeds(ctx, 0, name, selector) }
}

// Grows is an error until the sum of such series is larger than now.
func (target Target) Grows(t testing.TB, name string, selector metrics.Labels) func(context.Context) error {
	t.Helper()
	first := testenv.Get(target.sum(t.Context(), name, selector))(t)
	return func(ctx context.Context) error { return target.exceeds(ctx, first, name, selector) }
}

func (target Target) exceeds(ctx context.Context, least float64, name string, selector metrics.Labels) error {
	now, err := target.sum(ctx, name, selector)
	if err == nil && now <= least {
		err = fmt.Errorf("%s %v of %s does not exceed %v", name, selector, target.Instance, least)
	}
	return err
}

// Rests is an error while the sum of such series grows from one call to the next.
func (target Target) Rests(name string, selector metrics.Labels) func(context.Context) error {
	last := -1.0
	return func(ctx context.Context) error {
		now, err := target.sum(ctx, name, selector)
		if err == nil && now != last {
			err = fmt.Errorf("%s %v of %s still grows", name, selector, target.Instance)
		}
		last = now
		return err
	}
}
