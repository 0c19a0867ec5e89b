//go:build fleet

package fleet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/web"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

const (
	clusters   = 100
	registered = 15  // webhooks of a cluster
	scale      = 0.4 // of waiting times, windows and the 30 s between scrapes
)

// writeNumbers is the document that takes what was measured.
var writeNumbers = flag.String("write", "", "the document that takes the table of what was measured")

// scaled is a time of production as it is here.
func scaled(d time.Duration) string {
	return time.Duration(float64(d) * scale).Round(time.Millisecond).String()
}

// A live cluster is a real one: what its auditor and its API server export.
type live struct {
	*testenv.Env

	auditor, apiServer *exported
}

// exported is what a server exports of what rules and boards read, as many clusters have it.
type exported struct {
	read func(ctx context.Context) ([]byte, error)

	lock sync.Mutex
	text []byte
	when time.Time
}

var read = regexp.MustCompile(`^(# TYPE )?(webhook_auditor_.+|process_(cpu_seconds_total|resident_memory_bytes)|` + monitoring.OfAPIServer + `)[ {]`)

// ServeHTTP answers with what was read within the last second.
func (e *exported) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.lock.Lock()
	defer e.lock.Unlock()
	if time.Since(e.when) > time.Second {
		all, err := e.read(context.WithoutCancel(r.Context()))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		var kept bytes.Buffer
		for lines := bufio.NewScanner(bytes.NewReader(all)); lines.Scan(); {
			if read.Match(lines.Bytes()) {
				kept.WriteString(lines.Text() + "\n")
			}
		}
		e.text, e.when = kept.Bytes(), time.Now()
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = w.Write(e.text)
}

// install runs a cluster whose webhooks are called each second. The first webhook is called for
// leases, and has a backend of its own, or one that is gone.
func install(t *testing.T, isDown bool, flags ...string) live {
	t.Helper()
	env := testenv.New(t, cluster.Options{WithoutControllers: true, APIServerFlags: flags})
	env.Namespace(t, "users")
	policy, leader := env.Backend(t, "policy"), webhook.Backend{Client: env.Kube, Namespace: "leader", Name: "hook", Server: env.Hooks}
	if isDown {
		env.Namespace(t, leader.Namespace)
	} else {
		leader = env.Backend(t, "leader")
	}
	hooks := []admissionv1.ValidatingWebhook{ofUsers(leader, "leases.policy.example.com", testenv.Rule("coordination.k8s.io", "leases"))}
	for n := 1; n < registered; n++ {
		hooks = append(hooks, ofUsers(policy, fmt.Sprintf("w%02d.policy.example.com", n), testenv.Rule("", "configmaps")))
	}
	thresholds := map[string]float64{} // however loaded the machine is
	for _, h := range hooks {
		thresholds[h.Name] = 10
	}
	env.Validate(t, "policy", hooks...)
	go call(t.Context(), env)
	patient := filepath.Join(t.TempDir(), "policy.yaml")
	testenv.Must(t, os.WriteFile(patient, testenv.Get(json.Marshal(object{"latencyThresholds": thresholds}))(t), 0o600))
	running := env.Run(t, "--config="+patient)
	return live{
		env, &exported{read: func(ctx context.Context) ([]byte, error) {
			return web.Get(ctx, http.DefaultClient, running.URL+"/metrics")
		}},
		&exported{read: func(ctx context.Context) ([]byte, error) {
			return env.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		}},
	}
}

// ofUsers is a webhook that is called for the requests of users.
func ofUsers(b webhook.Backend, name string, rule admissionv1.RuleWithOperations) admissionv1.ValidatingWebhook {
	h := testenv.Hook(b, "/allow", rule)
	h.Name = name
	h.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "users"}}
	return h
}

