package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// A shape is a cluster as one would think of it who wants a page to be missed or one to be for
// nothing. What pages fires between minutes 60 and begins at first, goes on until the end
// without a break, and is all that is critical.
type shape struct {
	name   string
	traces []trace
	begins int
	pages  map[string]int
}

const shapeLast = 150

// each has the traces whose names begin so be what change makes of them.
func each(prefix string, change func(trace) trace, traces []trace) []trace {
	var out []trace
	for _, t := range traces {
		if strings.HasPrefix(t.series, prefix) {
			t = change(t)
		}
		out = append(out, t)
	}
	return out
}

// onServers has the API servers of these names have the series of a.
func onServers(instances []string, traces []trace) []trace {
	var out []trace
	for _, i := range instances {
		out = append(out, each("", func(t trace) trace { return t.renamed(`instance="a"`, fmt.Sprintf("instance=%q", i)) }, traces)...)
	}
	slices.SortFunc(out, func(a, b trace) int { return strings.Compare(a.series, b.series) })
	return slices.CompactFunc(out, func(a, b trace) bool { return a.series == b.series })
}

// webhooksOf are so many like w, each with a backend of its own.
func webhooksOf(count int, traces []trace) []trace {
	var out []trace
	for n := range count {
		out = append(out, each("", func(t trace) trace {
			return t.renamed(`name="w"`, fmt.Sprintf(`name="w%d"`, n)).renamed(inPolicy, fmt.Sprintf(`service_namespace="policy-%d"`, n))
		}, traces)...)
	}
	return onServers([]string{"a"}, out)
}

// knownOtherwise has two of the backends be down by a finding alone, and two by their readiness.
func knownOtherwise(traces []trace) []trace {
	return slices.DeleteFunc(traces, func(t trace) bool {
		first := strings.Contains(t.series, `name="w0"`) || strings.Contains(t.series, `name="w1"`)
		return first && strings.HasPrefix(t.series, "webhook_auditor_finding") || !first && strings.HasPrefix(t.series, "webhook_auditor_webhook_backend_ready")
	})
}

// counted is what a counter has counted until a minute.
func (t trace) counted(minute int) (out float64) {
	_, _ = fmt.Sscan(t.value(minute), &out) // nothing where it is not there
	return out
}

// countsAnew has a counter begin anew at the minutes that restarts says, and each time
// have a few calls more than it is about.
func (t trace) countsAnew(since func(minute int) int) trace {
	return trace{t.series, func(m int) string {
		at := since(m)
		n := t.counted(m) - t.counted(at)
		switch {
		case n > 0:
			return number(n + float64(at%3))
		case strings.Contains(t.series, "_bucket"): // which is there with the others of its histogram
			return "0"
		}
		return "_"
	}}
}

func eachMinute(t trace) trace { return t.countsAnew(func(m int) int { return m - 1 }) }

func at100(t trace) trace {
	return t.countsAnew(func(m int) int {
		if m < 100 {
			return 0
		}
		return 99
	})
}

func inCluster(name string, traces []trace) []trace {
	return each("", func(t trace) trace { return trace{strings.Replace(t.series, "{", `{cluster="`+name+`",`, 1), t.value} }, traces)
}

// lost has nothing be scraped for ten minutes.
func lost(minute int, traces []trace) []trace {
	return each("", func(t trace) trace { return t.except(minute, minute+1, "stale").except(minute+1, minute+10, "_") }, traces)
}

