package rules

import (
	"fmt"
	"strings"
	"testing"
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