// call makes requests that all webhooks are called for.
func call(ctx context.Context, env *testenv.Env) {
	for ctx.Err() == nil {
		name := metav1.ObjectMeta{GenerateName: "user-"}
		_, _ = env.Kube.CoreV1().ConfigMaps("users").Create(ctx, &corev1.ConfigMap{ObjectMeta: name}, testenv.DryRun)
		_, _ = env.Kube.CoordinationV1().Leases("users").Create(ctx, &coordinationv1.Lease{ObjectMeta: name}, testenv.DryRun)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// A fleet is a Thanos of all clusters: each live one has a Prometheus with a sidecar, all
// others have one together. They send their summaries to a Receive as FLEET.md shows.
type fleet struct {
	dir, query, ruler, receive string // URLs
	write                      object
	endpoints                  []string
	exporter                   *http.ServeMux
	address                    string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{dir: t.TempDir(), exporter: http.NewServeMux(), write: remoteWrite(t)}
	server := httptest.NewServer(f.exporter)
	t.Cleanup(server.Close)
	f.address = monitoring.Address(server.URL)
	f.rules(t, "cluster-summary.yaml", "--form=prometheus", "--fleet-summary")
	f.rules(t, "cluster-alerts.yaml", "--form=prometheus")
	f.rules(t, "central.yaml", "--form=thanos", "--fleet-central")
	f.rules(t, "ruler.yaml", "--form=thanos")
	withoutRecords(t, filepath.Join(f.dir, "ruler.yaml"))
	ports := testenv.Get(process.FreePorts(1))(t)
	write := fmt.Sprintf("127.0.0.1:%d", ports[0])
	var grpc string
	f.receive, grpc, _ = f.thanos(t, "receive", "--tsdb.path="+t.TempDir(), `--label=receive="true"`, "--remote-write.address="+write)
	f.write["url"] = "http://" + write + "/api/v1/receive"
	f.endpoints = append(f.endpoints, grpc)
	return f
}

// remoteWrite is the configuration that FLEET.md shows.
func remoteWrite(t *testing.T) object {
	t.Helper()
	page := string(testenv.Get(os.ReadFile("../../../rules/FLEET.md"))(t))
	found := regexp.MustCompile("(?s)```yaml\n(  write_relabel_configs:.*?)```").FindStringSubmatch(page)
	if found == nil {
		t.Fatal("FLEET.md shows no write_relabel_configs")
	}
	var config object
	testenv.Must(t, yaml.Unmarshal([]byte(found[1]), &config))
	return config
}

// rules has the auditor print rules into a file.
func (f *fleet) rules(t *testing.T, name string, flags ...string) {
	t.Helper()
	printed := testenv.Command(t, append([]string{"print", "rules"}, flags...)...)
	text := testenv.Get(monitoring.ScaleRules(printed.Stdout, scale))(t)
	testenv.Must(t, os.WriteFile(filepath.Join(f.dir, name), text, 0o600))
}

// withoutRecords takes the recording rules out of a file, as the README says.
func withoutRecords(t *testing.T, path string) {
	t.Helper()
	file := testenv.Get(monitoring.ReadYAML(path))(t)
	for _, g := range file["groups"].([]any) {
		group := g.(object)
		group["rules"] = slices.DeleteFunc(group["rules"].([]any), func(r any) bool { return r.(object)["record"] != nil })
	}
	testenv.Must(t, os.WriteFile(path, testenv.Get(json.Marshal(file))(t), 0o600))
}

func (f *fleet) thanos(t *testing.T, part string, args ...string) (address, grpc string, running *process.Process) {
	t.Helper()
	binaries := testenv.Get(programs.Fleet())(t)
	ports := testenv.Get(process.FreePorts(2))(t)
	address, grpc = fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	args = append([]string{part, "--http-address=" + address, "--grpc-address=" + grpc}, args...)
	running, err := process.Sparingly(t.TempDir(), filepath.Join(binaries, "thanos"), filepath.Join(f.dir, part+address+".log"), args...)
	testenv.Must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s:\n%s", part, running.Output())
		}
		running.Kill()
	})
	testenv.Must(t, running.Await(t.Context(), func(ctx context.Context) error {
		_, err := web.Get(ctx, http.DefaultClient, "http://"+address+"/-/ready")
		return err
	}))
	return "http://" + address, grpc, running
}

