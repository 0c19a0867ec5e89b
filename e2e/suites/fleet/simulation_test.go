//go:build thanos

package fleet

import (
	"bufio"
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// A recording is what a server exports, and how fast its counters grow.
type recording struct {
	lines    []line
	recorded time.Time
}

// line is a series, or a comment without value.
type line struct {
	text              string // all before the value
	value, perSecond  float64
	comment, advances bool // advances: it is of a counter or a histogram
}

// kept are the series of both servers that rules and boards read.
var kept = regexp.MustCompile(`^(# TYPE )?(webhook_auditor_.+|process_(cpu_seconds_total|resident_memory_bytes)|` + monitoring.OfAPIServer + `)[ {]`)

// typed is the line of a family's type.
var typed = regexp.MustCompile(`^# TYPE (\S+) (\S+)`)

// source is where a server's series are read.
type source func(context.Context) (io.ReadCloser, error)

// record reads what each server exports twice, so long apart.
func record(t *testing.T, sources []source, apart time.Duration) []recording {
	t.Helper()
	var before []recording
	for _, read := range sources {
		before = append(before, recording{scrape(t, read), time.Now()})
	}
	time.Sleep(apart)
	var out []recording
	for i, read := range sources {
		out = append(out, recording{scrape(t, read), time.Now()}.since(before[i]))
	}
	return out
}

// since is the recording with what its series grew by since another.
func (r recording) since(earlier recording) recording {
	before := map[string]float64{}
	for _, l := range earlier.lines {
		before[l.text] = l.value
	}
	for i, l := range r.lines {
		if l.advances {
			r.lines[i].perSecond = max(l.value-before[l.text], 0) / r.recorded.Sub(earlier.recorded).Seconds()
		}
		if strings.HasPrefix(l.text, "webhook_auditor_snapshot_timestamp_seconds") {
			r.lines[i].perSecond = 1
		}
	}
	return r
}

// scrape reads the series that are kept.
func scrape(t *testing.T, read source) []line {
	t.Helper()
	body, err := read(t.Context())
	testenv.Must(t, err)
	defer body.Close()
	var out []line
	counter := false
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text := lines.Text()
		if !kept.MatchString(text) {
			continue
		}
		if family := typed.FindStringSubmatch(text); family != nil {
			counter = family[2] != "gauge"
			out = append(out, line{text: text, comment: true})
			continue
		}
		at := strings.LastIndexByte(text, ' ')
		value, err := strconv.ParseFloat(text[at+1:], 64)
		testenv.Must(t, err)
		out = append(out, line{text: text[:at+1], value: value, advances: counter})
	}
	testenv.Must(t, lines.Err())
	if len(out) == 0 {
		t.Fatal("a server exports none of the series that rules and boards read")
	}
	return out
}

// replaced is the recording of a server whose series differ so.
func (r recording) replaced(pattern, by string) recording {
	matched := regexp.MustCompile(pattern)
	out := recording{recorded: r.recorded}
	for _, l := range r.lines {
		l.text = matched.ReplaceAllString(l.text, by)
		out.lines = append(out.lines, l)
	}
	return out
}

// ServeHTTP exports the series as they would be now.
func (r recording) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	elapsed := time.Since(r.recorded).Seconds()
	out := bufio.NewWriterSize(w, 64<<10)
	defer out.Flush()
	var number []byte
	for _, l := range r.lines {
		out.WriteString(l.text)
		if !l.comment {
			value := l.value + l.perSecond*elapsed
			if l.advances {
				value = math.Floor(value) // a part of a call would be one more in a smaller bucket
			}
			number = strconv.AppendFloat(number[:0], value, 'g', -1, 64)
			out.Write(number)
		}
		out.WriteByte('\n')
	}
}

// simulated is what an auditor and an API server of a cluster export; a cluster may have
// no auditor.
type simulated struct{ auditor, apiServer *recording }

// simulate has a server export the series of each cluster, and returns the scrape
// configuration for it: the label cluster is that of the target.
func simulate(t *testing.T, clusters map[string]simulated) []object {
	t.Helper()
	mux := http.NewServeMux()
	var groups []object
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	add := func(cluster, job string, r *recording) {
		if r == nil {
			return
		}
		path := "/" + cluster + "/" + job
		mux.Handle(path, r)
		groups = append(groups, object{"targets": []string{monitoring.Address(server.URL)}, "labels": object{
			"cluster": cluster, "job": job, "instance": job + "." + cluster, "__metrics_path__": path,
		}})
	}
	for name, c := range clusters {
		add(name, "webhook-auditor", c.auditor)
		add(name, "apiserver", c.apiServer)
	}
	return []object{{"job_name": "simulated", "enable_compression": false, "static_configs": groups}}
}
