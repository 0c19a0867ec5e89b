package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
)

// interval is how often is scraped and evaluated: the shortest windows of
// scaled rules still hold several samples.
const interval = "1s"

// lookback is Prometheus' own: how long a value counts that is not renewed.
const lookback = 5 * time.Minute

// What the alerts read of the API server and of kube-controller-manager, which
// have many other series.
const (
	OfAPIServer   = "apiserver_admission_.+|apiserver_(validating|mutating)_admission_policy_check_total|apiserver_manifest_admission_config_controller_.+|apiserver_(crd_)?conversion_.+|apiserver_request_total|apiserver_request(_sli)?_duration_seconds_(sum|count)"
	OfControllers = "garbagecollector_controller_resources_sync_error_total|workqueue_longest_running_processor_seconds|workqueue_depth"
)

// object is a part of a configuration. JSON is YAML, too.
type object = map[string]any

func (s *Stack) configure(ctx context.Context) error {
	if err := s.writeRules(ctx); err != nil {
		return err
	}
	routes, err := Routes(s.options.Routes, "", s.options.TimeScale)
	if err != nil {
		return err
	}
	return errors.Join(s.writeJSON("alertmanager.json", routes), s.writeJSON("prometheus.json", s.prometheusConfig()))
}

// writeRules has the auditor print its alerts.
func (s *Stack) writeRules(ctx context.Context) error {
	printed, err := auditor.Command(ctx, s.options.Auditor, append([]string{"print", "rules", "--form=prometheus"}, s.options.Rules...)...)
	if err != nil {
		return err
	}
	if printed.Code != 0 {
		return fmt.Errorf("printing the rules: exit code %d: %s", printed.Code, printed.Stderr)
	}
	rules, err := ScaleRules(printed.Stdout, s.options.TimeScale)
	if err != nil {
		return err
	}
	return os.WriteFile(s.path("rules.yaml"), rules, 0o600)
}

func (s *Stack) prometheusConfig() object {
	o := s.options
	apiServer := s.secured("apiserver", []string{o.APIServer.Host}, object{"regex": OfAPIServer, "action": "keep"}, object{"regex": o.Without, "action": "drop"})
	jobs := []object{apiServer, {"job_name": "webhook-auditor", "static_configs": targets(o.Auditors...)}}
	if o.Controllers != "" {
		jobs = append(jobs, s.secured("kube-controller-manager", []string{o.Controllers}, object{"regex": OfControllers, "action": "keep"}))
	}
	return object{
		"global":         object{"scrape_interval": interval, "evaluation_interval": interval},
		"rule_files":     []string{s.path("rules.yaml")},
		"alerting":       object{"alertmanagers": []object{{"static_configs": targets(s.Alertmanager)}}},
		"scrape_configs": jobs,
	}
}

// secured scrapes servers of the control plane, and keeps or drops series by
// their names.
func (s *Stack) secured(job string, hosts []string, byName ...object) object {
	is := s.options.APIServer
	for _, rule := range byName {
		rule["source_labels"] = []string{"__name__"}
	}
	return object{
		"job_name": job,
		"scheme":   "https",
		// Compressing for the loopback would cost a busy machine whole scrapes.
		"enable_compression":     false,
		"static_configs":         targets(hosts...),
		"tls_config":             object{"ca": string(is.CAData), "cert": string(is.CertData), "key": string(is.KeyData)},
		"metric_relabel_configs": byName,
	}
}

// Routes is the configuration of Alertmanager in a file, with waiting times scaled as
// those of the alerts, and receivers that notify a URL; "" for none.
func Routes(path, notify string, scale float64) (object, error) {
	config, err := ReadYAML(path)
	if err != nil {
		return nil, err
	}
	route, ok := config["route"].(object)
	receivers, ok2 := config["receivers"].([]any)
	if !ok || !ok2 {
		return nil, fmt.Errorf("%s lacks a route or receivers", path)
	}
	if err := scaleRoute(route, scale); err != nil {
		return nil, fmt.Errorf("scaling the routes of %s: %w", path, err)
	}
	for i, r := range receivers {
		receiver, _ := r.(object)
		replaced := object{"name": receiver["name"]}
		if notify != "" {
			replaced["webhook_configs"] = []object{{"url": notify, "send_resolved": true}}
		}
		receivers[i] = replaced
	}
	templates, err := filepath.Abs(filepath.Join(filepath.Dir(path), "*.tmpl"))
	if err != nil {
		return nil, err
	}
	config["templates"] = []string{templates}
	return config, nil
}

// scaleRoute scales how long a route and those below it wait for further alerts. How
// often a page is repeated stays as it is: a test that repeats pages could not
// count incidents.
func scaleRoute(route object, factor float64) error {
	if err := scaleTimes(route, factor); err != nil {
		return err
	}
	below, _ := route["routes"].([]any)
	for _, r := range below {
		if child, ok := r.(object); ok {
			if err := scaleRoute(child, factor); err != nil {
				return err
			}
		}
	}
	return nil
}

// ReadYAML reads a file of one document.
func ReadYAML(path string) (object, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var read object
	if err := yaml.Unmarshal(text, &read); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return read, nil
}

func (s *Stack) writeJSON(name string, value object) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return os.WriteFile(s.path(name), text, 0o600)
}

// targets are static scrape targets, given as URLs.
func targets(urls ...string) []object {
	var addresses []string
	for _, url := range urls {
		addresses = append(addresses, Address(url))
	}
	return []object{{"targets": addresses}}
}

// Address is the host and port of a URL without path.
func Address(url string) string {
	return url[strings.LastIndex(url, "/")+1:]
}