// scrapes runs the Prometheus of some clusters, with a sidecar, and returns what ends both.
func (f *fleet) scrapes(t *testing.T, external object, targets map[string]live) (p prometheus, silence func()) {
	t.Helper()
	var groups []object
	for name, c := range targets {
		for job, server := range map[string]*exported{"webhook-auditor": c.auditor, "apiserver": c.apiServer} {
			path := "/" + name + "/" + job
			f.exporter.Handle(path, server)
			labels := object{"job": job, "instance": job + "." + name, "__metrics_path__": path}
			if len(targets) > 1 {
				labels["cluster"] = name
			}
			groups = append(groups, object{"targets": []string{f.address}, "labels": labels})
		}
	}
	p = start(t, object{
		"global":         object{"scrape_interval": scaled(30 * time.Second), "evaluation_interval": scaled(30 * time.Second), "external_labels": external},
		"rule_files":     []string{filepath.Join(f.dir, "cluster-*.yaml")},
		"scrape_configs": []object{{"job_name": "clusters", "enable_compression": false, "static_configs": groups}},
		"remote_write":   []object{f.write},
	}, "--query.lookback-delta="+scaled(5*time.Minute))
	_, grpc, sidecar := f.thanos(t, "sidecar", "--prometheus.url="+p.Prometheus, "--tsdb.path="+t.TempDir())
	f.endpoints = append(f.endpoints, grpc)
	return p, sidecar.Kill
}

// evaluates runs what reads all clusters, and the Ruler that asks it.
func (f *fleet) evaluates(t *testing.T) {
	t.Helper()
	args := []string{"--query.replica-label=prometheus", "--query.lookback-delta=" + scaled(5*time.Minute)}
	for _, address := range f.endpoints {
		args = append(args, "--endpoint="+address)
	}
	f.query, _, _ = f.thanos(t, "query", args...)
	f.ruler, _, _ = f.thanos(t, "rule", "--rule-file="+filepath.Join(f.dir, "central.yaml"), "--rule-file="+filepath.Join(f.dir, "ruler.yaml"),
		"--query="+f.query, "--data-dir="+t.TempDir(), "--eval-interval="+scaled(30*time.Second), `--label=ruler="true"`)
}

// seriesOf is what the querier answers: of how many series it has of each cluster.
func (f *fleet) seriesOf(t *testing.T, expr string) map[string]int {
	t.Helper()
	var answer struct {
		Data struct {
			Result []struct{ Metric map[string]string }
		}
	}
	testenv.Must(t, web.JSON(t.Context(), f.query+"/api/v1/query?dedup=true&partial_response=true&query="+url.QueryEscape(expr), &answer))
	out := map[string]int{}
	for _, r := range answer.Data.Result {
		out[r.Metric["cluster"]]++
	}
	return out
}

// pages are the clusters of which something critical fires, with the first name of it, by what
// evaluates: the Ruler, or the Prometheus of the clusters.
func (f *fleet) pages(t *testing.T, evaluator string) map[string]string {
	t.Helper()
	type alert struct {
		State  string
		Labels map[string]string
	}
	var answer struct{ Data struct{ Alerts []alert } }
	testenv.Must(t, web.JSON(t.Context(), evaluator+"/api/v1/alerts", &answer))
	out := map[string]string{}
	for _, a := range answer.Data.Alerts {
		if name := a.Labels["alertname"]; a.State == "firing" && a.Labels["severity"] == "critical" && (out[a.Labels["cluster"]] == "" || name < out[a.Labels["cluster"]]) {
			out[a.Labels["cluster"]] = name
		}
	}
	return out
}

