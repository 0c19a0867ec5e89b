package alerts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// routeScale makes the minute that a page waits 600 ms.
const routeScale = 0.01

// sent is an alert that is sent to Alertmanager.
type sent struct {
	labels map[string]string
	// suppressed says that another alert of the incident explains it.
	suppressed bool
}

// A routing is an incident of which Alertmanager gets all alerts at once, and
// the notifications that it must lead to, by receiver: each the names of its
// alerts.
type routing struct {
	name   string
	alerts []sent
	want   map[string][]string
}

// printedAlerts are the labels of all alerts as the auditor prints them, by the
// alert's name.
type printedAlerts map[string]map[string]string

func printAlerts(t *testing.T, args ...string) printedAlerts {
	t.Helper()
	printed, err := auditor.Command(t.Context(), testenv.Binary(t), append([]string{"print", "rules", "--form=prometheus"}, args...)...)
	testenv.Must(t, err)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	testenv.Must(t, os.WriteFile(file, []byte(printed.Stdout), 0o600))
	text, err := monitoring.ReadYAML(file)
	testenv.Must(t, err)
	encoded, err := json.Marshal(text)
	testenv.Must(t, err)
	var read struct {
		Groups []struct {
			Rules []struct {
				Alert  string
				Labels map[string]string
			}
		}
	}
	testenv.Must(t, json.Unmarshal(encoded, &read))
	out := printedAlerts{}
	for _, g := range read.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				out[r.Alert] = r.Labels
			}
		}
	}
	return out
}

// of is an alert of the name, with further labels as name and value.
func (p printedAlerts) of(name string, more ...string) sent {
	labels := maps.Clone(p[name])
	if labels == nil {
		labels = map[string]string{} // it is none of ours
	}
	labels["alertname"] = name
	for pair := range slices.Chunk(more, 2) {
		labels[pair[0]] = pair[1]
	}
	return sent{labels: labels}
}

// about is an alert about a webhook whose backend is in namespace policy.
func (p printedAlerts) about(webhook, alert string) sent {
	return p.of(alert, "type", "validating", "name", webhook, "namespace", "policy")
}

func (s sent) explained() sent { return sent{s.labels, true} }

// routings are the incidents. Each happens in a cluster of its own.
func routings(ours, enhancement printedAlerts) []routing {
	var dead []sent
	for n := range 8 {
		name := fmt.Sprintf("w%d.example.com", n)
		dead = append(dead, ours.about(name, "WebhookBackendDown"),
			ours.about(name, "WebhookFailingClosed").explained(), ours.about(name, "WebhookCallsFailing").explained())
	}
	return []routing{
		{"eight webhooks behind a dead backend", dead, map[string][]string{"page": {strings.TrimSpace(strings.Repeat("WebhookBackendDown ", 8))}}},
		{
			"a critical alert explains the warnings about the same webhook alone",
			[]sent{
				ours.about("one", "WebhookFailingClosed"), ours.about("one", "WebhookCallsFailing").explained(), ours.about("one", "WebhookMatchConditionErrors").explained(),
				ours.about("two", "WebhookCallsFailing"), ours.about("one", "WebhookCaBundleExpiring"),
			},
			map[string][]string{"page": {"WebhookFailingClosed"}, "ticket": {"WebhookCaBundleExpiring WebhookCallsFailing"}},
		},
		{
			"slow requests are not explained by any webhook that fails",
			[]sent{ours.about("one", "WebhookFailingClosed"), ours.of("WebhookResourceLatencyHigh", "resource", "pods")},
			map[string][]string{"page": {"WebhookFailingClosed"}, "ticket": {"WebhookResourceLatencyHigh"}},
		},
		{
			"refused requests explain the API server's errors",
			[]sent{ours.about("one", "WebhookFailingClosed"), ours.of("KubeAPIErrorBudgetBurn", "severity", "critical").explained()},
			map[string][]string{"page": {"WebhookFailingClosed"}},
		},
		{
			"the API server's errors alone",
			[]sent{ours.of("KubeAPIErrorBudgetBurn", "severity", "critical")},
			map[string][]string{"default": {"KubeAPIErrorBudgetBurn"}},
		},
		{
			"the auditor is away",
			[]sent{
				ours.of("WebhookAuditorDown"), ours.of("WebhookAuditorStale").explained(), ours.of("WebhookInputMetricsMissing", "series", "x").explained(),
				ours.about("one", "WebhookNotInInventory").explained(), ours.of("TargetDown", "job", "webhook-auditor").explained(),
			},
			map[string][]string{"ticket": {"WebhookAuditorDown"}},
		},
		{
			"another target is away",
			[]sent{ours.of("WebhookAuditorDown"), ours.of("TargetDown", "job", "other")},
			map[string][]string{"ticket": {"WebhookAuditorDown"}, "default": {"TargetDown"}},
		},
		{
			"nothing watches",
			[]sent{ours.of("WebhookUnwatched"), ours.of("WebhookAuditorDown").explained()},
			map[string][]string{"page": {"WebhookUnwatched"}},
		},
		{
			"an API server that reaches no webhook",
			[]sent{ours.of("WebhookNoneReachable", "instance", "10.0.0.1:6443"), ours.of("KubeAPIErrorBudgetBurn", "severity", "critical").explained()},
			map[string][]string{"page": {"WebhookNoneReachable"}},
		},
		{
			"no API server reaches a webhook",
			[]sent{
				ours.of("WebhookNoneReachable", "instance", "10.0.0.1:6443"), ours.of("WebhookNoneReachable", "instance", "10.0.0.2:6443"),
				ours.of("WebhookNoneReachable", "instance", "10.0.0.3:6443"),
			},
			map[string][]string{"page": {"WebhookNoneReachable WebhookNoneReachable WebhookNoneReachable"}},
		},
		{
			"the severities of the enhancement: one webhook, one page",
			[]sent{enhancement.about("one", "WebhookFailingClosed"), enhancement.about("one", "WebhookCallsFailing").explained(), enhancement.about("one", "WebhookSlow").explained()},
			map[string][]string{"page": {"WebhookFailingClosed"}},
		},
		{
			"the severities of the enhancement: a warning explains no critical alert",
			[]sent{enhancement.about("one", "WebhookCallsFailing"), enhancement.about("one", "WebhookBackendDownWarning"), enhancement.about("two", "WebhookFailingOpen")},
			map[string][]string{"page": {"WebhookCallsFailing WebhookFailingOpen"}, "ticket": {"WebhookBackendDownWarning"}},
		},
		{
			"an alert of others whose name begins alike",
			[]sent{ours.of("WebhookDeliveryFailureHigh", "severity", "critical", "name", "orders")},
			map[string][]string{"default": {"WebhookDeliveryFailureHigh"}},
		},
	}
}

