// Package observed reads what API servers measure of their webhooks: from the
// series that they serve themselves, or from a Prometheus that has collected
// them. Sources may be slow, wrong or hostile: what is read of them is bounded
// in bytes, series and time.
package observed

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
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
	started  time.Time
	samples  map[model.Fingerprint]*model.Sample
	families map[string]*dto.MetricFamily
}

// parse reads a text exposition, of which hardly any is in memory at a time.
func parse(r io.Reader) (exposition, error) {
	relevant, writer := io.Pipe()
	failure := make(chan error, 1)
	go func() {
		err := copyRelevant(writer, r)
		failure <- err
		writer.CloseWithError(err)
	}()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	parsed, err := parser.TextToMetricFamilies(relevant)
	relevant.CloseWithError(io.ErrClosedPipe)
	if cause := <-failure; cause != nil && !errors.Is(cause, io.ErrClosedPipe) {
		err = cause
	}
	if err != nil {
		return exposition{}, fmt.Errorf("reading its metrics: %w", shortened(err))
	}
	out := exposition{samples: map[model.Fingerprint]*model.Sample{}, families: parsed}
	for name, family := range parsed {
		if name == promql.ProcessStart {
			out.started = startTime(family)
		}
		samples, _ := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, family) // of a type that is unknown there is none
		for _, s := range samples {
			if f, _ := familyOf(s.Metric); f.name != "" {
				out.samples[s.Metric.Fingerprint()] = s
			}
		}
	}
	return out, nil
}

// copyRelevant writes the lines about webhooks: the others are nearly all.
func copyRelevant(w io.Writer, r io.Reader) error {
	limited := &io.LimitedReader{R: r, N: maxRead}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 0, 16<<10), maxLine)
	read, series, keptBytes := 0, 0, 0
	for lines.Scan() {
		read++
		if !concerns(lines.Bytes()) {
			continue
		}
		series++
		keptBytes += len(lines.Bytes())
		if series > maxSeries || keptBytes > maxKept {
			return errors.New("more series on webhooks than any cluster has")
		}
		if _, err := w.Write(append(lines.Bytes(), '\n')); err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return errors.New("a line is too long for a series")
	case err != nil:
		return err
	case limited.N == 0:
		return fmt.Errorf("more than %d MiB", maxRead>>20)
	case series == 0 && read > 0:
		return errors.New("none of an API server are among them")
	}
	return nil
}

func concerns(line []byte) bool {
	line = bytes.TrimPrefix(line, []byte("# TYPE "))
	begins := func(name string) bool { return bytes.HasPrefix(line, []byte(name)) }
	return begins(promql.ProcessStart) || slices.ContainsFunc(forAlerts, begins) ||
		slices.ContainsFunc(measured, func(f family) bool { return begins(f.name) })
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

const maxError = 300

// shortened bounds an error that may quote what a server sent.
func shortened(err error) error { return errors.New(text.Shorten(text.Clean(err.Error()), maxError)) }
