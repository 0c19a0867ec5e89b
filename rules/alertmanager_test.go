package rules

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// TestAlertmanager holds that the example names only alerts that exist, and that each is notified before it is over,
// but for those of a digest, which is days apart. check.sh and the end-to-end tests load it into the real thing.
func TestAlertmanager(t *testing.T) {
	text := must.Get(os.ReadFile("alertmanager.yaml"))(t)
	names := regexp.MustCompile(`\bWebhook\w+`).FindAllString(string(text), -1)
	if len(names) == 0 {
		t.Fatal("found no alert")
	}
	for _, name := range names {
		if !slices.ContainsFunc(all(), func(a Alert) bool { return a.Name == name }) {
			t.Errorf("there is no alert %s", name)
		}
	}
	for _, interval := range regexp.MustCompile(`group_interval: (\d+[ms])`).FindAllStringSubmatch(string(text), -1) {
		if parsedTime(t, interval[1]) > groupInterval {
			t.Errorf("a group waits for %s: alerts last for %s", interval[1], groupInterval)
		}
	}
}

// TestOneSeverity: an alert on a finding has the severity of the finding, and of what it
// explains, one alert on calls or requests at least has its severity, and none is more severe.
// Those of policies are apart: what API servers count of all policies of a kind is a ticket.
func TestOneSeverity(t *testing.T) {
	severities := map[string]classify.Severity{}
	var ofFindings, ofSignals []string
	for _, a := range all() {
		severities[a.Name] = a.Severity
		switch {
		case len(a.Checks) > 0 && a.Checks[0].Find == nil: // of a policy
		case len(a.Checks) > 0:
			ofFindings = append(ofFindings, a.Name)
		default:
			ofSignals = append(ofSignals, a.Name)
		}
	}
	for _, c := range classify.Checks {
		for severity, name := range c.Alerts {
			if severities[name] != severity || c.Alerts[c.Severity] == "" {
				t.Errorf("%s is %s: its alert %s is %s", c.Name, c.Severity, name, severities[name])
			}
		}
	}
	explains := map[string][]classify.Severity{}
	for _, rule := range inhibitRules(t) {
		for _, finding := range among(ofFindings, rule.Source) {
			for _, signal := range among(ofSignals, rule.Target) {
				explains[finding] = append(explains[finding], severities[signal])
			}
		}
	}
	if len(explains) < 5 {
		t.Errorf("only the alerts %v on findings explain others", explains)
	}
	for finding, signals := range explains {
		if want := severities[finding]; slices.Max(signals) != want {
			t.Errorf("%s is %s, and what it explains is %s", finding, want, slices.Max(signals))
		}
	}
}

// An inhibitRule has the alerts that match Source explain those that match Target.
type inhibitRule struct {
	Source []string `json:"source_matchers"`
	Target []string `json:"target_matchers"`
}

func inhibitRules(t *testing.T) []inhibitRule {
	t.Helper()
	text := must.Get(os.ReadFile("alertmanager.yaml"))(t)
	var read struct {
		Rules []inhibitRule `json:"inhibit_rules"`
	}
	must.Succeed(t, yaml.Unmarshal(text, &read))
	return read.Rules
}

// among are the alerts of these names that the matchers select.
func among(names, matchers []string) []string {
	selected := regexp.MustCompile(`alertname=~?"(.+)"`).FindStringSubmatch(strings.Join(matchers, "\n"))
	if selected == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(strings.Split(selected[1], "|"), name) })
}
