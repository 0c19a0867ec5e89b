// Package observed reads what API servers measure of their webhooks: from the
// series that they serve themselves, or from a Prometheus that has collected
// them. Sources may be slow, wrong or hostile: what is read of them is bounded
// in bytes, series and time.
package observed

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// measured are the families that say what was measured of a webhook, ofChecks those of a
// policy, and families all that are read.
var (
	measured = []string{promql.Requests, promql.Rejections, promql.FailedOpen, promql.WebhookSeconds, promql.MatchConditionErrors, promql.ConversionSeconds, promql.OldConversionSeconds}
	ofChecks = []string{promql.Validations, promql.ValidationSeconds, promql.Mutations, promql.MutationSeconds}
	families = slices.Concat(measured, ofChecks, forAlerts, []string{promql.ProcessStart})
)

// The bounds. A large cluster's API server serves 100 MB of series, of which
// 5,000 webhooks take 30 MB.
const (
	maxRead   = 512 << 20
	maxKept   = 64 << 20
	maxLine   = 64 << 10
	maxSeries = 400_000
	// maxName is more than any name in Kubernetes.
	maxName = 512
)

// exposition is what an API server serves of its webhooks at one time.
type exposition struct {
	// started is when the process started; zero where it does not say so.
	started time.Time
	samples map[string]sample
	// families are what was read, by their names.
	families map[string]*dto.MetricFamily
}

// sample is one number of a series.
type sample struct {
	measure
	series inventory.Series
	value  float64
}

// measure is what a number counts.
type measure struct {
	what what
	// kind is the error_type of a rejection or mutation, or the enforcement_action of
	// a validation.
	kind string
	// edge is the upper bound of a bucket.
	edge float64
}

type what int

const (
	called what = iota
	checked
	rejected
	openFailures
	conditionErrors
	timed
	seconds
	bucket
	unconverted
)

// parse reads a text exposition.
func parse(r io.Reader) (exposition, error) {
	lines := newRelevantLines(r)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	parsed, err := parser.TextToMetricFamilies(lines)
	if lines.err != nil {
		err = lines.err
	}
	if err != nil {
		return exposition{}, fmt.Errorf("reading its metrics: %w", shortened(err))
	}
	out := exposition{samples: map[string]sample{}, families: parsed}
	for name, family := range parsed {
		if name == promql.ProcessStart {
			out.started = startTime(family)
		}
		if !slices.Contains(measured, name) && !slices.Contains(ofChecks, name) {
			continue
		}
		for _, m := range family.GetMetric() {
			out.add(name, m)
		}
	}
	return out, nil
}

// relevantLines are the lines about webhooks: the others are nearly all. It reads as it is
// read.
type relevantLines struct {
	limited *io.LimitedReader
	lines   *bufio.Scanner
	// line is the last relevant one, rest what is still to be read of it.
	line, rest []byte
	// read counts all lines, series and kept the relevant ones and their bytes.
	read, series, kept int
	// err is why the lines ended too early.
	err error
}

func newRelevantLines(r io.Reader) *relevantLines {
	limited := &io.LimitedReader{R: r, N: maxRead}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 0, 16<<10), maxLine)
	return &relevantLines{limited: limited, lines: lines}
}