// eachAlone are all alerts, each the only one of its cluster: there is a route
// for every severity.
func eachAlone(printed printedAlerts) []routing {
	receivers := map[string]string{"critical": "page", "warning": "ticket", "info": "digest"}
	var out []routing
	for name, labels := range printed {
		out = append(out, routing{name + " alone", []sent{printed.about("one", name)}, map[string][]string{receivers[labels["severity"]]: {name}}})
	}
	return out
}

// TestNotifications sends alerts through a real Alertmanager with the shipped
// example of routes, and counts who is notified of what.
func TestNotifications(t *testing.T) {
	t.Parallel()
	ours, enhancement := printAlerts(t), printAlerts(t, "--severities=enhancement")
	all := append(routings(ours, enhancement), eachAlone(ours)...)
	r := newReceiver(t)
	pager := newPager(t)
	alertmanager := startAlertmanager(t, r.URL, pager.URL)

	testenv.Must(t, send(t.Context(), alertmanager, all, func(sent) bool { return true }, time.Time{}))
	eventually(t, func(context.Context) error { return r.notified(all) })
	testenv.Must(t, pager.showed("trigger", "WebhookFailingClosed (critical), webhook one", "Runbook: https://example.com/WebhookFailingClosed.md", "start with kubectl"))

	now := time.Now()
	testenv.Must(t, send(t.Context(), alertmanager, all, func(s sent) bool { return s.suppressed }, now))
	testenv.Must(t, send(t.Context(), alertmanager, all, func(s sent) bool { return !s.suppressed }, now))
	eventually(t, func(context.Context) error { return r.resolved(all) })
	testenv.Must(t, r.notified(all)) // and nothing else, in between
	testenv.Must(t, pager.showed("resolve", ""))
}

// startAlertmanager runs one with the routes and templates of the example until
// the end of the test, and returns its URL.
func startAlertmanager(t *testing.T, notify, pager string) string {
	t.Helper()
	config, err := monitoring.ReadYAML("../../../rules/alertmanager.yaml")
	testenv.Must(t, err)
	route := config["route"].(map[string]any)
	testenv.Must(t, monitoring.ScaleRoute(route, routeScale))
	route["group_wait"], route["group_interval"] = "1s", "1s" // of what is not ours
	templates, err := filepath.Abs("../../../rules/*.tmpl")
	testenv.Must(t, err)
	config["templates"] = []string{templates}
	config["global"] = map[string]any{"pagerduty_url": pager}
	for _, listed := range config["receivers"].([]any) {
		toWebhook(listed.(map[string]any), notify)
	}
	dir := t.TempDir()
	text, err := json.Marshal(config)
	testenv.Must(t, err)
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "alertmanager.json"), text, 0o600))
	ports, err := process.FreePorts(1)
	testenv.Must(t, err)
	url := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	binaries, err := programs.Monitoring()
	testenv.Must(t, err)
	program, err := filepath.Abs(filepath.Join(binaries, "alertmanager"))
	testenv.Must(t, err)
	p, err := process.SparinglyIn(dir, program, filepath.Join(dir, "log"), "--config.file=alertmanager.json", "--storage.path=data",
		"--web.listen-address="+monitoring.Address(url), "--cluster.listen-address=")
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, p.Stop()) })
	testenv.Must(t, p.Await(t.Context(), func(ctx context.Context) error { return monitoring.Get(ctx, url+"/-/ready", nil) }))
	return url
}

