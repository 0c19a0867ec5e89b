package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/rules"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// The findings of alerts on them are reported for a while, and a scrape fails
// in between.
const (
	findingBegins = 6 * time.Minute
	findingEnds   = 80 * time.Minute
	findingLooked = 120 * time.Minute // when the last alert is resolved
)

// findingOf is a finding that an alert is about: of a webhook of its own, that
// two auditors report.
type findingOf struct {
	Alert
	check, severity, webhook, kind string
}

// findingsOfAll are findings of each check and severity that an alert has.
func findingsOfAll() []findingOf {
	var out []findingOf
	for _, a := range findingAlerts(classify.Checks) {
		kind := "validating"
		if strings.HasPrefix(a.Name, "WebhookConversion") {
			kind = "conversion"
		}
		for _, c := range a.Checks {
			for _, s := range severitiesIn.FindAllStringSubmatch(a.Expr, -1) {
				out = append(out, findingOf{a, c.Name, s[1], fmt.Sprintf("w%d.example.com", len(out)), kind})
			}
		}
	}
	return out
}

// severitiesIn finds the severities of the findings that an alert selects.
var severitiesIn = regexp.MustCompile(`severity="(\w+)"`)

// series are those of the finding and of the webhook, which pages if the
// cluster's stability depends on it.
func (f findingOf) series() []string {
	webhook := fmt.Sprintf(`type=%q,configuration="policy",name=%q`, f.kind, f.webhook)
	finding := fmt.Sprintf(`check=%q,severity=%q,%s,group="",resource=""`, f.check, f.severity, webhook)
	half := int((findingEnds - findingBegins) / time.Minute / 2)
	values := fmt.Sprintf("_x%d 1x%d _ 1x%d stale", int(findingBegins/time.Minute), half-1, half-2)
	lasts := int(findingLooked / time.Minute)
	var out []string
	for _, pod := range []string{"one", "two"} {
		target := fmt.Sprintf(`instance=%[1]q,pod=%[1]q,namespace="webhook-auditor",endpoint="https",container="auditor"`, pod)
		out = append(out,
			fmt.Sprintf(`webhook_auditor_finding{%s,%s} %s`, target, finding, values),
			fmt.Sprintf(`webhook_auditor_webhook_info{%s,%s,service_namespace="policy",service_name="hook",failure_policy="%s"} 1x%d`, target, webhook, f.policy(), lasts))
		if f.Severity == classify.Critical {
			out = append(out, fmt.Sprintf(`webhook_auditor_webhook_reach{%s,%s,class="critical",group="",resource="pods"} 1x%d`, target, webhook, lasts))
		}
	}
	return out
}

// policy is the failurePolicy of the webhook; a conversion has none.
func (f findingOf) policy() string {
	switch {
	case f.kind == "conversion":
		return ""
	case strings.HasSuffix(f.Name, "Warning") && f.severity == "warning":
		return "Ignore"
	}
	return "Fail"
}

// TestAlertOfFinding: a finding of any check, severity and type, on a webhook that the cluster depends on or not,
// raises the alert that reports name, and no other.
func TestAlertOfFinding(t *testing.T) {
	var series []string
	want := map[string]string{}
	for _, c := range classify.Checks {
		for severity := classify.Info; severity <= c.Severity && len(c.Alerts) > 0; severity++ {
			for _, kind := range []inventory.Type{inventory.Validating, inventory.Conversion, inventory.MutatingPolicy} {
				for _, isVital := range []bool{false, true} {
					isConverted := kind == inventory.Conversion && (c.ConversionAlert != "" || c.Alerts[classify.Critical] == "")
					if c.Find == nil != kind.IsPolicy() || kind == inventory.Conversion && !isConverted {
						continue
					}
					f := findingOf{
						check: c.Name, severity: severity.String(), webhook: fmt.Sprintf("w%d.example.com", len(series)), kind: string(kind),
					}
					if isVital {
						f.Severity = classify.Critical
					}
					series = append(series, f.series()...)
					if alert := c.AlertOn(severity, kind, isVital); alert.Name != "" {
						want[f.webhook] = fmt.Sprintf("%s: %s %s", c.Name, alert.Name, alert.Severity)
					}
				}
			}
		}
	}
	p := evaluateFile(t, fileOf(t, alertNames([]Group{{Alerts: findingAlerts(classify.Checks)}})...), minute, series)
	got := map[string]string{}
	for _, a := range p.until(findingEnds - minute) {
		of := a.Labels
		got[of.Get("name")] += fmt.Sprintf("%s: %s %s", of.Get("check"), of.Get("alertname"), of.Get("severity"))
	}
	expect.Equal(t, want, got)
}

