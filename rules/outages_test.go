package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/rules"

	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// A scene is what happens from the first hour on to the calls of four webhooks of
// one Service, or of several, on three API servers, each of which makes a call a second.
type scene struct {
	name string
	// fails reports whether the calls that an API server makes at a second fail.
	fails func(instance string, second int) bool
	// hang says that those take until their timeout; found is a check that reports the
	// Service while it is down, and deleted when the configurations are deleted, in
	// seconds; 0 if they are not.
	hang    bool
	found   string
	deleted int
	// apart says that each webhook has a Service in a namespace of its own; longer is for
	// how many seconds more it is evaluated.
	apart  bool
	longer int
}

const (
	outageBegins = 1 * hour
	outageEnds   = outageBegins + 40*60
)

// last is when evaluating ends: no alert outlasts its cause by an hour.
func (o scene) last() int { return outageEnds + hour + o.longer }

func lasts(second int) bool { return outageBegins <= second && second < outageEnds }

func everywhere(_ string, second int) bool { return lasts(second) }

var scenes = []scene{
	{name: "a backend loses its endpoints", fails: everywhere, found: "no-ready-endpoints"},
	{name: "one of three API servers reaches no webhook", fails: func(instance string, second int) bool { return instance == "c" && lasts(second) }},
	{name: "no API server reaches any webhook", fails: everywhere, apart: true},
	{name: "calls of a backend hang", fails: everywhere, hang: true},
	{name: "a backend comes and goes", fails: func(_ string, second int) bool {
		return outageBegins <= second && second < outageBegins+2*hour && second%(15*60) < 3*60
	}, longer: 80 * 60},
	{name: "configurations are deleted to end an outage", fails: everywhere, deleted: outageBegins + 20*60},
	{name: "the wrong CA bundle is deployed", fails: everywhere, found: "ca-bundle-invalid"},
}

// A notice is an alert that fires from a time until another, as Prometheus sends
// it to Alertmanager.
type notice struct {
	Labels labels.Labels `json:"labels"`
	From   string        `json:"from"`
	To     string        `json:"to"`
}

// TestOutages holds which alerts fire when in the outages. The notifications that
// Alertmanager makes of them are tested beside it, in e2e/suites/alerts.
func TestOutages(t *testing.T) {
	t.Parallel()
	series, last := map[string][]string{}, 0
	for _, o := range scenes {
		series[o.name], last = o.series(), max(last, o.last())
	}
	file := groupFile(t, silentGroupsOf(t, allNames()...))
	fires := evaluateFile(t, file, tick, inClusters(series)).evaluateSpan((outageBegins-10*60)*time.Second, time.Duration(last)*time.Second, minute)
	got := make(map[string][]notice, len(scenes))
	for _, o := range scenes {
		got[o.name] = o.notices(fires)
	}
	encoded := must.Get(json.MarshalIndent(got, "", "  "))(t)
	golden.Compare(t, "outages.json", append(encoded, '\n'))
}

func (o scene) notices(fires func(cluster string, offset time.Duration) []*rules.Alert) []notice {
	begins, out := map[string]int{}, []notice{}
	for at := outageBegins - 10*60; at <= o.last(); at += 60 {
		now := time.Duration(at) * time.Second
		firing := map[string]bool{}
		for _, a := range fires(o.name, now) {
			of := labels.NewBuilder(a.Labels).Del("cluster").Labels()
			key := of.String()
			firing[key] = true
			if _, ok := begins[key]; !ok {
				begins[key] = len(out)
				out = append(out, notice{Labels: of, From: now.String()})
			}
		}
		for key, n := range begins {
			if !firing[key] {
				out[n].To = now.String()
				delete(begins, key)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b notice) int { return strings.Compare(a.Labels.String(), b.Labels.String()) })
	return out
}

// series are all that is scraped in the outage.
func (o scene) series() []string {
	ticks := o.last() / 30
	out := others(ticks)
	for n := range 4 {
		namespace := "policy"
		if o.apart {
			namespace = fmt.Sprintf("policy-%d", n)
		}
		renamed := strings.NewReplacer(`name="w"`, fmt.Sprintf(`name="w%d"`, n), `configuration="c"`, fmt.Sprintf(`configuration="c%d"`, n),
			`service_namespace="policy"`, fmt.Sprintf("service_namespace=%q", namespace))
		var lines []string
		for _, instance := range []string{"a", "b", "c"} {
			for _, line := range o.calls(instance) {
				lines = append(lines, strings.Replace(line, `instance="a"`, fmt.Sprintf("instance=%q", instance), 1))
			}
		}
		for _, line := range slices.Concat(lines, o.gauge()) {
			out = append(out, renamed.Replace(line))
		}
	}
	for _, line := range audited(ticks) {
		if strings.Contains(line, "build_info") || strings.Contains(line, "snapshot_timestamp") {
			out = append(out, line)
		}
	}
	return out
}

// calls are what an API server counts of the calls of a webhook.
func (o scene) calls(instance string) []string {
	made, failures := make([]int, o.last()+1), make([]int, o.last()+1)
	for s := 1; s <= o.last(); s++ {
		made[s], failures[s] = made[s-1], failures[s-1]
		if o.deleted > 0 && s >= o.deleted {
			continue
		}
		made[s]++
		if o.fails(instance, s) {
			failures[s]++
		}
	}
	counterOf := func(value func(int) int) string { return counter(30, o.last(), value) }
	all := counterOf(func(s int) int { return made[s] })
	good := counterOf(func(s int) int { return made[s] - failures[s] })
	quick := all
	if o.hang {
		quick = good
	}
	out := failed(counterOf(func(s int) int { return failures[s] }))
	for _, line := range called("") {
		switch {
		case strings.Contains(line, "request_total"):
			line += good
		case strings.Contains(line, `le="10"`) || strings.Contains(line, "+Inf") || strings.Contains(line, "_count"):
			line += all
		default:
			line += quick
		}
		out = append(out, line)
	}
	return out
}

// known are what two auditors export of a webhook: what it is until it is deleted, and
// that its Service is down a tick after that began.
func (o scene) gauge() []string {
	times := fmt.Sprintf("x%d", o.last()/30)
	if o.deleted > 0 {
		times = fmt.Sprintf("x%d stale", o.deleted/30)
	}
	var out []string
	for _, pod := range []string{"one", "two"} {
		for _, line := range auditor(pod, "policy", times) {
			if strings.Contains(line, `name="w"`) {
				out = append(out, line)
			}
		}
		if o.found != "" {
			finding := fmt.Sprintf(`webhook_auditor_finding{instance=%q,pod=%q,name="w",type="validating",check=%q,severity="critical",configuration="c",group="",resource=""}`, pod, pod, o.found)
			out = append(out, fmt.Sprintf("%s _x%d 1x%d stale", finding, outageBegins/30, (outageEnds-outageBegins)/30))
		}
	}
	return out
}

func allNames() []string {
	var out []string
	for _, a := range all() {
		out = append(out, a.Name)
	}
	return out
}