// Read implements io.Reader.
func (r *relevantLines) Read(p []byte) (int, error) {
	for len(r.rest) == 0 && r.err == nil {
		if !r.lines.Scan() {
			r.err = r.end()
			return 0, cmp.Or(r.err, io.EOF)
		}
		r.read++
		if line := r.lines.Bytes(); concerns(line) {
			r.line = append(append(r.line[:0], line...), '\n')
			r.rest = r.line
			r.series++
			r.kept += len(line)
		}
		if r.series > maxSeries || r.kept > maxKept {
			r.err = errors.New("more series on webhooks than any cluster has")
		}
	}
	if r.err != nil {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// end says what is wrong with the end of the lines.
func (r *relevantLines) end() error {
	switch err := r.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return errors.New("a line is too long for a series")
	case err != nil:
		return err
	case r.limited.N == 0:
		return fmt.Errorf("more than %d MiB", maxRead>>20)
	case r.series == 0 && r.read > 0:
		return errors.New("none of an API server are among them")
	}
	return nil
}

func concerns(line []byte) bool {
	line = bytes.TrimPrefix(line, []byte("# TYPE "))
	return slices.ContainsFunc(families, func(family string) bool { return bytes.HasPrefix(line, []byte(family)) })
}

func startTime(family *dto.MetricFamily) time.Time {
	var newest float64
	for _, m := range family.GetMetric() {
		newest = max(newest, m.GetGauge().GetValue(), m.GetUntyped().GetValue())
	}
	if !counts(newest) || newest > math.MaxInt32 {
		return time.Time{}
	}
	return time.UnixMilli(int64(newest * 1000))
}

// counts reports whether a number can be a count: hostile ones cannot.
func counts(v float64) bool { return v > 0 && !math.IsInf(v, 1) }

// add keeps what the series says of a webhook.
func (e exposition) add(family string, m *dto.Metric) {
	labels := map[string]string{}
	var id strings.Builder
	id.WriteString(family)
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
		fmt.Fprintf(&id, "|%s=%q", l.GetName(), l.GetValue())
	}
	series, ok := seriesOf(family, labels)
	if !ok {
		return
	}
	for _, n := range numbersOf(family, labels, m) {
		key := fmt.Sprintf("%s|%d|%g", id.String(), n.what, n.edge)
		e.samples[key] = sample{measure: n.measure, series: series, value: n.value}
	}
}

// seriesOf says which webhook or policy the labels are about.
func seriesOf(family string, labels map[string]string) (inventory.Series, bool) {
	series := inventory.Series{Type: inventory.Type(labels["type"]), Name: labels["name"]}
	isOne := series.Type == inventory.Mutating || series.Type == inventory.Validating
	switch family {
	case promql.ConversionSeconds, promql.OldConversionSeconds:
		series = inventory.Series{Type: inventory.Conversion, Name: labels["crd_name"]}
		isOne = true
	case promql.Validations, promql.ValidationSeconds:
		series, isOne = inventory.Series{Type: inventory.ValidatingPolicy, Name: labels["policy"]}, true
	case promql.Mutations, promql.MutationSeconds:
		series, isOne = inventory.Series{Type: inventory.MutatingPolicy, Name: labels["policy"]}, true
	case promql.MatchConditionErrors:
		isOne = isOne && labels["kind"] == "webhook"
	}
	return series, isOne && series.Name != "" && len(series.Name) <= maxName && len(labels["error_type"]) <= maxName
}

type number struct {
	measure
	value float64
}

// numbersOf returns what a series of a webhook says.
func numbersOf(family string, labels map[string]string, m *dto.Metric) []number {
	value := max(m.GetCounter().GetValue(), m.GetUntyped().GetValue())
	switch family {
	case promql.Requests:
		return []number{{measure{what: called}, value}}
	case promql.Rejections:
		return []number{{measure{what: rejected, kind: labels["error_type"]}, value}}
	case promql.Validations, promql.Mutations:
		return []number{{measure{what: checked, kind: cmp.Or(labels["enforcement_action"], labels["error_type"])}, value}}
	case promql.FailedOpen:
		return []number{{measure{what: openFailures}, value}}
	case promql.MatchConditionErrors:
		return []number{{measure{what: conditionErrors}, value}}
	}
	h := m.GetHistogram()
	out := []number{{measure{what: timed}, float64(h.GetSampleCount())}, {measure{what: seconds}, h.GetSampleSum()}}
	if labels["succeeded"] == "false" {
		out = append(out, number{measure{what: unconverted}, float64(h.GetSampleCount())})
	}
	for _, b := range h.GetBucket() {
		if edge := b.GetUpperBound(); !math.IsNaN(edge) {
			out = append(out, number{measure{what: bucket, edge: edge}, float64(b.GetCumulativeCount())})
		}
	}
	return out
}

const maxError = 300

// shortened bounds an error that may quote what a server sent.
func shortened(err error) error { return errors.New(text.Shorten(text.Clean(err.Error()), maxError)) }