// differs is nil where the pages are those wanted.
func differs(have, want map[string]string) error {
	for name, alert := range want {
		if have[name] != alert {
			return fmt.Errorf("cluster %s has the page %q, want %q; %d of %d clusters page", name, have[name], alert, len(have), len(want))
		}
	}
	for name, alert := range have {
		if want[name] == "" {
			return fmt.Errorf("cluster %s has the page %s, want none", name, alert)
		}
	}
	return nil
}

// TestThanos runs 100 clusters in a Thanos. Of the three live ones, the API server of one
// reaches no webhook, and one falls silent. The others export what live ones do.
func TestThanos(t *testing.T) {
	f := newFleet(t)
	tunnel, tunnelFlag := testenv.Tunnel(t)
	down, cutOff, healthy := install(t, true), install(t, false, tunnelFlag), install(t, false)
	copies, want := map[string]live{}, map[string]string{"c001": "WebhookBackendDown", "c002": "WebhookNoneReachable"}
	for n := 4; n <= clusters; n++ {
		name := fmt.Sprintf("c%03d", n)
		copies[name] = healthy
		if n%8 == 0 {
			copies[name], want[name] = down, "WebhookBackendDown"
		}
	}
	f.scrapes(t, object{"cluster": "c001"}, map[string]live{"c001": down})
	f.scrapes(t, object{"cluster": "c002"}, map[string]live{"c002": cutOff})
	_, silence := f.scrapes(t, object{"cluster": "c003"}, map[string]live{"c003": healthy})
	many, _ := f.scrapes(t, object{"prometheus": "many"}, copies)
	f.evaluates(t)
	tunnel.Lose()
	n := numbers{}
	testenv.EventuallyWithin(t, 15*time.Minute, func() error { return differs(f.pages(t, f.ruler), want) })
	n.add("clusters that page in the Ruler, each for its own incident")("%d of %d", len(want), clusters)
	ofCopies := map[string]string{}
	for name, alert := range want {
		if name > "c003" {
			ofCopies[name] = alert
		}
	}
	testenv.Must(t, differs(f.pages(t, many.Prometheus), ofCopies))
	f.checkSummary(t, &n)
	f.checkBoards(t, &n)
	silence()
	time.Sleep(time.Duration(float64(8*time.Minute) * scale))
	testenv.Must(t, differs(f.pages(t, f.ruler), want))
	if seen := f.seriesOf(t, `group by (cluster) (webhook_auditor_build_info)`); seen["c003"] != 0 || len(seen) != clusters-1 {
		t.Errorf("of %d clusters there are series, c003 among them %d times, after it fell silent", len(seen), seen["c003"])
	}
	n.add("a cluster that falls silent")("no page, and the pages of all others go on")
	n.write(t)
}

// checkSummary holds that Receive has the summary of each cluster, as FLEET.md's configuration
// lets it pass, and nothing else.
func (f *fleet) checkSummary(t *testing.T, n *numbers) {
	t.Helper()
	wanted := map[string]bool{}
	for _, found := range regexp.MustCompile(`record: (\S+)`).FindAllStringSubmatch(string(testenv.Get(os.ReadFile(filepath.Join(f.dir, "cluster-summary.yaml")))(t)), -1) {
		wanted[found[1]] = true
	}
	var answer struct {
		Data struct {
			Result []struct{ Metric map[string]string }
		}
	}
	perCluster, sent := map[string]int{}, map[string]bool{}
	testenv.EventuallyWithin(t, 10*time.Minute, func() error { // a loaded machine sends late
		seen := f.seriesOf(t, `count by (cluster) ({receive="true", __name__=~"cluster:.+"})`)
		if len(seen) != clusters {
			return fmt.Errorf("remote write sends the summary of %d clusters", len(seen))
		}
		return nil
	})
	testenv.Must(t, web.JSON(t.Context(), f.query+"/api/v1/query?query="+url.QueryEscape(`{receive="true", __name__=~".+"}`), &answer))
	for _, r := range answer.Data.Result {
		perCluster[r.Metric["cluster"]]++
		sent[r.Metric["__name__"]] = true
		if !wanted[r.Metric["__name__"]] {
			t.Errorf("remote write sends %v, which is not of the summary", r.Metric)
		}
	}
	if len(sent) != len(wanted) || len(perCluster) != clusters {
		t.Errorf("remote write sends %d of %d names, of %d clusters", len(sent), len(wanted), len(perCluster))
	}
	most := 0
	for name, series := range perCluster {
		if most = max(most, series); series > 20 {
			t.Errorf("remote write sends %d series of cluster %s", series, name)
		}
	}
	n.add("series of a cluster that remote write sends with the configuration of FLEET.md, at most")("%d", most)
}

