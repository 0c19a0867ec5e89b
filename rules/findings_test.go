package rules

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// findingTests are the promtool tests of the alerts on findings. They are
// derived, as the alerts are.
const findingTests = "tests/findings.yaml"

func TestUpToDateFindings(t *testing.T) {
	tests := unitTests{RuleFiles: []string{"../prometheus.yaml"}, EvaluationInterval: model.Duration(tick)}
	for _, a := range findingAlerts(classify.Checks) {
		test := findingTest(a)
		for i, got := range evaluate(t, tick, &test) {
			at := &test.AlertRuleTests[i]
			if len(got) != len(at.ExpAlerts) {
				t.Fatalf("%s: %d alerts %s fire after %s, want %d", test.Name, len(got), at.Alertname, at.EvalTime, len(at.ExpAlerts))
			}
			at.ExpAlerts = got
		}
		tests.Tests = append(tests.Tests, test)
	}
	golden(t, findingTests, encodeUnitTests(t, tests))
}

// findingTest lets two auditors report a finding for long enough, with a
// failed scrape in the middle, and then no more.
func findingTest(a Alert) unitTest {
	wait := max(int(a.For/tick), 20)
	values := fmt.Sprintf("_x10 1x%d _ 1x%d stale", wait/2, wait)
	scraped := 3*wait + int(a.KeepFiring/tick)
	kind := "validating"
	if strings.HasPrefix(a.Name, "WebhookConversion") {
		kind = "conversion"
	}
	severity := selected.FindStringSubmatch(a.Expr)[1]
	webhook := fmt.Sprintf(`type=%q,configuration="policy",name="pods.policy.example.com"`, kind)
	found := fmt.Sprintf(`check=%q,severity=%q,%s,group="",resource=""`, a.Labels["check"], severity, webhook)
	known := webhook + `,service_namespace="policy"`
	test := unitTest{
		Name:     a.Labels["check"] + " as " + a.Name,
		Interval: model.Duration(tick),
		AlertRuleTests: []alertTest{
			{EvalTime: model.Duration(5*time.Minute + a.For - tick), Alertname: a.Name, ExpAlerts: []expAlert{}},
			{EvalTime: model.Duration(5*time.Minute + a.For + tick), Alertname: a.Name, ExpAlerts: []expAlert{{}}},
			{EvalTime: model.Duration(15*time.Minute + time.Duration(wait*3/2)*tick + a.KeepFiring), Alertname: a.Name, ExpAlerts: []expAlert{}},
		},
	}
	for _, pod := range []string{"one", "two"} {
		target := fmt.Sprintf(`instance=%q,pod=%q,namespace="webhook-auditor",endpoint="https",container="auditor"`, pod, pod)
		test.InputSeries = append(test.InputSeries,
			inputSeries{"webhook_auditor_finding{" + target + "," + found + "}", values},
			inputSeries{"webhook_auditor_webhook_info{" + target + "," + known + "}", fmt.Sprintf("1x%d", scraped)},
			inputSeries{"webhook_auditor_snapshot_timestamp_seconds{" + target + "}", fmt.Sprintf("0+30x%d", scraped)})
		if a.Severity == classify.Critical {
			test.InputSeries = append(test.InputSeries,
				inputSeries{"webhook_auditor_webhook_reach{" + target + "," + webhook + `,class="critical",group="",resource="pods"}`, fmt.Sprintf("1x%d", scraped)})
		}
	}
	return test
}

// selected finds the severity of the findings that an alert selects.
var selected = regexp.MustCompile(`webhook_auditor_finding\{check="[^"]+", severity="(\w+)"`)

func TestDescribe(t *testing.T) {
	for _, a := range findingAlerts(classify.Checks) {
		if len(a.Description) > 2000 {
			t.Errorf("the description of %s takes %d bytes, too many for a notification", a.Name, len(a.Description))
		}
	}
}
