package rules

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// identities are the different alerts of each name that fire at the ticks, and
// at how many of these there is one.
func (p *evaluator) identities(from, to time.Duration) (different map[string][]string, ticks map[string]int) {
	p.t.Helper()
	different, ticks = map[string][]string{}, map[string]int{}
	for at := from; at <= to; at += p.tick {
		for _, a := range p.until(at) {
			name := a.Labels.Get("alertname")
			if id := a.Labels.String(); !slices.Contains(different[name], id) {
				different[name] = append(different[name], id)
			}
			ticks[name]++
		}
	}
	return different, ticks
}

// gone has the series missing from one tick to before another.
func gone(series []string, before, after string) []string {
	var out []string
	for _, s := range series {
		name, _, _ := strings.Cut(s, "} ")
		value := "1"
		if strings.Contains(s, "threshold_seconds") {
			value = "0.5"
		}
		first, second := value+before, value+after
		if strings.Contains(s, "snapshot_timestamp") {
			first, second = "0+30"+before, "5400+30"+after
		}
		out = append(out, name+"} "+first+" stale _x59 "+second)
	}
	return out
}

// TestIdentity holds that an alert is one and the same for as long as its cause
// lasts, whatever happens to the auditors in the middle of the outage.
func TestIdentity(t *testing.T) {
	failing := slices.Concat(called("0+20x360"), failed("0+10x360"), others(360))
	finding := `webhook_auditor_finding{instance="one",pod="one",check="service-missing",severity="critical",type="validating",configuration="c",name="w",group="",resource=""}`
	tests := []struct {
		name   string
		series []string
	}{
		// The auditor goes after an hour, and is back after 30 minutes.
		{"the auditor is away for 30 minutes", gone(append(auditor("one", "policy", "x360"), finding+" 1x360"), "x119", "x180")},
		{"the replicas are replaced", slices.Concat(
			append(auditor("one", "policy", "x121"), finding+" 1x121"),
			delayed(append(auditor("two", "policy", "x230"), strings.ReplaceAll(finding, `"one"`, `"two"`)+" 1x230"), 120),
		)},
		{"the backend moves", slices.Concat(
			append(auditor("one", "policy", "x121"), finding+" 1x121"),
			delayed(append(auditor("two", "moved", "x230"), strings.ReplaceAll(finding, `"one"`, `"two"`)+" 1x230"), 120),
		)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := evaluateFile(t, fileOf(t, "WebhookFailingClosed", "WebhookCallsFailing", "WebhookBackendDown"), tick, slices.Concat(failing, test.series))
			p.now = 30 * time.Minute
			p.until(45 * time.Minute)
			const from, to = 46 * time.Minute, 120 * time.Minute
			different, ticks := p.identities(from, to)
			for _, alert := range []string{"WebhookFailingClosed", "WebhookCallsFailing", "WebhookBackendDown"} {
				if ids := different[alert]; len(ids) != 1 || ticks[alert] != int((to-from)/tick)+1 || !strings.Contains(ids[0], `namespace="policy"`) {
					t.Errorf("%s is %q at %d ticks, want one at %d", alert, ids, ticks[alert], int((to-from)/tick)+1)
				}
			}
		})
	}
}

// TestLabels holds that no label of an alert is a template, and that each has the
// component.
func TestLabels(t *testing.T) {
	for _, g := range groupsOf(t, allNames()...) {
		for _, rule := range g.Rules {
			for label, value := range rule.Labels {
				if strings.Contains(value, "{{") {
					t.Errorf("%s: label %s is a template", rule.Alert, label)
				}
			}
			if rule.Alert != "" && rule.Labels["component"] != Component {
				t.Errorf("%s lacks the label component", rule.Alert)
			}
		}
	}
}

// TestHeld holds that findings outlive the auditor for 45 minutes, and that what
// was cured before ends nine minutes later and does not come back.
func TestHeld(t *testing.T) {
	finding := func(check string) string {
		return `webhook_auditor_finding{instance="one",pod="one",check="` + check + `",severity="critical",type="validating",configuration="c",name="w",group="",resource=""}`
	}
	p := evaluateFile(t, fileOf(t, "WebhookBackendDown"), tick, slices.Concat(
		auditor("one", "policy", "x120 stale"),
		[]string{finding("service-missing") + " 1x120 stale", finding("no-ready-endpoints") + " 1x60 stale"},
	))
	for _, at := range []struct {
		minute time.Duration
		want   int
	}{{20, 2}, {38, 2}, {40, 1}, {50, 1}, {61, 1}, {70, 1}, {100, 1}, {130, 0}, {180, 0}} {
		if got := p.until(at.minute * time.Minute); len(got) != at.want {
			t.Errorf("%d alerts fire after %s, want %d", len(got), at.minute*time.Minute, at.want)
		}
	}
}
