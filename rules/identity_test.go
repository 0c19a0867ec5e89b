package rules

import (
	"slices"
	"strings"
	"testing"
	"time"
)

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
