// Package screenshots holds the boards against what really is exported: each
// expression of each committed board runs in a real Prometheus that scrapes a
// real API server and the built auditor.
package screenshots

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
	"github.com/webhook-auditor/webhook-auditor/e2e/screenshots/allseries"
)

// elsewhere are series that nothing exports here: those of alerts and rules are Prometheus' own,
// and probes are off.
var elsewhere = regexp.MustCompile(`^(ALERTS|ALERTS_FOR_STATE|cluster[a-z_]*:webhook_auditor.*|webhook_auditor_(webhook_probe_.*|webhook_serving_certificate_.*))$`)

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
		if t.Failed() {
			t.Fatalf("in %s", where)
		}
		prometheus.get(t, "query", url.Values{"query": {expr}})
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

// api is Prometheus' HTTP API.
type api string

// monitored returns a Prometheus that has scraped an API server whose webhooks
// were called, and an auditor that watches them.
func monitored(t *testing.T) api {
	t.Helper()
	build(t)
	server, err := webhook.Start()
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	plane, err := cluster.Start(t.Context(), cluster.Options{Binaries: "../bin", WithoutControllers: true})
	must(t, err)
	t.Cleanup(func() { must(t, plane.Stop()) })
	must(t, allseries.Export(t.Context(), plane, server))
	a, err := auditor.Start(t.Context(), auditor.Options{Binary: "../../bin/webhook-auditor", Kubeconfig: plane.Kubeconfig()})
	must(t, err)
	t.Cleanup(func() { must(t, a.Stop()) })
	return startPrometheus(t, plane, a)
}

func build(t *testing.T) {
	t.Helper()
	for _, command := range []*exec.Cmd{
		exec.Command("../build.sh"),
		exec.Command("../prom/build.sh"),
		exec.Command("make", "-C", "../..", "build"),
	} {
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, output)
		}
	}
}

const scraping = `global: {scrape_interval: 1s, scrape_native_histograms: true, always_scrape_classic_histograms: true}
scrape_configs:
- job_name: apiserver
  scheme: https
  tls_config: {cert_file: FOLDER/crt, key_file: FOLDER/key, ca_file: FOLDER/ca}
  static_configs: [{targets: ["APISERVER"]}]
- job_name: webhook-auditor
  static_configs: [{targets: ["AUDITOR"]}]
`

func startPrometheus(t *testing.T, plane *cluster.ControlPlane, a *auditor.Auditor) api {
	t.Helper()
	folder := t.TempDir()
	admin := plane.Config()
	values := strings.NewReplacer("FOLDER", folder,
		"APISERVER", strings.TrimPrefix(admin.Host, "https://"), "AUDITOR", strings.TrimPrefix(a.URL, "http://"))
	for name, content := range map[string][]byte{
		"crt": admin.CertData, "key": admin.KeyData, "ca": admin.CAData,
		"prometheus.yml": []byte(values.Replace(scraping)),
	} {
		must(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	}
	ports, err := process.FreePorts(1)
	must(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	p, err := process.Run("../bin/prometheus", filepath.Join(folder, "log"),
		"--config.file="+filepath.Join(folder, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+address)
	must(t, err)
	t.Cleanup(func() { must(t, p.Stop()) })
	prometheus := api("http://" + address)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, p.Await(ctx, prometheus.scraped))
	return prometheus
}

// scraped returns an error until both are scraped.
func (p api) scraped(ctx context.Context) error {
	var answer struct {
		Data struct{ Result []any }
	}
	if err := p.ask(ctx, "query", url.Values{"query": {"up == 1"}}, &answer); err != nil {
		return err
	}
	if n := len(answer.Data.Result); n != 2 {
		return fmt.Errorf("%d of 2 targets are up", n)
	}
	return nil
}

func (p api) ask(ctx context.Context, path string, values url.Values, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, string(p)+"/api/v1/"+path, strings.NewReader(values.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking Prometheus: %w", err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("reading Prometheus' answer (%s): %w", response.Status, err)
	}
	return nil
}

// get returns the data of an answer that must be a good one.
func (p api) get(t *testing.T, path string, values url.Values) any {
	t.Helper()
	var answer struct {
		Status, Error string
		Data          any
	}
	must(t, p.ask(t.Context(), path, values, &answer))
	if answer.Status != "success" {
		t.Errorf("%s: %s\n%s", path, answer.Error, values.Get("query"))
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
	names, err := filepath.Glob("../../dashboards/*.json")
	must(t, err)
	for _, name := range names {
		file, err := os.ReadFile(name)
		must(t, err)
		var board any
		must(t, json.Unmarshal(file, &board))
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