var (
	expressions = regexp.MustCompile(`"expr": ("(?:[^"\\]|\\.)*")`)
	choices     = strings.NewReplacer("$__rate_interval", "1m", "$__interval", "1m", "$__range", "10m", "$__from", "0", "$cluster", ".*", `=~"$type"`, `=~".*"`, `=~"${type:raw}"`, `=~".*"`,
		"${type:raw}", "validating", "$type", "validating", "$configuration", ".*", "$name", "leases.policy.example.com")
)

// checkBoards asks all that boards ask, of all clusters at once.
func (f *fleet) checkBoards(t *testing.T, n *numbers) {
	t.Helper()
	for _, board := range []string{"fleet", "webhooks"} {
		text := testenv.Get(os.ReadFile("../../../dashboards/" + board + ".json"))(t)
		asked := 0
		for _, found := range expressions.FindAllSubmatch(text, -1) {
			var expr string
			testenv.Must(t, json.Unmarshal(found[1], &expr))
			f.seriesOf(t, choices.Replace(expr))
			asked++
		}
		n.add("questions of the board %s that Thanos answers over all clusters", board)("all %d", asked)
	}
}

// TestMimir has Mimir's own tool read the rules for it.
func TestMimir(t *testing.T) {
	tool := filepath.Join(testenv.Get(programs.Fleet())(t), "mimirtool")
	for name, flags := range map[string][]string{"alerts": nil, "summary": {"--fleet-summary"}, "central": {"--fleet-central"}} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rules.yaml")
			printed := testenv.Command(t, append([]string{"print", "rules", "--form=mimir"}, flags...)...)
			testenv.Must(t, os.WriteFile(file, []byte(printed.Stdout), 0o600))
			run := testenv.Get(process.Run(tool, file+".log", "rules", "check", file))(t)
			<-run.Done()
			if run.ExitCode() != 0 {
				t.Errorf("mimirtool: %s", run.Output())
			}
		})
	}
}

// numbers are what was measured, as rows of a table.
type numbers []string

// add takes what is measured, and then what it is.
func (n *numbers) add(format string, args ...any) func(format string, args ...any) {
	return func(value string, values ...any) {
		*n = append(*n, fmt.Sprintf("| "+format+" | ", args...)+fmt.Sprintf(value+" |", values...))
	}
}

var table = regexp.MustCompile(`(?s)(<!-- make e2e-fleet -->\n\| [^\n]+\n\|[-|]+\n).*?(<!-- end -->)`)

// write puts the table into the document between its marks, if one is named.
func (n numbers) write(t *testing.T) {
	t.Helper()
	t.Log("\n" + strings.Join(n, "\n"))
	if *writeNumbers == "" {
		return
	}
	document := testenv.Get(os.ReadFile(*writeNumbers))(t)
	if !table.Match(document) {
		t.Fatalf("%s has no table for the numbers", *writeNumbers)
	}
	testenv.Must(t, os.WriteFile(*writeNumbers, table.ReplaceAll(document, []byte("${1}"+strings.Join(n, "\n")+"\n${2}")), 0o600))
}