func shapes() []shape {
	const odd = `we\"b {{ $x }} %d \\ \n é`
	asked := counts(scraped+`{instance="a"}`, since(0, 10))
	outage := append(pages("calling_webhook_error"), asked)
	healthy := []trace{counts(requested("200"), since(0, 60)), limited(knownHook, 0.5), reach, seesAll, asked, info}
	hangs := append([]trace{
		counts(promql.WebhookSeconds+`_bucket{`+calledHook+`,le="0.5"}`, func(m int) int { return 60 * min(m, 60) }), counts(promql.WebhookSeconds+`_count{`+calledHook+`}`, since(0, 60)),
		counts(promql.WebhookSeconds+`_bucket{`+calledHook+`,le="2.5"}`, func(m int) int { return 60 * min(m, 60) }),
	}, healthy...)
	found := stays(`webhook_auditor_finding{`+knownHook+`,check="no-ready-endpoints",severity="critical",configuration="c",group="",resource=""}`, 1).except(0, 60, "_")
	down := append(slices.Clone(outage), found, info, gauge("webhook_backend_ready", knownHook+`,configuration="c"`, 0).except(0, 60, "1"))
	three := []string{"a", "b", "c"}
	one := map[string]int{"WebhookFailingClosed": 1}
	restless := slices.Concat(each("apiserver_", eachMinute, outage), onServers([]string{"b"}, outage[:3]))
	namesake := []trace{limited(knownHook, 2).renamed(inPolicy, `service_namespace="elsewhere"`).renamed(`pod="x"`, `pod="z"`), healthy[0].renamed(`instance="a"`, `instance="z"`)}
	return []shape{
		{"twenty alike fail at once, and their backends are gone", webhooksOf(20, down), 75, map[string]int{"WebhookFailingClosed": 20, "WebhookBackendDown": 20}},
		{"all backends are gone, as three API servers and the findings on two see it", onServers(three, knownOtherwise(webhooksOf(4, down))), 75, map[string]int{"WebhookFailingClosed": 4, "WebhookBackendDown": 2}},
		{"no API server reaches any webhook", onServers(three, webhooksOf(4, outage)), 72, map[string]int{"WebhookNoneReachable": 3}},
		{"nothing is known", onServers(three, []trace{outage[0], outage[1], outage[2], asked}), 72, one},
		{"an API server restarts each minute", onServers(three, each("apiserver_", eachMinute, healthy)), 0, nil},
		{"the only one does, in an outage", each("apiserver_", eachMinute, outage), 80, one},
		{"one of two does, in an outage", restless, 80, one},
		{"it restarts in an outage", onServers(three, each("apiserver_", at100, outage)), 72, one},
		{"it restarts while calls hang", each("apiserver_", at100, hangs), 85, map[string]int{"WebhookCriticalResourceSlow": 1}},
		{"three of four webhooks hang", append(webhooksOf(3, hangs), healthy...), 75, map[string]int{"WebhookCriticalResourceSlow": 3}},
		{"a name with odd characters", each("", func(t trace) trace { return t.renamed(`name="w"`, `name="`+odd+`"`) }, outage), 72, one},
		{"a cluster with some", inCluster(odd, outage), 72, one},
		{"a cluster with a label beside one without", slices.Concat(outage, inCluster("east", healthy)), 72, one},
		{"no calls", []trace{limited(knownHook, 0.5), reach, seesAll, asked, info}, 0, nil},
		{"two clusters of one name, in one of which it fails", append(slices.Clone(outage), namesake...), 75, one},
		{"nothing is scraped for ten minutes of health", lost(100, onServers(three, healthy)), 0, nil},
		{"nothing is scraped for ten minutes of an outage", lost(100, outage), 72, one},
		{"nothing is scraped for ten minutes in which it begins", lost(58, outage), 82, one},
		{"nothing is scraped for ten minutes while calls hang", lost(100, hangs), 85, map[string]int{"WebhookCriticalResourceSlow": 1}},
		{"nothing is scraped for ten minutes in which a backend is gone", lost(100, append(slices.Clone(healthy), found)), 75, map[string]int{"WebhookBackendDown": 1}},
		{"nothing is scraped for ten minutes while controllers hang", lost(100, append(blockedQuota(0), asked)), 80, map[string]int{"WebhookConversionBlocksControllers": 1}},
	}
}

// shapeWorld has no page be missed, none be for nothing, and none end before its cause does.
func shapeWorld() *world {
	w := &world{name: "shapes", scrape: minute, step: minute, begin: minutes(40), last: minutes(shapeLast)}
	for _, s := range shapes() {
		w.scenarios = append(w.scenarios, scenario{s.name, s.cluster(), pagingAlerts(), expectation{scrape: 1, last: shapeLast, traces: s.traces}.lines(), s.wrong})
	}
	return w
}

// pagingAlerts are those that page, but for the one which follows another alert.
func pagingAlerts() []string {
	var names []string
	for _, a := range all() {
		if a.Severity == classify.Critical && a.Name != "WebhookUnwatched" {
			names = append(names, a.Name)
		}
	}
	return names
}

func (s shape) wrong(fires firings) string {
	begun := map[string]bool{}
	for m := 40; m <= shapeLast; m++ {
		have := map[string]int{}
		for _, a := range fires(minutes(m)) {
			have[a.Labels.Get("alertname")]++
		}
		for name, n := range have {
			if m < 60 || n > s.pages[name] {
				return fmt.Sprintf("%d of %d %s fire after %d minutes", n, s.pages[name], name, m)
			}
		}
		for name, n := range s.pages {
			begun[name] = begun[name] || have[name] == n
			if have[name] != n && (begun[name] || m >= s.begins) {
				return fmt.Sprintf("%d of %d %s fire after %d minutes", have[name], n, name, m)
			}
		}
	}
	return ""
}

// textsOfShapes are what the alerts say at the end of the shapes, which cost more than all else.
func textsOfShapes(t *testing.T, w *world) {
	t.Helper()
	texts := evaluateOn(t, groupFile(t, groupsOf(t, pagingAlerts()...)), minute, w.run.storage)
	texts.eval(texts.groups, shapeLast*minute)
	for _, g := range texts.groups {
		for _, r := range g.AlertingRules() {
			for _, a := range r.ActiveAlerts() {
				if text := a.Annotations.Get("description"); text == "" || strings.Contains(text, "error expanding") {
					t.Errorf("%s: %q", a.Labels, text)
				}
			}
		}
	}
}

// cluster is where the shape is looked at: in the one that it is about, or in one of its name.
func (s shape) cluster() string {
	switch {
	case !strings.Contains(s.name, "a cluster with"):
		return s.name
	case strings.Contains(s.name, "beside one without"):
		return ""
	}
	return "we\"b {{ $x }} %d \\ \n é" // as odd is read
}
