//go:build thanos

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// store is a Thanos that reads all clusters, and who is paged by the alerts: of the
// clusters' Prometheus, of the Ruler, and of both.
type store struct {
	query                     string // URL
	byClusters, byRuler, both *pager

	dir       string
	endpoints []string // gRPC addresses of the sidecars
}

func newStore(t *testing.T) *store {
	t.Helper()
	s := &store{byClusters: newPager(t), byRuler: newPager(t), both: newPager(t), dir: t.TempDir()}
	s.print(t, "cluster-summary.yaml", "--form=prometheus", "--fleet-summary")
	s.print(t, "central.yaml", "--form=thanos", "--fleet-central")
	s.print(t, "cluster-alerts.yaml", "--form=prometheus")
	s.print(t, "ruler.yaml", "--form=thanos")
	withoutRecords(t, s.path("ruler.yaml"))
	return s
}

// print has the auditor print rules into a file.
func (s *store) print(t *testing.T, name string, flags ...string) {
	t.Helper()
	printed, err := auditor.Command(t.Context(), testenv.Binary(t), append([]string{"print", "rules"}, flags...)...)
	testenv.Must(t, err)
	rules, err := monitoring.ScaleRules(printed.Stdout, scale)
	testenv.Must(t, err)
	testenv.Must(t, os.WriteFile(s.path(name), rules, 0o600))
}

// withoutRecords takes the recording rules out of a file.
func withoutRecords(t *testing.T, path string) {
	t.Helper()
	file, err := monitoring.ReadYAML(path)
	testenv.Must(t, err)
	for _, g := range file["groups"].([]any) {
		group := g.(object)
		group["rules"] = slices.DeleteFunc(group["rules"].([]any), func(r any) bool { return r.(object)["record"] != nil })
	}
	text, err := json.Marshal(file)
	testenv.Must(t, err)
	testenv.Must(t, os.WriteFile(path, text, 0o600))
}

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

// alerting are the pagers by what alerts them.
func (s *store) alerting() map[string]*pager {
	return map[string]*pager{"the clusters' Prometheus": s.byClusters, "the Ruler": s.byRuler, "both": s.both}
}

// scrapes runs a Prometheus with a sidecar. What distinguishes it from its replica is on
// its series, and not on its alerts.
func (s *store) scrapes(t *testing.T, external object, configs []object) {
	t.Helper()
	p := start(t, object{
		"global":     object{"scrape_interval": scaled(30 * time.Second).String(), "evaluation_interval": scaled(30 * time.Second).String(), "external_labels": external},
		"rule_files": []string{s.path("cluster-*.yaml")},
		"alerting": object{
			"alert_relabel_configs": []object{{"action": "labeldrop", "regex": "replica|prometheus"}},
			"alertmanagers":         []object{{"static_configs": targets(s.byClusters.URL, s.both.URL)}},
		},
		"scrape_configs": configs,
	}, "--rules.alert.resend-delay="+scaled(time.Minute).String(), "--query.lookback-delta="+scaled(5*time.Minute).String())
	s.endpoints = append(s.endpoints, s.run(t, "sidecar", ports(t, 2), "--prometheus.url="+p.Prometheus, "--tsdb.path="+t.TempDir()))
}

// start runs what reads the sidecars: a querier, and a Ruler that asks it and is read by
// it in turn.
func (s *store) start(t *testing.T) {
	t.Helper()
	ruler, query := ports(t, 2), ports(t, 2)
	args := []string{"--query.replica-label=replica", "--query.replica-label=prometheus", "--query.lookback-delta=" + scaled(5*time.Minute).String()}
	s.endpoints = append(s.endpoints, fmt.Sprintf("127.0.0.1:%d", ruler[1]))
	for _, address := range s.endpoints {
		args = append(args, "--endpoint="+address)
	}
	s.query = fmt.Sprintf("http://127.0.0.1:%d", query[0])
	s.run(t, "query", query, args...)
	// What it sends is valid for four times the delay: on a machine that is so loaded that it
	// evaluates less often than that, pages would end and begin again.
	s.run(t, "rule", ruler, "--rule-file="+s.path("central.yaml"), "--rule-file="+s.path("ruler.yaml"), "--query="+s.query, "--data-dir="+t.TempDir(), "--eval-interval="+scaled(30*time.Second).String(),
		"--label=replica=\"ruler\"", "--alert.label-drop=replica", "--resend-delay="+scaled(5*time.Minute).String(),
		"--alertmanagers.url="+s.byRuler.URL, "--alertmanagers.url="+s.both.URL)
}

func ports(t *testing.T, n int) []int {
	t.Helper()
	free, err := process.FreePorts(n)
	testenv.Must(t, err)
	return free
}

// run runs a part of Thanos on a port for HTTP and one for gRPC until the end of the
// test, and returns the address of the latter.
func (s *store) run(t *testing.T, part string, ports []int, args ...string) string {
	t.Helper()
	program, err := programs.Thanos()
	testenv.Must(t, err)
	http, grpc := fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	p, err := process.SparinglyIn(s.dir, program, s.path(fmt.Sprint(part, ports[0], ".log")), append([]string{part, "--http-address=" + http, "--grpc-address=" + grpc}, args...)...)
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, p.Stop()) })
	ready, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testenv.Must(t, p.Await(ready, func(ctx context.Context) error { return monitoring.Get(ctx, "http://"+http+"/-/ready", nil) }))
	return grpc
}
