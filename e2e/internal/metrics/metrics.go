// Package metrics reads what a server exports to Prometheus.
package metrics

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// Labels are name and value pairs.
type Labels map[string]string

// Series is one line of /metrics.
type Series struct {
	Name   string
	Labels Labels
	Value  float64
	Counts bool // as counters do, and what histograms consist of
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
func Parse(text []byte) (Metrics, error) { return ParseOf(nil, text) }

// ParseOf reads the series whose names match, and skips all others: an API server has
// thousands.
func ParseOf(names *regexp.Regexp, text []byte) (Metrics, error) {
	parser := textparse.NewPromParser(text, labels.NewSymbolTable(), false)
	var out Metrics
	family, kind := "", model.MetricTypeUnknown
	for {
		switch entry, err := parser.Next(); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("parsing metrics: %w", err)
		case entry == textparse.EntryType:
			name, of := parser.Type()
			family, kind = string(name), of
		case entry == textparse.EntrySeries:
			series, _, value := parser.Series()
			name, _, _ := strings.Cut(string(series), "{")
			if names != nil && !names.MatchString(name) {
				continue
			}
			var of labels.Labels
			parser.Labels(&of)
			s := Series{Name: name, Labels: of.Map(), Value: value, Counts: !strings.HasPrefix(name, family) || kind != model.MetricTypeGauge}
			delete(s.Labels, model.MetricNameLabel)
			out = append(out, s)
		}
	}
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
