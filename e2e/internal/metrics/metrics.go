// Package metrics reads what a server exports to Prometheus.
package metrics

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Labels are name and value pairs.
type Labels map[string]string

// Series is one line of /metrics; of a histogram or summary, its count.
type Series struct {
	Name   string
	Labels Labels
	Value  float64
}

func (s Series) String() string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		pairs = append(pairs, fmt.Sprintf("%s=%q", name, s.Labels[name]))
	}
	return fmt.Sprintf("%s{%s} %v", s.Name, strings.Join(pairs, ","), s.Value)
}

// Metrics is one scrape.
type Metrics []Series

// Parse reads the text format that Prometheus scrapes, of any server.
func Parse(text io.Reader) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("parsing metrics: %w", err)
	}
	var out Metrics
	for _, name := range slices.Sorted(maps.Keys(families)) {
		for _, m := range families[name].Metric {
			out = append(out, Series{Name: name, Labels: labels(m), Value: value(m)})
		}
	}
	return out, nil
}

// ParseOf reads the series whose names begin so, and skips all others: an API
// server has thousands.
func ParseOf(prefix string, text io.Reader) (Metrics, error) {
	var kept strings.Builder
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		if line := lines.Text(); strings.HasPrefix(line, prefix) || strings.HasPrefix(line, "# TYPE "+prefix) {
			kept.WriteString(line + "\n")
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	return Parse(strings.NewReader(kept.String()))
}

func labels(m *dto.Metric) Labels {
	out := Labels{}
	for _, pair := range m.Label {
		out[pair.GetName()] = pair.GetValue()
	}
	return out
}

func value(m *dto.Metric) float64 {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Untyped != nil:
		return m.Untyped.GetValue()
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	case m.Summary != nil:
		return float64(m.Summary.GetSampleCount())
	}
	return math.NaN()
}

// Select is the series of the given name that carry all the given labels.
func (m Metrics) Select(name string, want Labels) Metrics {
	return slices.DeleteFunc(slices.Clone(m), func(s Series) bool {
		return s.Name != name || !s.Labels.include(want)
	})
}

// Sum adds the values up.
func (m Metrics) Sum() float64 {
	sum := 0.0
	for _, s := range m {
		sum += s.Value
	}
	return sum
}

func (m Metrics) String() string {
	var lines []string
	for _, s := range m {
		lines = append(lines, s.String())
	}
	return strings.Join(lines, "\n")
}

func (l Labels) include(want Labels) bool {
	for name, value := range want {
		if l[name] != value {
			return false
		}
	}
	return true
}

// Condition is what one waits for a scrape to show; its error says what is
// missing.
type Condition func(Metrics) error

// Present waits for a series that carries the labels.
func Present(name string, want Labels) Condition {
	return func(m Metrics) error {
		if len(m.Select(name, want)) == 0 {
			return fmt.Errorf("no series %s among\n%s", Series{Name: name, Labels: want}, m.Select(name, nil))
		}
		return nil
	}
}

// Absent waits until no series carries the labels.
func Absent(name string, want Labels) Condition {
	return func(m Metrics) error {
		if found := m.Select(name, want); len(found) > 0 {
			return fmt.Errorf("still there: %s", found)
		}
		return nil
	}
}

// Equals waits for one series that carries the labels and has the value.
func Equals(name string, want Labels, value float64) Condition {
	return func(m Metrics) error {
		found := m.Select(name, want)
		if len(found) != 1 || found[0].Value != value {
			return fmt.Errorf("want one series of value %v, have\n%s", value, found)
		}
		return nil
	}
}