// findingWorld has each alert on findings be silent before its time, fire once for what two
// auditors report, whatever happens to a scrape, and resolve.
func findingWorld() *world {
	findings := findingsOfAll()
	of := scenario{name: "findings of all checks", series: []string{fmt.Sprintf(`webhook_auditor_snapshot_timestamp_seconds{instance="one",pod="one"} 0+60x%d`, int(findingLooked/time.Minute))}}
	for _, f := range findings {
		of.series, of.alerts = append(of.series, f.series()...), append(of.alerts, f.Name)
	}
	of.wrong = func(fires firings) string {
		for at := findingStep; at <= findingLooked; at += findingStep {
			if wrong := wrongFindings(findings, fires(at), at); wrong != "" {
				return fmt.Sprintf("%s after %s", wrong, at)
			}
		}
		return ""
	}
	return &world{name: "findings", scrape: minute, step: findingStep, last: findingLooked, scenarios: []scenario{of}}
}

// findingStep is how often the findings are looked at.
const findingStep = 3 * time.Minute

func wrongFindings(findings []findingOf, alerts []*rules.Alert, offset time.Duration) string {
	fires := map[string]bool{}
	for _, a := range alerts {
		name := a.Labels.Get("name")
		if want := labelled(findings, a); fires[name] || a.Labels.String() != want {
			return fmt.Sprintf("%s fires, want %s once", a.Labels, want)
		}
		fires[name] = true
	}
	for _, f := range findings {
		silent := offset < findingBegins+f.For || offset > findingEnds+5*time.Minute+f.keepFiring()+findingStep
		must := offset >= findingBegins+f.For+findingStep && offset < findingEnds
		if fires[f.webhook] && silent || !fires[f.webhook] && must {
			return fmt.Sprintf("%s of %s fires: %t", f.Name, f.check, fires[f.webhook])
		}
	}
	return ""
}

// labelled are the labels that the alert must have.
func labelled(findings []findingOf, a *rules.Alert) string {
	i := slices.IndexFunc(findings, func(f findingOf) bool { return f.webhook == a.Labels.Get("name") })
	if i < 0 {
		return "one about a webhook that has a finding"
	}
	f := findings[i]
	policy := f.policy()
	if policy != "" {
		policy = fmt.Sprintf(`failure_policy=%q, `, policy)
	}
	return fmt.Sprintf(`{alertname=%q, check=%q, component="webhook-auditor", configuration="policy", %sname=%q, namespace="policy", service_name="hook", severity=%q, type=%q}`,
		f.Name, f.check, policy, f.webhook, f.Severity, f.kind)
}

// heldWorld has findings outlive the auditor for 45 minutes, and what was cured before end nine
// minutes later and not come back.
func heldWorld() *world {
	finding := func(check string) string {
		return `webhook_auditor_finding{instance="one",pod="one",check="` + check + `",severity="critical",type="validating",configuration="c",name="w",group="",resource=""}`
	}
	series := append(auditor("one", "policy", "x120 stale"), finding("service-missing")+" 1x120 stale", finding("no-ready-endpoints")+" 1x60 stale")
	wrong := func(fires firings) string {
		for m, want := range map[int]int{20: 2, 38: 2, 40: 1, 50: 1, 61: 1, 70: 1, 100: 1, 116: 0, 130: 0, 180: 0} {
			if got := fires(minutes(m)); len(got) != want {
				return fmt.Sprintf("%d alerts fire after %d minutes, want %d", len(got), m, want)
			}
		}
		return ""
	}
	held := scenario{"findings outlive the auditor", "held", []string{"WebhookBackendDown"}, series, wrong}
	moves := append(auditor("one", "policy", "x60 stale"), finding("service-missing")+" 1x120")
	for _, line := range auditor("two", "moved", "x60") {
		moves = append(moves, strings.Replace(line, "} ", "} _x60 ", 1))
	}
	moved := scenario{"a backend moves while it is down", "moves", []string{"WebhookBackendDown"}, moves, func(fires firings) string {
		for m := 20; m < 60; m++ {
			if got := fires(minutes(m)); len(got) != 1 || got[0].Labels.Get("namespace") != "policy" {
				return fmt.Sprintf("%v fire after %d minutes, want one in policy", got, m)
			}
		}
		return ""
	}}
	return &world{name: "held findings", scrape: tick, step: minute, last: minutes(180), scenarios: []scenario{held, moved}}
}

// TestExpiresSoonSaysWhen: the words that this alert puts in place of the check's are found there.
func TestExpiresSoonSaysWhen(t *testing.T) {
	a := expiresSoon(classify.Checks)
	for text, want := range map[string]string{a.Summary: "humanizeDuration", a.Description: "Then no call can succeed."} {
		if !strings.Contains(text, want) || strings.Contains(text, "30 days") || strings.Contains(text, "None yet") {
			t.Errorf("no %q in %q", want, text)
		}
	}
}
