// Package screenshots holds the boards against what really is exported: each
// expression of each committed board runs in a real Prometheus that scrapes a
// real API server and the built auditor.
package screenshots

import (
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/apply"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/web"
)

// elsewhere are series that nothing exports here: those of alerts and rules are Prometheus' own,
// and probes are off.
var elsewhere = regexp.MustCompile(`^(ALERTS|ALERTS_FOR_STATE|cluster[a-z_]*:webhook_auditor.*|webhook_auditor_(webhook_probe_.*|webhook_serving_certificate_.*))$`)

//go:embed webhooks.yaml
var webhooks string

//go:embed objects.yaml
var objects string

func TestBoardsAskForWhatIsExported(t *testing.T) {
	prometheus := monitored(t)
	asked := map[string]map[string]bool{}
	for where, expr := range expressions(t) {
		tree := prometheus.get(t, "parse_query", url.Values{"query": {expr}})
		selectors(tree, func(name string, labels []string) {
			if asked[name] == nil {
				asked[name] = map[string]bool{}
			}
			for _, label := range labels {
				asked[name][label] = true
			}
		})
		prometheus.get(t, "query", url.Values{"query": {expr}})
		if t.Failed() {
			t.Fatalf("in %s: %s", where, expr)
		}
	}
	if len(asked) < 20 {
		t.Errorf("only %d series are asked for: the boards were not read", len(asked))
	}
	for name, labels := range asked {
		if !elsewhere.MatchString(name) {
			prometheus.exports(t, name, labels)
		}
	}
}

type api string

// monitored returns a Prometheus that has scraped an API server whose webhooks
// were called, and an auditor that watches them.
func monitored(t *testing.T) api {
	t.Helper()
	env := testenv.New(t, cluster.Options{WithoutControllers: true})
	called(t, env)
	if file := os.Getenv("RECORD"); file != "" {
		record(t, env, file)
	}
	stack := env.Monitor(t, monitoring.Options{TimeScale: 1, Targets: monitoring.Targets{Auditors: []string{env.Run(t).URL}}})
	testenv.EventuallyWithin(t, time.Minute, func() error {
		found, err := stack.Query(t.Context(), "up == 1")
		if err == nil && len(found) != 2 {
			err = fmt.Errorf("%d of 2 targets are up", len(found))
		}
		return err
	})
	return api(stack.Prometheus)
}

// called registers webhooks that allow, deny, fail closed and fail open, and
// writes objects until each was called. The writes that they refuse are the
// point, so their errors are none of ours.
func called(t *testing.T, env *testenv.Env) {
	t.Helper()
	values := strings.NewReplacer("PORT", strconv.Itoa(int(env.Hooks.Port())), "BUNDLE", base64.StdEncoding.EncodeToString(env.Hooks.CABundle()))
	env.Install(t, []byte(values.Replace(webhooks)))
	written := testenv.Get(apply.Objects([]byte(objects)))(t)
	for range 5 {
		for _, object := range written {
			_ = apply.Apply(t.Context(), env.Plane.Config(), object)
		}
		time.Sleep(time.Second)
	}
}

// recorded are the series that boards read. Of requests, only those on the
// resource that the webhooks intercept.
var recorded = regexp.MustCompile(`^(# (HELP|TYPE) )?(apiserver_admission_(webhook|step|match_condition)_|apiserver_(crd_)?conversion_webhook_|apiserver_request_(sli_)?duration_seconds|apiserver_request_total|process_)`)

var request = regexp.MustCompile(`^apiserver_request_.*resource="configmaps"`)

// record writes what the API server exports about webhooks: what the boards' expressions
// are held against where no API server runs.
func record(t *testing.T, env *testenv.Env, file string) {
	t.Helper()
	body := testenv.Get(env.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context()))(t)
	var kept strings.Builder
	for line := range strings.Lines(string(body)) {
		if recorded.MatchString(line) && (!strings.HasPrefix(line, "apiserver_request_") || request.MatchString(line)) {
			kept.WriteString(line)
		}
	}
	testenv.Must(t, os.WriteFile(file, []byte(kept.String()), 0o644))
}

// get returns the data of an answer that must be a good one.
func (p api) get(t *testing.T, path string, values url.Values) any {
	t.Helper()
	var answer struct{ Data any }
	if err := web.JSON(t.Context(), string(p)+"/api/v1/"+path+"?"+values.Encode(), &answer); err != nil {
		t.Error(err)
	}
	return answer.Data
}

// exports reports labels that are asked for and that no series of that name has.
func (p api) exports(t *testing.T, name string, labels map[string]bool) {
	t.Helper()
	found, _ := p.get(t, "labels", url.Values{"match[]": {name}}).([]any)
	if len(found) == 0 {
		t.Errorf("no series %s is exported", name)
		return
	}
	for label := range labels {
		if !slices.Contains(found, any(label)) {
			t.Errorf("%s has no label %s", name, label)
		}
	}
}

// choices stands in for Grafana's variables.
var choices = strings.NewReplacer(`=~"${type:raw}"`, `=~".*"`, "${type:raw}", "validating", `=~"$type"`, `=~".*"`, "$__rate_interval", "10s", "$__interval", "10s", "$__range", "1m", "$__from", "0",
	"$cluster", ".*", "$type", "validating", "$configuration", ".*", "$name", "allow.example.com")

// expressions returns every expression of the committed boards by where it
// stands.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	names := testenv.Get(filepath.Glob("../../dashboards/*.json"))(t)
	for _, name := range names {
		file := testenv.Get(os.ReadFile(name))(t)
		var board any
		testenv.Must(t, json.Unmarshal(file, &board))
		walk(board, func(o map[string]any) {
			if expr, ok := o["expr"].(string); ok {
				out[fmt.Sprintf("%s, query %d", filepath.Base(name), len(out))] = choices.Replace(expr)
			}
		})
	}
	return out
}

// selectors reports the series of a syntax tree, and the labels that each must
// have: a matcher that lets the empty value pass needs none.
func selectors(tree any, report func(name string, labels []string)) {
	walk(tree, func(node map[string]any) {
		if node["type"] != "vectorSelector" {
			return
		}
		var labels []string
		matchers, _ := node["matchers"].([]any)
		for _, m := range matchers {
			matcher := m.(map[string]any)
			if matcher["name"] != "__name__" && matcher["value"] != ".*" {
				labels = append(labels, matcher["name"].(string))
			}
		}
		name, _ := node["name"].(string)
		report(name, labels)
	})
}

func walk(v any, visit func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		visit(v)
		for _, inner := range v {
			walk(inner, visit)
		}
	case []any:
		for _, inner := range v {
			walk(inner, visit)
		}
	}
}
