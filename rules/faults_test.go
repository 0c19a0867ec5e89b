package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/rules"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// A trace is a series and what it says at each tick: a number, "_" where it
// says nothing, or "stale" where it ended or could not be scraped.
type trace struct {
	series string
	value  func(tick int) string
}

// Everything is watched for over two hours, minute by minute. From looked on
// every alert fires; what a fault is about happens 50 minutes before the end,
// which is longer than an alert keeps firing.
const (
	minute  = time.Minute // a tick of these tests
	watched = 135
	jumped  = 10
	begun   = 50 // of evaluating: no alert waits for more than half an hour
	looked  = 80
	happens = 85
)

// grows is a counter that grows by so much each tick, and was born at 1.
func grows(series string, perTick float64) trace {
	return trace{series, func(tick int) string { return number(1 + float64(tick)*perTick) }}
}

// changes is a counter that grows by so much each tick, and after a while by so
// much.
func changes(series string, before, after float64) trace {
	return trace{series, func(tick int) string {
		return number(1 + float64(min(tick, jumped))*before + float64(max(tick-jumped, 0))*after)
	}}
}

// stays is a gauge.
func stays(series string, value float64) trace {
	return trace{series, func(int) string { return number(value) }}
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// What an API server counts of the webhook "w", and what an auditor says of it.
const (
	calledHook   = `instance="a",name="w",type="validating",operation="CREATE"`
	calledForCRD = `instance="a",crd_name="w",from_version="v1",to_version="v2"`
	knownHook    = `instance="x",pod="x",name="w",type="validating"`
	knownForCRD  = `instance="x",pod="x",name="w",type="conversion"`
	inPolicy     = `service_namespace="policy"`
)

func requested(code string) string {
	return fmt.Sprintf(`%s{%s,code=%q}`, promql.Requests, calledHook, code)
}

func rejected(errorType string) string {
	return fmt.Sprintf(`%s{%s,error_type=%q}`, promql.Rejections, calledHook, errorType)
}

func conversions(succeeded string) string {
	return fmt.Sprintf(`%s_count{%s,succeeded=%q}`, promql.ConversionSeconds, calledForCRD, succeeded)
}

func gauge(series, webhook string, value float64) trace {
	return stays(fmt.Sprintf(`webhook_auditor_%s{%s,%s}`, series, webhook, inPolicy), value)
}

// durations are the series of a histogram: of ten calls each tick, so many are
// quicker than the edge.
func durations(name, matchers, edge string, quicker float64) []trace {
	return []trace{
		grows(fmt.Sprintf(`%s_bucket{%s,le=%q}`, name, matchers, edge), quicker),
		grows(fmt.Sprintf(`%s_bucket{%s,le="+Inf"}`, name, matchers), 10),
		grows(fmt.Sprintf(`%s_count{%s}`, name, matchers), 10),
		grows(fmt.Sprintf(`%s_sum{%s}`, name, matchers), 20),
	}
}

func perRequest(name, more string, perTick float64) trace {
	return grows(fmt.Sprintf(`%s{instance="a",verb="POST",group="",resource="pods",subresource=""%s}`, name, more), perTick)
}

var (
	info       = gauge("webhook_info", knownHook+`,configuration="c",failure_policy="Fail"`, 1)
	reach      = stays(`webhook_auditor_webhook_reach{`+knownHook+`,configuration="c",class="critical",group="",resource="pods"}`, 1)
	build      = stays(`webhook_auditor_build_info{instance="x",pod="x"}`, 1)
	blindSince = stays(`webhook_auditor_snapshot_timestamp_seconds{instance="x",pod="x"}`, 0)
	seesAll    = grows(`webhook_auditor_snapshot_timestamp_seconds{instance="x",pod="x"}`, minute.Seconds())
)

func limited(webhook string, seconds float64) trace {
	return gauge("webhook_latency_threshold_seconds", webhook, seconds)
}

// triggers are, for each signal alert, what it fires on, where that is not what it
// fires on in its case.
var triggers = map[string][]trace{
	"WebhookCallsFailing":         {grows(requested("200"), 27), grows(requested("503"), 3), grows(rejected("calling_webhook_error"), 3), limited(knownHook, 1)},
	"WebhookFailingClosed":        {grows(requested("200"), 20), grows(requested("503"), 10), grows(rejected("calling_webhook_error"), 10), limited(knownHook, 0.5), reach},
	"WebhookFailingOpen":          {grows(requested("200"), 27), grows(requested("503"), 3), grows(promql.FailedOpen+`{instance="a",name="w",type="validating"}`, 3), limited(knownHook, 1)},
	"WebhookAllCallsFailing":      {stays(requested("200"), 7), grows(requested("503"), 0.25), grows(rejected("calling_webhook_error"), 0.25), limited(knownHook, 1)},
	"WebhookCriticalResourceSlow": append(durations(promql.WebhookSeconds, calledHook, "0.5", 5), grows(requested("200"), 10), limited(knownHook, 0.5), reach),
	"WebhookSlow":                 append(durations(promql.WebhookSeconds, calledHook, "1", 5), grows(requested("200"), 10), limited(knownHook, 1)),
	"WebhookRejectionsHigh":       {changes(requested("200"), 5000, 20), changes(requested("403"), 1, 20), changes(rejected("no_error"), 1, 20), limited(knownHook, 1)},
	"WebhookMatchConditionErrors": {grows(`apiserver_admission_match_condition_evaluation_errors_total{kind="webhook",`+calledHook+`}`, 1), limited(knownHook, 1)},
	"WebhookInternalErrors":       {grows(rejected("apiserver_internal_error"), 1), limited(knownHook, 1)},
	"WebhookNotInInventory":       {grows(requested("200"), 10), seesAll},
	"WebhookConversionFailing":    {grows(conversions("true"), 9), grows(conversions("false"), 1), limited(knownForCRD, 1)},
	"WebhookConversionSlow": append(durations(promql.ConversionSeconds, calledForCRD+`,succeeded="true"`, "1.024", 5),
		grows(promql.ConversionSeconds+`_bucket{`+calledForCRD+`,succeeded="true",le="2.048"}`, 10), limited(knownForCRD, 1)),
	"WebhookConversionBlocksControllers": {
		grows(conversions("false"), 10), grows(`garbagecollector_controller_resources_sync_error_total{instance="k"}`, 0.2), limited(knownForCRD, 1),
	},
	"WebhookResourceLatencyHigh": {
		perRequest("apiserver_request_duration_seconds_sum", `,dry_run=""`, 20),
		perRequest("apiserver_request_sli_duration_seconds_sum", "", 1),
		perRequest("apiserver_request_sli_duration_seconds_count", "", 10),
		reach,
	},
	"WebhookErrorsExplained":     {grows(rejected("calling_webhook_error"), 3), grows(`apiserver_request_total{instance="a",verb="POST",resource="pods",code="500"}`, 4)},
	"WebhookInputMetricsMissing": {seesAll, stays(gcErrors+`{instance="k"}`, 0), stays(longestRun+`{instance="k",name="namespace"}`, 0), stays(queued+`{instance="k",name="namespace"}`, 0)},
	"WebhookAuditorDown":         {},
	"WebhookNoneReachable":       unreachable(),
	"WebhookAuditorStale":        {build, blindSince},
}

// allTriggers are those of all signal alerts.
func allTriggers(t *testing.T) map[string][]trace {
	t.Helper()
	out := maps.Clone(triggers)
	for _, g := range Groups() {
		for _, a := range g.Alerts {
			if _, exists := out[a.Name]; !exists && len(a.Checks) == 0 {
				out[a.Name] = triggersOf(t, a.Name)
			}
		}
	}
	return out
}

// unreachable are two webhooks that one API server does not reach and another
// does.
func unreachable() []trace {
	var out []trace
	for _, name := range []string{"one", "two"} {
		for _, t := range []trace{
			grows(requested("503"), 20), grows(rejected("calling_webhook_error"), 20),
			grows(requested("200"), 20).renamed(`instance="a"`, `instance="other"`),
		} {
			out = append(out, t.renamed(`name="w"`, fmt.Sprintf("name=%q", name)))
		}
	}
	return out
}

// An alertCase is an alert, and what it fires on about a webhook of its own.
type alertCase struct {
	Alert
	webhook string
	traces  []trace
}

// alertCases are all signal alerts and, for those on findings, which are derived
// alike, the first.
func alertCases(t *testing.T) []alertCase {
	t.Helper()
	var out []alertCase
	triggers := allTriggers(t)
	for _, g := range Groups() {
		for _, a := range g.Alerts {
			traces, exists := triggers[a.Name]
			if len(a.Checks) > 0 && a.Checks[0] == classify.Checks[0] {
				found := fmt.Sprintf(`check=%q,severity=%q,configuration="c",group="",resource=""`, a.Checks[0].Name, a.Severity)
				traces, exists = []trace{stays(`webhook_auditor_finding{`+knownHook+`,`+found+`}`, 1), info, reach}, true
			} else if len(a.Checks) > 0 {
				continue
			}
			if a.Name == "WebhookUnwatched" {
				continue // it follows another alert, see testdata/cases
			}
			if !exists || traces == nil {
				t.Errorf("nothing is known to make %s fire", a.Name)
			}
			s := alertCase{Alert: a, webhook: strings.ToLower(a.Name)}
			for _, trace := range traces {
				s.traces = append(s.traces, trace.renamed(`name="w"`, fmt.Sprintf("name=%q", s.webhook)))
			}
			out = append(out, s)
		}
	}
	return out
}

// isGlobal reports whether the alert is about all that there is, or is not.
func (s alertCase) isGlobal() bool {
	return slices.Contains([]string{"WebhookInputMetricsMissing", "WebhookAuditorDown", "WebhookAuditorStale", "WebhookAuditorPolicyInvalid", "WebhookErrorsExplained", "WebhookNoneReachable", "WebhookResourceLatencyHigh", "WebhookPolicyConfigErrors"}, s.Name)
}

// hasBackend reports whether the alert says where the webhook's backend is.
func (s alertCase) hasBackend() bool {
	return strings.Contains(s.Expr, "group_left (namespace)") || len(s.Checks) > 0
}

func (s alertCase) owns(l labels.Labels) bool {
	return l.Get("alertname") == s.Name && (l.Get("name") == "" || l.Get("name") == s.webhook)
}

func (t trace) renamed(old, name string) trace {
	return trace{strings.ReplaceAll(t.series, old, name), t.value}
}

// except says something else for some ticks.
func (t trace) except(begin, before int, says string) trace {
	return trace{t.series, func(tick int) string {
		if tick >= begin && tick < before {
			return says
		}
		return t.value(tick)
	}}
}

// during says nothing at other times.
func (t trace) during(begin, before int) trace {
	return t.except(0, begin, "_").except(before, watched+1, "stale")
}

// restarted loses what it counted; a counter that counted nothing is not there, what
// says how something is says so again.
func (t trace) restarted() trace {
	if strings.Contains(t.series, "_info{") {
		return t
	}
	return trace{t.series, func(tick int) string {
		if tick < happens {
			return t.value(tick)
		}
		was, _ := strconv.ParseFloat(t.value(happens), 64)
		has, _ := strconv.ParseFloat(t.value(tick), 64)
		if has <= was {
			return "stale"
		}
		return number(has - was)
	}}
}

// born begins a while later, if it counts anything.
func (t trace) born(later int) trace {
	if t.value(0) == t.value(watched) {
		return t
	}
	return trace{t.series, func(tick int) string { return t.value(max(tick-later, 0)) }}.during(later, watched+1)
}

func (t trace) idle() trace { return trace{t.series, func(int) string { return t.value(0) }} }

// A fault is something that happens in clusters, to be tried on every alert
// that it can touch.
type fault struct {
	name string
	// prefix is of the series that it happens to.
	prefix  string
	happens func(t trace) []trace
	// silences says that the alert must not fire; else one and the same must
	// fire all the time.
	silences bool
	// namespaces are what the label may be, where the alert has it.
	namespaces string
}

var faults = []fault{
	{"nothing", "", func(t trace) []trace { return []trace{t} }, false, "policy"},
	{"a failed scrape", "", func(t trace) []trace { return []trace{t.except(happens, happens+1, "stale")} }, false, "policy"},
	{"counters born while watched", "apiserver_", func(t trace) []trace { return []trace{t.born(10)} }, false, "policy"},
	{"idle webhooks", "apiserver_", func(t trace) []trace { return []trace{t.idle()} }, true, ""},
	{"an API server restarts", "apiserver_", func(t trace) []trace { return []trace{t.restarted()} }, false, "policy"},
	{"one of several API servers restarts", "apiserver_", func(t trace) []trace {
		return []trace{t, t.renamed(`instance="a"`, `instance="b"`).restarted(), t.renamed(`instance="a"`, `instance="c"`)}
	}, false, "policy"},
	{"API servers that write edges in two ways", "apiserver_", func(t trace) []trace {
		return []trace{t, t.renamed(`instance="a"`, `instance="b"`).renamed(`le="1"`, `le="1.0"`)}
	}, false, "policy"},
	{"an idle webhook of another type has the name", "apiserver_", func(t trace) []trace {
		other := t.renamed(`type="validating"`, `type="admit"`).idle()
		if other.series == t.series {
			return []trace{t}
		}
		return []trace{t, other}
	}, false, "policy"},
	{"two configurations have the name", "webhook_auditor_webhook_", func(t trace) []trace {
		if strings.Contains(t.series, "configuration=") {
			return []trace{t, t.renamed(`configuration="c"`, `configuration="d"`)}
		}
		return []trace{t.renamed(inPolicy, `service_namespace=""`)}
	}, false, "policy or nowhere"},
	{"a webhook behind a URL", "webhook_auditor_webhook_", func(t trace) []trace {
		return []trace{t.renamed(inPolicy, `service_namespace=""`)}
	}, false, "nowhere"},
	{"two auditors", "webhook_auditor_", func(t trace) []trace { return []trace{t, t.second()} }, false, "policy"},
	{"two auditors disagree for a minute", "webhook_auditor_", func(t trace) []trace {
		agrees := t.second()
		moved := agrees.renamed(inPolicy, `service_namespace="moved"`)
		if moved.series == agrees.series {
			return []trace{t, agrees}
		}
		return []trace{t, agrees.except(happens, happens+2, "stale"), moved.during(happens, happens+2)}
	}, false, "policy"},
	{"an old and a new auditor at once", "webhook_auditor_", func(t trace) []trace {
		return []trace{t.during(0, happens+10), t.second().during(happens, watched+1)}
	}, false, "policy"},
	{"an auditor restarts", "webhook_auditor_", func(t trace) []trace { return []trace{t.except(happens, happens+4, "stale")} }, false, "policy"},
}

// second is what another auditor says.
func (t trace) second() trace { return t.renamed(`instance="x",pod="x"`, `instance="y",pod="y"`) }

// touches reports whether a fault can change what an alert fires on.
func (f fault) touches(traces []trace) bool {
	return f.prefix == "" || slices.ContainsFunc(traces, func(t trace) bool { return strings.HasPrefix(t.series, f.prefix) })
}

// lines returns the series with the fault.
func (f fault) lines(traces []trace) []string {
	var out []string
	for _, t := range traces {
		changed := []trace{t}
		if strings.HasPrefix(t.series, f.prefix) {
			changed = f.happens(t)
		}
		for _, b := range changed {
			var line strings.Builder
			line.WriteString(b.series)
			for tick := range watched + 1 {
				line.WriteString(" " + b.value(tick))
			}
			out = append(out, line.String())
		}
	}
	return out
}

// faultWorld has everything happen that happens in clusters while each alert fires: each fault
// in a cluster of its own, and beside it one for each alert about all that there is.
func faultWorld(t *testing.T) *world {
	t.Helper()
	var together []alertCase
	var batches [][]alertCase
	for _, s := range alertCases(t) {
		if s.isGlobal() {
			batches = append(batches, []alertCase{s})
		} else {
			together = append(together, s)
		}
	}
	w := &world{name: "faults", scrape: minute, step: minute, begin: minutes(begun), last: minutes(watched)}
	for _, f := range faults {
		for n, batch := range append(batches, together) {
			var touched []alertCase
			of := scenario{name: fmt.Sprintf("%s, %d", f.name, n)}
			for _, s := range batch {
				if len(s.traces) > 0 && f.touches(s.traces) {
					touched = append(touched, s)
					of.series, of.alerts = append(of.series, f.lines(s.traces)...), append(of.alerts, s.Name)
				}
			}
			of.cluster, of.wrong = of.name, func(fires firings) string { return f.wrong(touched, fires) }
			w.scenarios = append(w.scenarios, of)
		}
	}
	return w
}

// wrong holds the alerts while the fault happens.
func (f fault) wrong(alertCases []alertCase, fires firings) string {
	seen := map[string]string{}
	for m := looked; m <= watched; m++ {
		for _, s := range alertCases {
			if wrong := f.check(s, firingOf(fires(minutes(m)), s.Name), seen); wrong != "" {
				return fmt.Sprintf("%s %s after %d minutes", s.Name, wrong, m)
			}
		}
	}
	return ""
}

// check holds one alert at one time. An alert on an auditor distinguishes several
// of them; any other must be the same all the time.
func (f fault) check(s alertCase, fires []*rules.Alert, identities map[string]string) string {
	own := slices.DeleteFunc(fires, func(a *rules.Alert) bool { return !s.owns(a.Labels) })
	silences := f.silences && s.Name != "WebhookManifestsDiffer" // which is about no calls
	if silences == (len(own) > 0) {
		return fmt.Sprintf("is %d alerts, want none: %t,", len(own), silences)
	}
	for _, a := range own {
		identity := labels.NewBuilder(a.Labels).Del("instance", "pod").Labels().String()
		if before, fired := identities[s.Name]; fired && before != identity {
			return "is " + identity + " and " + before
		}
		identities[s.Name] = identity
		if got := cmp.Or(a.Labels.Get("namespace"), "nowhere"); s.hasBackend() && !strings.Contains(f.namespaces, got) {
			return fmt.Sprintf("has its backend in %s, want %s,", got, f.namespaces)
		}
	}
	return ""
}