// toWebhook has a receiver of the example post its notifications, resolved ones
// if it sends these, and pages be sent to the pager as well.
func toWebhook(receiver map[string]any, notify string) {
	resolved := true
	if emails, ok := receiver["email_configs"].([]any); ok {
		resolved, _ = emails[0].(map[string]any)["send_resolved"].(bool)
	}
	if pages, ok := receiver["pagerduty_configs"].([]any); ok {
		resolved, _ = pages[0].(map[string]any)["send_resolved"].(bool)
	}
	delete(receiver, "email_configs")
	receiver["webhook_configs"] = []map[string]any{{"url": notify, "send_resolved": resolved}}
}

// send sends the selected alerts of all incidents at once; those that have ended
// say when.
func send(ctx context.Context, alertmanager string, all []routing, selected func(sent) bool, ended time.Time) error {
	var posted []map[string]any
	for _, r := range all {
		for _, s := range r.alerts {
			if !selected(s) {
				continue
			}
			labels := maps.Clone(s.labels)
			labels["cluster"] = r.name
			alert := map[string]any{"labels": labels, "annotations": map[string]string{
				"summary":     "Something is wrong.",
				"description": "start with kubectl",
				"runbook_url": "https://example.com/" + labels["alertname"] + ".md",
			}}
			if !ended.IsZero() {
				alert["endsAt"] = ended
			}
			posted = append(posted, alert)
		}
	}
	body, err := json.Marshal(posted)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, alertmanager+"/api/v2/alerts", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("sending alerts: %s: %s", response.Status, text)
	}
	return nil
}

// notified wants exactly the notifications that the incidents must lead to. Those
// that repeat what was sent before do not count.
func (r *receiver) notified(all []routing) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	have, seen := map[string]map[string][]string{}, map[string]bool{}
	for _, n := range r.got {
		names := map[string][]string{}
		for _, a := range n.Alerts {
			id := fmt.Sprint(n.Receiver, a.Labels)
			if a.Status == "firing" && !seen[id] {
				seen[id] = true
				names[a.Labels["cluster"]] = append(names[a.Labels["cluster"]], a.Labels["alertname"])
			}
		}
		for cluster, in := range names {
			if have[cluster] == nil {
				have[cluster] = map[string][]string{}
			}
			slices.Sort(in)
			have[cluster][n.Receiver] = append(have[cluster][n.Receiver], strings.Join(in, " "))
		}
	}
	var failures []error
	for _, routing := range all {
		if got := have[routing.name]; fmt.Sprint(got) != fmt.Sprint(routing.want) {
			failures = append(failures, fmt.Errorf("%s: notifications are %q, want %q", routing.name, got, routing.want))
		}
	}
	return errors.Join(failures...)
}

// resolved wants the receivers to learn that it is over, except those of a digest.
func (r *receiver) resolved(all []routing) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	over := map[string]bool{}
	for _, n := range r.got {
		for _, a := range n.Alerts {
			if a.Status == "resolved" {
				over[fmt.Sprint(n.Receiver, a.Labels["cluster"], a.Labels["alertname"])] = true
			}
		}
	}
	for _, routing := range all {
		for receiver, notifications := range routing.want {
			for name := range strings.FieldsSeq(strings.Join(notifications, " ")) {
				if over[fmt.Sprint(receiver, routing.name, name)] == (receiver == "digest") {
					return fmt.Errorf("%s: %s of %s resolved: %t", routing.name, name, receiver, receiver == "digest")
				}
			}
		}
	}
	return nil
}

// pager takes what is sent to PagerDuty.
type pager struct {
	*httptest.Server
	mu  sync.Mutex
	got map[string]string // what it shows, by the action
}

func newPager(t *testing.T) *pager {
	t.Helper()
	p := &pager{got: map[string]string{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		text, _ := io.ReadAll(request.Body)
		var event struct {
			Action  string `json:"event_action"`
			Payload struct {
				Summary string
				Details map[string]any `json:"custom_details"`
			}
		}
		if err := json.Unmarshal(text, &event); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.got[event.Action] += event.Payload.Summary + fmt.Sprint(event.Payload.Details["alerts"])
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(p.Close)
	return p
}

// showed wants all of these in what was sent with the action.
func (p *pager) showed(action string, want ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	got, sent := p.got[action]
	for _, w := range want {
		if !sent || !strings.Contains(got, w) {
			return fmt.Errorf("PagerDuty was sent no %s with %q:\n%s", action, w, got)
		}
	}
	return nil
}
