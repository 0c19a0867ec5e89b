package timeline

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// Target is a server whose series are scraped.
type Target struct {
	Job, Instance string
	// URL is that of the exposition, and Client who is allowed to read it.
	URL    string
	Client *http.Client
	// Keep are the names of the series that Prometheus keeps.
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
		said, _ := target.scrape(l.t.Context()) // which says of one that cannot be scraped that it is down
		for key, s := range said {
			if s.kind == counter {
				s.value = l.grown(key, s.value)
			}
			out[key] = s
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

// scrape is what the target says, and whether it does.
func (target Target) scrape(ctx context.Context) (round, error) {
	out := round{}
	add := func(name string, value float64, kind int, of map[string]string) {
		of = maps.Clone(of)
		of[model.MetricNameLabel], of["job"], of["instance"] = name, target.Job, target.Instance
		s := sample{labels.FromMap(of), value, kind}
		out[s.labels.String()] = s
	}
	families, err := target.families(ctx)
	at := float64(time.Now().UnixMilli()) / 1000
	for name, family := range families {
		for _, m := range family.Metric {
			of := map[string]string{}
			for _, pair := range m.Label {
				of[pair.GetName()] = pair.GetValue()
			}
			each(name, m, func(name string, value float64, kind int, le string) {
				if kind == gauge && strings.HasSuffix(name, "_timestamp_seconds") {
					kind, value = timestamp, value-at
				}
				labelled := of
				if le != "" {
					labelled = maps.Clone(of)
					labelled[model.BucketLabel] = le
				}
				add(name, value, kind, labelled)
			})
		}
	}
	up := 1.0
	if err != nil {
		up = 0
	}
	add("up", up, gauge, map[string]string{})
	return out, err
}

// each calls what adds a sample for each series of a metric.
func each(name string, m *dto.Metric, add func(name string, value float64, kind int, le string)) {
	switch {
	case m.Counter != nil:
		add(name, m.Counter.GetValue(), counter, "")
	case m.Gauge != nil:
		add(name, m.Gauge.GetValue(), gauge, "")
	case m.Untyped != nil: // the sum or count of a histogram whose buckets are not kept
		add(name, m.Untyped.GetValue(), counter, "")
	case m.Histogram != nil:
		h := m.Histogram
		add(name+"_sum", h.GetSampleSum(), counter, "")
		add(name+"_count", float64(h.GetSampleCount()), counter, "")
		for _, b := range h.Bucket {
			add(name+"_bucket", float64(b.GetCumulativeCount()), counter, labels.FormatOpenMetricsFloat(b.GetUpperBound()))
		}
	}
}

// families reads the series that are kept: an API server has many others.
func (target Target) families(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.URL, nil)
	if err != nil {
		return nil, err
	}
	response, err := target.Client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("scraping %s: %s", target.URL, strconv.Itoa(response.StatusCode))
	}
	kept, err := target.kept(response.Body)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(strings.NewReader(kept))
}

func (target Target) kept(body io.Reader) (string, error) {
	var kept strings.Builder
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if target.Keep == nil || target.Keep.MatchString(strings.TrimPrefix(line, "# TYPE ")) {
			kept.WriteString(line + "\n")
		}
	}
	return kept.String(), lines.Err()
}

// Series are the labels of all series that the target exports.
func (target Target) Series(ctx context.Context) ([]labels.Labels, error) {
	said, err := target.scrape(ctx)
	var out []labels.Labels
	for _, s := range said {
		out = append(out, s.labels)
	}
	return out, err
}

// Says is an error until the target exports a series of the name above zero, with these labels
// as name and value.
func (target Target) Says(name string, of ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		said, err := target.scrape(ctx)
		if err != nil {
			return err
		}
		for _, s := range said {
			if s.value > 0 && s.labels.Get(model.MetricNameLabel) == name && s.has(of) {
				return nil
			}
		}
		return fmt.Errorf("%s does not export %s %q", target.Instance, name, of)
	}
}

func (s sample) has(pairs []string) bool {
	for pair := range slices.Chunk(pairs, 2) {
		if s.labels.Get(pair[0]) != pair[1] {
			return false
		}
	}
	return true
}

// Grows is an error until the sum of such series is larger than now.
func (target Target) Grows(t testing.TB, name string, of ...string) func(context.Context) error {
	t.Helper()
	first, err := target.sum(t.Context(), name, of)
	testenv.Must(t, err)
	return func(ctx context.Context) error {
		now, err := target.sum(ctx, name, of)
		if err == nil && now <= first {
			err = fmt.Errorf("%s %q of %s does not grow", name, of, target.Instance)
		}
		return err
	}
}

// Rests is an error while the sum of such series grows from one call to the next.
func (target Target) Rests(name string, of ...string) func(context.Context) error {
	last := -1.0
	return func(ctx context.Context) error {
		now, err := target.sum(ctx, name, of)
		if err == nil && now != last {
			err = fmt.Errorf("%s %q of %s still grows", name, of, target.Instance)
		}
		last = now
		return err
	}
}

func (target Target) sum(ctx context.Context, name string, of []string) (sum float64, err error) {
	said, err := target.scrape(ctx)
	for _, s := range said {
		if s.labels.Get(model.MetricNameLabel) == name && s.has(of) {
			sum += s.value
		}
	}
	return sum, err
}
