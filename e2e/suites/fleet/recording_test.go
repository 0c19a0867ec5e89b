//go:build thanos

package fleet

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// recordedEnd is the time at which all that pictures are drawn from ends.
var recordedEnd = time.Date(2026, time.March, 2, 10, 0, 0, 0, time.UTC)

// pictured are the series that the board of all clusters reads, and for how long.
var pictured = map[string]time.Duration{
	`{__name__=~"cluster(_.+)?:webhook_auditor_(webhooks_.+|findings|snapshot.+|build_info|calls_failed|call_seconds):(count|max|top.|p99_top3)"}`: time.Hour,
	`{__name__=~"clusters:webhook_auditor_.+"}`:       2 * time.Minute,
	`ALERTS{severity="critical",alertstate="firing"}`: time.Hour,
	`webhook_auditor_webhook_info`:                    2 * time.Minute,
}

// record writes what the pictures of the board are drawn from, as text that promtool
// reads, in production's time.
func (s *store) record(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	testenv.Must(t, err)
	defer file.Close()
	zipped := gzip.NewWriter(file)
	out, now := bufio.NewWriter(zipped), time.Now()
	for _, selector := range slices.Sorted(maps.Keys(pictured)) {
		values := url.Values{
			"query": {selector}, "start": {unix(now.Add(-scaled(pictured[selector])))}, "end": {unix(now)},
			"step": {fmt.Sprint(scaled(time.Minute).Seconds())},
		}
		var answer struct {
			Data struct{ Result model.Matrix }
		}
		testenv.Must(t, monitoring.Get(t.Context(), s.query+"/api/v1/query_range?"+values.Encode(), &answer))
		if len(answer.Data.Result) == 0 {
			t.Fatalf("%s has no series to record", selector)
		}
		for _, series := range answer.Data.Result {
			writeSeries(out, series, now)
		}
	}
	testenv.Must(t, out.Flush())
	testenv.Must(t, zipped.Close())
}

// writeSeries writes a line for each sample.
func writeSeries(out *bufio.Writer, series *model.SampleStream, now time.Time) {
	name := string(series.Metric["__name__"])
	var labels []string
	for label, value := range series.Metric {
		if label != "__name__" {
			quoted, _ := json.Marshal(string(value)) // a string
			labels = append(labels, string(label)+"="+string(quoted))
		}
	}
	slices.Sort(labels)
	for _, sample := range series.Values {
		value := float64(sample.Value)
		if strings.Contains(name, "timestamp_seconds") {
			// Auditors renew it as often as in production.
			value += float64(stretched(sample.Timestamp.Time(), now).Unix() - sample.Timestamp.Unix())
		}
		fmt.Fprintf(out, "%s{%s} %s %d\n", name, strings.Join(labels, ","), strconv.FormatFloat(value, 'f', -1, 64), stretched(sample.Timestamp.Time(), now).Unix())
	}
}

// stretched is when something happened in production's time.
func stretched(at, now time.Time) time.Time {
	return recordedEnd.Add(-time.Duration(float64(now.Sub(at)) / scale))
}

func unix(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
