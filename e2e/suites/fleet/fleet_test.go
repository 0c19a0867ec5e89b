// Package fleet has the Prometheus of two clusters, with an auditor each, read by one
// of all clusters, as rules/fleet shows it.
package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/monitoring"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/process"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/web"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

// examples is the folder of the configurations that users read.
const examples = "../../../rules/fleet"

// object is a part of a configuration. JSON is YAML, too.
type object = map[string]any

type prometheus struct{ monitoring.Stack }

func start(t *testing.T, config object, args ...string) prometheus {
	t.Helper()
	config["global"] = replaceFields(object{"scrape_interval": "1s", "evaluation_interval": "1s"}, asObject(config["global"]))
	text := testenv.Get(json.Marshal(config))(t)
	dir := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "prometheus.json"), text, 0o600))
	ports := testenv.Get(process.FreePorts(1))(t)
	binaries := testenv.Get(programs.Monitoring())(t)
	binary := testenv.Get(filepath.Abs(filepath.Join(binaries, "prometheus")))(t)
	p := prometheus{monitoring.Stack{Prometheus: fmt.Sprintf("http://127.0.0.1:%d", ports[0])}}
	running, err := process.Sparingly(dir, binary, filepath.Join(dir, "log"), append([]string{
		"--config.file=" + filepath.Join(dir, "prometheus.json"),
		"--storage.tsdb.path=" + filepath.Join(dir, "data"),
		"--web.listen-address=" + monitoring.Address(p.Prometheus),
	}, args...)...)
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, running.Stop()) })
	testenv.Eventually(t, func() error { _, err := web.Get(t.Context(), http.DefaultClient, p.Prometheus+"/-/ready"); return err })
	return p
}

func replaceFields(o any, fields object) object {
	out := maps.Clone(asObject(o))
	maps.Copy(out, fields)
	return out
}

func asObject(o any) object {
	given, ok := o.(object)
	if !ok {
		return object{}
	}
	return given
}

// example reads a configuration that users read, with other fields of its only
// scrape.
func example(t *testing.T, name string, scrape object) object {
	t.Helper()
	config := testenv.Get(monitoring.ReadYAML(filepath.Join(examples, name)))(t)
	config["scrape_configs"] = []any{replaceFields(config["scrape_configs"].([]any)[0], scrape)}
	return config
}

func targets(urls ...string) []object {
	var addresses []string
	for _, url := range urls {
		addresses = append(addresses, monitoring.Address(url))
	}
	return []object{{"targets": addresses}}
}

// installation is a cluster with an auditor and a webhook of one name in all
// clusters, whose Service exists in some.
func installation(t *testing.T, exists bool) *auditor.Auditor {
	t.Helper()
	env := testenv.New(t, cluster.Options{WithoutControllers: true})
	backend := webhook.Backend{Client: env.Kube, Namespace: "policy", Name: "hook", Server: env.Hooks}
	if exists {
		backend = env.Backend(t, "policy")
	}
	hook := testenv.Hook(backend, "/allow", testenv.Rule("", "configmaps"))
	hook.FailurePolicy = new(admissionv1.Ignore)
	env.Validate(t, "policy", hook)
	return env.Run(t)
}

// writeRules has the auditor print its alerts, with short waiting times.
func writeRules(t *testing.T) string {
	t.Helper()
	rules := testenv.Get(monitoring.ScaleRules(testenv.Command(t, "print", "rules", "--form=prometheus").Stdout, 0.03))(t)
	path := testenv.File(t, "rules.yaml", rules)
	return path
}

// TestFleet: the findings and alerts of two clusters stay those of their cluster
// where all meet, though their webhooks have the same names.
func TestFleet(t *testing.T) {
	rules := writeRules(t)
	receiver := start(t, object{}, "--web.enable-remote-write-receiver")
	clusters := map[string]prometheus{}
	for name, exists := range map[string]bool{"a": false, "b": true} {
		config := example(t, "cluster.yaml", object{"scheme": "http", "static_configs": targets(installation(t, exists).URL)})
		config["global"] = object{"external_labels": object{"cluster": name}}
		config["rule_files"] = []string{rules}
		config["remote_write"] = []any{replaceFields(config["remote_write"].([]any)[0], object{"url": receiver.Prometheus + "/api/v1/write"})}
		clusters[name] = start(t, config)
	}
	shown := example(t, "fleet.yaml", object{"static_configs": targets(clusters["a"].Prometheus, clusters["b"].Prometheus)})
	federating := start(t, shown)
	evaluating := start(t, object{
		"rule_files":     []string{rules},
		"scrape_configs": []object{replaceFields(shown["scrape_configs"].([]any)[0], object{"params": object{"match[]": []string{`{__name__=~"webhook_auditor_.+"}`}}})},
	})
	for name, fleet := range map[string]prometheus{"federation": federating, "remote write": receiver, "rules for all clusters": evaluating} {
		fleet.has(t, name, `count by (cluster) (webhook_auditor_webhook_info{configuration="policy"})`, "a", "b")
		fleet.has(t, name, `group by (cluster) (webhook_auditor_finding{check="service-missing"})`, "a")
		fleet.has(t, name, `group by (cluster) (ALERTS{alertname="WebhookBackendDownWarning",alertstate="firing"})`, "a")
	}
}

// has waits until the expression has one series for each of the clusters.
func (p prometheus) has(t *testing.T, fleet, expr string, clusters ...string) {
	t.Helper()
	testenv.EventuallyWithin(t, 2*testenv.MaxWait, func() error {
		found, err := p.Query(t.Context(), expr)
		if err != nil {
			return err
		}
		got := map[string]bool{}
		for _, sample := range found {
			got[string(sample.Metric["cluster"])] = true
		}
		for _, name := range clusters {
			if !got[name] {
				return fmt.Errorf("%s: %s has %v, not cluster %s", fleet, expr, found, name)
			}
		}
		if len(found) != len(clusters) {
			return fmt.Errorf("%s: %s has %v, want clusters %v alone", fleet, expr, found, clusters)
		}
		return nil
	})
}
