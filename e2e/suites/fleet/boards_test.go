//go:build thanos

package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// asked is a board with the choices that a user makes on the way from all clusters to one
// webhook.
type asked struct{ board, cluster, name, kind string }

var way = []asked{{"fleet", ".*", ".*", ".*"}, {"webhooks", "c004", ".*", ".*"}, {"webhook", "c004", leases, "validating"}}

// mayBeEmpty are panels about what no simulated cluster has: conversions, admission
// policies, probes, and requests that wait for an API server's own sake.
var mayBeEmpty = []string{
	"Failing open", "Rejections", "Latency that admission webhooks add, by resource",
	"Denials and failures", "Refused, and why", "Latency of checks, p99", "Admission budget of critical resources", "Who waits for whom", "Serving certificates", "Certificate expires in", "CA expires in",
	"Latency that all admission webhooks add to the resources it reaches", "Match conditions",
}

type panel struct {
	Title   string
	Type    string
	Targets []struct {
		Expr    string
		Instant bool
	}
	Panels []panel // of a closed row
	closed bool    // it is in one
}

// patience is how long an answer is waited for.
const patience = 30 * time.Second

// panels are those of a board that ask for something.
func panels(t *testing.T, board string) []panel {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../dashboards", board+".json"))
	testenv.Must(t, err)
	var read struct{ Panels []panel }
	testenv.Must(t, json.Unmarshal(text, &read))
	var out []panel
	for _, p := range read.Panels {
		if len(p.Targets) > 0 {
			out = append(out, p)
		}
		for _, inner := range p.Panels {
			inner.closed = true
			out = append(out, inner)
		}
	}
	return out
}

// expr is the expression as Grafana asks for it: the last hour, of which a chart has a point each minute.
func (a asked) expr(expr string) string {
	return strings.NewReplacer("$__rate_interval", scaled(4*time.Minute).String(), "$__interval", scaled(time.Minute).String(), "$__range", scaled(time.Hour).String(),
		"$__from", "0", "$cluster", a.cluster, "${type:raw}", a.kind, "$type", a.kind, "${name:raw}", a.name, "$name", a.name, "$configuration", ".*").Replace(expr)
}

// boards asks for each panel of the boards, as a browser does, and returns the table of
// how long that takes. Each panel has an answer.
func (s *store) boards(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	out.WriteString("| board | panel | series | p50 ms | p99 ms |\n|---|---|---|---|---|\n")
	for _, a := range way {
		for _, p := range panels(t, a.board) {
			fmt.Fprintf(&out, "| %s | %s | %s |\n", a.board, p.Title, s.times(t, a, p))
		}
	}
	return out.String()
}

// times are how many series a panel gets, and how long that takes. What is in a closed
// row may take longer than a user waits.
func (s *store) times(t *testing.T, a asked, p panel) string {
	t.Helper()
	var took []time.Duration
	series := 0
	for range *runs {
		begun := time.Now()
		found, err := s.answers(a, p)
		if err != nil && p.closed && time.Since(begun) >= patience {
			return fmt.Sprintf("none in %s | | ", patience)
		}
		if err != nil {
			t.Errorf("%s: %s: %v", a.board, p.Title, err)
		}
		series, took = found, append(took, time.Since(begun))
	}
	if series == 0 && !slices.Contains(mayBeEmpty, p.Title) && (*alerts || p.Title != "Alerts") {
		t.Errorf("%s: %s has no series", a.board, p.Title)
	}
	slices.Sort(took)
	return fmt.Sprintf("%d | %d | %d", series, took[len(took)/2].Milliseconds(), took[(99*len(took)-1)/100].Milliseconds())
}

// answers is how many series a panel gets, whose queries are asked at once.
func (s *store) answers(a asked, p panel) (int, error) {
	found, failures := make([]int, len(p.Targets)), make([]error, len(p.Targets))
	var wait sync.WaitGroup
	for i, target := range p.Targets {
		wait.Go(func() { found[i], failures[i] = s.series(a.expr(target.Expr), target.Instant) })
	}
	wait.Wait()
	total := 0
	for _, n := range found {
		total += n
	}
	return total, errors.Join(failures...)
}

// series is how many series the querier answers with.
func (s *store) series(expr string, instant bool) (int, error) {
	now := time.Now()
	path, values := "query", url.Values{"query": {expr}, "time": {unix(now)}}
	if !instant {
		path = "query_range"
		values = url.Values{"query": {expr}, "start": {unix(now.Add(-scaled(time.Hour)))}, "end": {unix(now)}, "step": {fmt.Sprint(scaled(time.Minute).Seconds())}}
	}
	client := http.Client{Timeout: patience}
	response, err := client.PostForm(s.query+"/api/v1/"+path, values)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Warnings      []string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return 0, fmt.Errorf("reading the answer (%s): %w", response.Status, err)
	}
	partial := slices.DeleteFunc(answer.Warnings, func(w string) bool { return strings.HasPrefix(w, "PromQL ") })
	if answer.Status != "success" || len(partial) > 0 {
		return 0, fmt.Errorf("%s%q in\n%s", answer.Error, partial, expr)
	}
	return len(answer.Data.Result), nil
}

func unix(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
