package rules

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/observed"
)

// An expectation is when an alert must fire, and when it must not, in minutes; of several
// alerts, with spaces between them, none may.
type expectation struct {
	name, alert string
	traces      []trace
	// scrape and step are how many minutes are between scrapes and evaluations.
	scrape, step int
	// begin is when evaluating begins; the alert is silent before silent, and
	// fires all the time between begins and ends. It never fires if ends is 0.
	begin, silent, begins, ends int
	// last is when evaluating ends.
	last int
}

// counts is a counter that says at each minute what it counted until then.
func counts(series string, until func(minute int) int) trace {
	return trace{series, func(minute int) string {
		if n := until(minute); n > 0 {
			return number(float64(n))
		}
		return "_"
	}}
}

// slower counts one of so many.
func (t trace) slower(n int) trace {
	return counts(t.series, func(m int) int { return int(t.counted(m)) / n })
}

// since counts so many a minute from a minute on.
func since(begin, perMinute int) func(int) int {
	return func(minute int) int { return max(minute-begin, 0) * perMinute }
}

// lines writes a value each scrape.
func (e expectation) lines() []string {
	var out []string
	for _, t := range e.traces {
		var b strings.Builder
		b.WriteString(t.series)
		for minute := 0; minute <= e.last; minute += e.scrape {
			b.WriteString(" " + t.value(minute))
		}
		out = append(out, b.String())
	}
	return out
}

// gapped has the first four of ten minutes without a scrape.
func gapped(traces []trace) []trace {
	return each("", func(t trace) trace {
		return trace{t.series, func(minute int) string {
			if minute%10 < 4 {
				return "stale"
			}
			return t.value(minute)
		}}
	}, traces)
}

// pages is a webhook on critical resources, of which all calls fail from minute
// 60 on.
func pages(errorType string) []trace {
	return []trace{
		counts(requested("200"), func(m int) int { return 60 * min(m, 60) }), counts(requested("503"), since(60, 60)),
		counts(rejected(errorType), since(60, 60)), limited(knownHook, 0.5), reach, seesAll,
	}
}

// inTurn are matchConditions that cannot be evaluated on one API server after the
// other.
func inTurn() []trace {
	out := []trace{limited(knownHook, 0.5), reach, seesAll, gauge("webhook_failure_impact", knownHook+`,impact="closed"`, 1)}
	for i, instance := range []string{"a", "b", "c"} {
		series := strings.Replace(matchConditionErrors, "{", `{`+strings.Replace(calledHook, `"a"`, `"`+instance+`"`, 1)+`,`, 1)
		out = append(out, counts(series, func(m int) int {
			total := 0
			for past := 60; past < m; past++ {
				if past/5%3 == i {
					total += 20
				}
			}
			return total
		}))
	}
	return out
}

// idleThenRefusing answered everything, was idle for six and a half hours, and
// then refuses half of what it is asked.
func idleThenRefusing() []trace {
	return []trace{
		counts(requested("200"), func(m int) int { return 100*min(m, 60) + since(450, 10)(m) }),
		counts(requested("403"), since(450, 10)), counts(rejected("no_error"), since(450, 10)), limited(knownHook, 1),
	}
}

// clumpy is called ten times each ten minutes, and each call takes ten seconds.
func clumpy() []trace {
	calls := func(m int) int { return 10 * max(0, (m-60)/10) }
	quick := stays(promql.WebhookSeconds+`_bucket{`+calledHook+`,le="1"}`, 1)
	return []trace{
		quick, counts(promql.WebhookSeconds+`_count{`+calledHook+`}`, func(m int) int { return 1 + calls(m) }),
		counts(requested("200"), func(m int) int { return 1 + calls(m) }), limited(knownHook, 1),
	}
}

var buildOfEast = stays(`webhook_auditor_build_info{cluster="east",instance="x",pod="x"}`, 1)

// neverCalledBefore are three calls to a webhook, all of which fail.
func neverCalledBefore() []trace {
	thrice := func(minute int) int { return min(since(90, 3)(minute), 3) }
	return []trace{
		counts(requested("503"), thrice), counts(rejected("calling_webhook_error"), thrice),
		counts(scraped+`{instance="a"}`, since(0, 1)), limited(knownHook, 1),
	}
}

// blockedQuota are conversions that fail from minute 60 on, and a resource quota
// controller that was started anew then: the quota that waits longest has been worked
// on for so many seconds.
func blockedQuota(running float64) []trace {
	const queue = `{instance="k",name="resourcequota_primary"}`
	return []trace{
		counts(conversions("true"), func(m int) int { return 10 * min(m, 60) }), counts(conversions("false"), since(60, 10)), limited(knownForCRD, 1), seesAll,
		stays(gcErrors+`{instance="k"}`, 0), stays(longestRun+`{instance="k",name="namespace"}`, 0),
		stays(queued+queue, 3).except(0, 60, "0"), stays(longestRun+queue, running),
	}
}

// calls are those of an API server for an operation, all of which fail from a minute on, by a
// pattern of each hour if there is one.
func calls(instance, operation string, perMinute int, fails func(minute int) bool) []trace {
	failed := func(m int) int {
		if fails(m) {
			return perMinute
		}
		return 0
	}
	return each("", func(t trace) trace {
		return t.renamed(`instance="a"`, `instance="`+instance+`"`).renamed("CREATE", operation)
	}, counted(func(int) int { return perMinute }, failed))
}

// counted are calls, of which some fail: so many in each minute.
func counted(called, failed func(minute int) int) []trace {
	answered := func(m int) int { return called(m) - failed(m) }
	return []trace{
		counts(promql.Requests+`{`+calledHook+`,code="200",rejected="false"}`, summed(answered)), counts(promql.Requests+`{`+calledHook+`,code="503",rejected="true"}`, summed(failed)),
		counts(promql.Rejections+`{`+calledHook+`,error_type="calling_webhook_error",rejection_code="503"}`, summed(failed)),
	}
}

// summed sums up what is counted in each minute.
func summed(perMinute func(minute int) int) func(int) int {
	return func(m int) (n int) {
		for past := range m {
			n += perMinute(past)
		}
		return n
	}
}

// partly are such calls to a webhook on critical resources, of which one failed long ago.
func partly(called, failed func(minute int) int) []trace {
	all := func(count func(int) int) func(int) int {
		return func(m int) int {
			if m == 0 {
				return count(0) + 1
			}
			return count(m)
		}
	}
	return append(counted(all(called), all(failed))[:3], limited(knownHook, 0.5), reach, seesAll)
}

// often is so many in each minute, seldom one in so many minutes.
func often(n int) func(int) int { return func(int) int { return n } }

func oneIn(minutes int) func(int) int {
	return func(m int) int {
		if m%minutes == 0 {
			return 1
		}
		return 0
	}
}

// clumps are so many at once each so many minutes.
func clumps(n, minutes int) func(int) int {
	return func(m int) int { return n * oneIn(minutes)(m) }
}

// failsFrom420 are calls to a webhook on critical resources that all fail after seven hours.
func failsFrom420(called func(int) int) []trace {
	return partly(called, duringMinutes(420, 1000, called))
}

// duringMinutes is what is counted in some minutes, at those alone what is counted at these.
func duringMinutes(begin, before int, perMinute func(int) int) func(int) int {
	return func(m int) int {
		if m < begin || m >= before {
			return 0
		}
		return perMinute(m)
	}
}

func atMinutes(n int, minutes ...int) func(int) int {
	return func(m int) int {
		if slices.Contains(minutes, m) {
			return n
		}
		return 0
	}
}

// then is what is counted first, and from a minute on.
func then(first func(int) int, minute int, later func(int) int) func(int) int {
	return func(m int) int { return duringMinutes(0, minute, first)(m) + duringMinutes(minute, 10_000, later)(m) }
}

// spells is what is counted in so many of 25 minutes, and in the others.
func inSpells(minutes, during, between int) func(int) int {
	return func(m int) int {
		switch {
		case m < 60:
			return 0
		case (m-60)%25 < minutes:
			return during
		}
		return between
	}
}

// blocked are conversions, and what shows that controllers wait for them.
func blocked(answered, failed func(int) int, more ...trace) []trace {
	return append(more, counts(conversions("true"), summed(answered)), counts(conversions("false"), summed(then(oneIn(1000), 1, failed))), limited(knownForCRD, 1), seesAll,
		stays(gcErrors+`{instance="k"}`, 0))
}

// namespaceWorked is how many seconds a namespace has been deleted for.
func namespaceWorked(seconds float64) trace {
	return stays(longestRun+`{instance="k",name="namespace"}`, seconds)
}

// conversionsOf are conversions of a CRD, of which some fail.
func conversionsOf(called, failed func(int) int) []trace {
	return blocked(func(m int) int { return called(m) - failed(m) }, failed, namespaceWorked(0))
}

// slowly are calls of which some take so long that only the last bucket has them.
func slowly(limit float64, called, slow func(int) int) []trace {
	edge := number(limit)
	return []trace{
		counts(promql.WebhookSeconds+`_bucket{`+calledHook+`,le="`+edge+`"}`, summed(func(m int) int { return called(m) - slow(m) })),
		counts(promql.WebhookSeconds+`_count{`+calledHook+`}`, summed(called)), counts(requested("200"), summed(called)), limited(knownHook, limit), seesAll,
	}
}

// renamedAll has the texts of series be others.
func renamedAll(traces []trace, pairs ...string) []trace {
	return each("", func(t trace) trace { return trace{strings.NewReplacer(pairs...).Replace(t.series), t.value} }, traces)
}

// convertedSlowly are conversions that take two seconds from minute 60 on.
func convertedSlowly(called func(int) int) []trace {
	all := summed(then(often(1), 1, called))
	quick := func(m int) int { return all(min(m, 60)) }
	bucket := func(edge string, until func(int) int) trace {
		return counts(promql.ConversionSeconds+`_bucket{`+calledForCRD+`,succeeded="true",le="`+edge+`"}`, until)
	}
	return []trace{bucket("1.024", quick), bucket("2.048", all), bucket("+Inf", all), counts(conversions("true"), all), limited(knownForCRD, 1), seesAll}
}

// denied are calls of which some are refused on purpose.
func denied(called, refused func(int) int) []trace {
	return []trace{
		counts(requested("200"), summed(func(m int) int { return called(m) - refused(m) })), counts(requested("403"), summed(then(often(1), 1, refused))),
		counts(rejected("no_error"), summed(then(often(1), 1, refused))), limited(knownHook, 1), seesAll,
	}
}

// newPolicies are requests that policies deny, so many at once, each of them for the first time.
func newPolicies(kind, denials string, n int, minutes ...int) []trace {
	out := []trace{counts(plugins+`{instance="a",name="`+kind+`",type="validate",operation="CREATE",rejected="true"}`, func(m int) int { return 1 + summed(atMinutes(n, minutes...))(m) })}
	for i, at := range minutes {
		out = append(out, counts(denials+fmt.Sprintf(`,policy="p%d",policy_binding="b"}`, i), func(m int) int { return min(max(m-at, 0), 1) * n }))
	}
	return out
}

// expires is a CA bundle that expires after so many minutes.
func expires(minute int) []trace {
	return []trace{
		stays(`webhook_auditor_finding{`+knownHook+`,check="ca-bundle-expiring",severity="warning",configuration="c",group="",resource=""}`, 1), info, seesAll,
		stays(`webhook_auditor_webhook_ca_bundle_not_after_timestamp_seconds{`+knownHook+`,configuration="c"}`, float64(minute*60)),
	}
}

// seven and four are so many in each five minutes, twoInThree in each three.
func seven(minute int) int { return 1 + min(minute%5, 2)/2*(minute%2) + oneIn(5)(minute) }
func four(minute int) int  { return 1 - oneIn(5)(minute) }

func twoInThree(minute int) int { return min(minute%3, 1) }

func thriceInFour(minute int) int { return min(minute%4, 1) }

func threeInFive(minute int) int { return 1 - minute%5/3 }

// waitFor are requests that wait for so many seconds, for the admission of Pods or for conversions.
func waitFor(requests func(int) int, seconds float64, converted bool) []trace {
	const ofPods = `{instance="a",verb="POST",group="",resource="pods",subresource=""`
	all := summed(duringMinutes(60, 1000, requests))
	lasted := func(series string, each float64) trace {
		return trace{series, func(m int) string { return number(1 + each*float64(all(m))) }}
	}
	if converted {
		ofCRD := strings.NewReplacer(`group=""`, `group="example.com"`, "pods", "widgets").Replace(ofPods)
		crd := strings.ReplaceAll(calledForCRD, `"w"`, `"widgets.example.com"`)
		return []trace{lasted(sliDuration+"_count"+ofCRD+"}", 1), lasted(promql.ConversionSeconds+"_sum{"+crd+`,succeeded="true"}`, seconds)}
	}
	return []trace{
		lasted(sliDuration+"_count"+ofPods+"}", 1), lasted(sliDuration+"_sum"+ofPods+"}", 0.1), lasted(fullDuration+"_sum"+ofPods+`,dry_run=""}`, 0.1+seconds),
		reach.renamed(`name="w"`, `name="quick"`),
	}
}

// reaching has a webhook reach another resource.
func reaching(resource string, traces []trace) []trace {
	return each("webhook_auditor_webhook_reach", func(t trace) trace {
		return t.renamed(`resource="pods"`, `resource="`+resource+`"`)
	}, traces)
}

// errorsOf are so many refused requests a minute of so many errors, from minute 60 on.
func errorsOf(counter string, refused, errors int) []trace {
	return []trace{counts(counter, since(60, refused)), counts(`apiserver_request_total{instance="a",verb="POST",resource="pods",code="500"}`, since(60, errors))}
}

func from60(minute int) bool { return minute >= 60 }
func neverFails(int) bool    { return false }

// passing has what failed be let through.
func passed(traces []trace) []trace {
	return each("", func(t trace) trace {
		return t.renamed(`rejected="true"`, `rejected="false"`).renamed(promql.Rejections, promql.FailedOpen).renamed(`,operation="CREATE",error_type="calling_webhook_error",rejection_code="503"`, "")
	}, traces)
}

// hides is a webhook of which these calls fail among many that are answered on three API servers.
func hides(failing ...trace) []trace {
	out := append(failing, limited(knownHook, 0.5), reach, seesAll)
	for _, instance := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		out = append(out, calls(instance, "UPDATE", 30, neverFails)...)
	}
	return out
}

// mutating has the webhook be one that mutates.
func mutating(traces []trace) []trace {
	return each("", func(t trace) trace { return t.renamed(`type="validating"`, `type="admit"`) }, traces)
}

// createsOn are calls for CREATE on seven API servers, which fail on so many.
func createsOn(failing int) []trace {
	var out []trace
	for i, instance := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		out = append(out, calls(instance, "CREATE", 1, func(m int) bool { return m >= 60 && i < failing })...)
	}
	return out
}

// hangsOnCreate are calls of which those for UPDATE are quick.
func hangsOnCreate() []trace {
	update := func(t trace) trace { return t.renamed("CREATE", "UPDATE") }
	return append(hang(10, 200), update(counts(promql.WebhookSeconds+`_bucket{`+calledHook+`,le="0.5"}`, since(0, 660))),
		update(counts(promql.WebhookSeconds+`_bucket{`+calledHook+`,le="2.5"}`, since(0, 660))), update(counts(promql.WebhookSeconds+`_count{`+calledHook+`}`, since(0, 660))))
}

// oneWay are conversions of which one pair of versions fails.
func oneWay() []trace {
	return []trace{
		counts(conversions("true"), since(0, 100)), counts(strings.Replace(conversions("true"), `to_version="v2"`, `to_version="v3"`, 1), func(m int) int { return 3 * min(m, 60) }),
		counts(strings.Replace(conversions("false"), `to_version="v2"`, `to_version="v3"`, 1), since(60, 3)), limited(knownForCRD, 1), seesAll,
	}
}

// hang are calls of which so many of ten take ten seconds, for some minutes, and pass.
func hang(ofTen, minutes int) []trace {
	return append(hanging(duringMinutes(60, 60+minutes, often(6*ofTen))), limited(knownHook, 0.5), reach, seesAll)
}

// hanging are sixty calls a minute of which some do, to a webhook that is not known.
func hanging(slow func(int) int) []trace {
	all, long := since(0, 60), summed(slow)
	quick := func(m int) int { return all(m) - long(m) }
	return []trace{
		counts(promql.WebhookSeconds+`_bucket{`+calledHook+`,le="0.5"}`, quick), counts(promql.WebhookSeconds+`_bucket{`+calledHook+`,le="1"}`, quick),
		counts(promql.WebhookSeconds+`_bucket{`+calledHook+`,le="2.5"}`, quick), counts(promql.WebhookSeconds+`_count{`+calledHook+`}`, all),
		counts(promql.Requests+`{`+calledHook+`,code="200",rejected="false"}`, quick), counts(promql.Requests+`{`+calledHook+`,code="504",rejected="false"}`, long),
		counts(promql.FailedOpen+`{instance="a",name="w",type="validating"}`, long),
	}
}

// twoReached are two webhooks that API server b reaches, and what a counts of each.
func twoReached(onA []trace) []trace {
	out := append(onA, calls("b", "CREATE", 60, neverFails)...)
	return append(out, renamedAll(out, `name="w"`, `name="v"`)...)
}

// twoBackends are two webhooks in two namespaces, neither of which the only API server reaches.
func twoBackends() []trace {
	out := append(calls("a", "CREATE", 60, from60), limited(knownHook, 1))
	return append(out, append(renamedAll(out, `name="w"`, `name="v"`, `"policy"`, `"other"`), seesAll)...)
}

// waitedFor are requests for Pods that wait for so many tenths of a second for some minutes, and then for others.
func waitedFor(minutes, tenths, later int) []trace {
	out, past := waitFor(often(10), 0, false), since(60, 1)
	out[2].value = func(m int) string {
		return number(1 + float64(past(m)+tenths*min(past(m), minutes)+later*max(past(m)-minutes, 0)))
	}
	return out
}

// unevaluated are calls beside which matchConditions fail.
func unevaluated(failed func(int) int) []trace {
	errors := counts(strings.Replace(matchConditionErrors, "{", "{"+calledHook+",", 1), summed(then(often(1), 1, failed)))
	return append(counted(often(60), often(0))[:1], errors, limited(knownHook, 1), seesAll)
}

// foundInSpells is what the auditor finds of that backend.
var foundInSpells = trace{findingIn(0, 0)[0].series, func(m int) string {
	if m >= 60 && (m-60)%25 < 8 {
		return "1"
	}
	return "_"
}}

// eachHour has a tenth of the calls fail in three minutes of each hour.
func eachHour(minute int) bool { return minute >= 60 && minute%60 < 3 }

// loops are denials, 20 a second for some minutes.
func loops(minutes int) []trace {
	denied := func(m int) int { return 1200 * min(max(m-60, 0), minutes) }
	return []trace{
		counts(requested("200"), since(0, 600)), counts(requested("403"), denied), counts(rejected("no_error"), denied), limited(knownHook, 1), seesAll,
	}
}

// crashing is an API server that restarts every five minutes.
func crashing() []trace {
	return append(behindOneAddress()[1:],
		counts(scraped+`{instance="a"}`, func(m int) int { return 1000 + m%5 }), trace{`process_start_time_seconds{instance="a"}`, func(m int) string { return number(float64(m / 5 * 300)) }})
}

// spell has calls fail in so many of each minutes, six times a minute.
func spell(minutes, period int) []trace {
	return append(calls("a", "CREATE", 6, func(m int) bool { return m >= 60 && m%period < minutes }), limited(knownHook, 1), seesAll)
}

var expectations = []expectation{
	{"a CA bundle of which ten days are left", "WebhookCaBundleExpiresSoon", expires(10 * 24 * 60), 1, 4, 2, 181, 0, 0, 180},
	{"one of which a week is left within two hours", "WebhookCaBundleExpiresSoon", expires(7*24*60 + 120), 1, 4, 2, 180, 192, 240, 240},
	{"errors that webhooks explain", "WebhookErrorsExplained", errorsOf(rejected("calling_webhook_error"), 3, 4), 1, 1, 50, 60, 80, 150, 150},
	{"errors that conversions explain", "WebhookErrorsExplained", errorsOf(conversions("false"), 3, 4), 1, 1, 50, 60, 80, 150, 150},
	{"errors of which they explain a third", "WebhookErrorsExplained", errorsOf(rejected("calling_webhook_error"), 2, 6), 1, 1, 50, 151, 0, 0, 150},
	{"thirty calls fail in a quarter of an hour", "WebhookAllCallsFailing", partly(duringMinutes(60, 1000, often(2)), duringMinutes(60, 1000, often(2))), 1, 1, 50, 151, 0, 0, 150},
	{"two calls fail, and none is answered", "WebhookAllCallsFailing", partly(atMinutes(1, 60, 65), atMinutes(1, 60, 65)), 1, 1, 50, 151, 0, 0, 150},
	{"two calls of a day fail, at the end of an hour each", "WebhookAllCallsFailing", partly(atMinutes(1, 118, 358), atMinutes(1, 118, 358)), 1, 1, 50, 501, 0, 0, 500},
	{"three calls fail after refusals long ago", "WebhookAllCallsFailing", append(neverCalledBefore(), stays(requested("403"), 7), stays(rejected("no_error"), 7)), 1, 1, 10, 90, 112, 145, 145},
	{"fifteen conversions fail at once after one long ago", "WebhookConversionFailing", append(blocked(often(0), atMinutes(15, 90), namespaceWorked(0)), stays(conversions("true"), 7), counts(scraped+`{instance="a"}`, since(0, 1))), 1, 1, 80, 90, 95, 140, 145},
	{"two in five calls time out, and are refused", "WebhookCriticalResourceSlow", append(slowly(0.5, often(60), duringMinutes(60, 1000, often(24)))[:2], partly(often(60), duringMinutes(60, 1000, often(24)))...), 1, 1, 50, 151, 0, 0, 150},
	{"matchConditions that fail on one API server after the other, and refuse", "WebhookFailingOpen", inTurn(), 1, 1, 50, 151, 0, 0, 150},
	{"a hot loop of fifteen minutes", "WebhookRejectionsHigh", loops(15), 1, 1, 50, 181, 0, 0, 180},
	{"seven requests for Pods in five minutes wait for webhooks", "WebhookResourceLatencyHigh", waitFor(seven, 0.8, false), 1, 1, 50, 60, 80, 150, 150},
	{"four requests for Pods in five minutes wait for webhooks", "WebhookResourceLatencyHigh", waitFor(four, 0.8, false), 1, 1, 50, 151, 0, 0, 150},
	{"requests for Pods wait for 0.4 seconds", "WebhookResourceLatencyHigh", waitFor(often(10), 0.4, false), 1, 1, 50, 151, 0, 0, 150},
	{"seven requests in five minutes wait for conversions", "WebhookResourceLatencyHigh", waitFor(seven, 2, true), 1, 1, 50, 60, 80, 150, 150},
	{"four requests in five minutes wait for conversions", "WebhookResourceLatencyHigh", waitFor(four, 2, true), 1, 1, 50, 151, 0, 0, 150},
	{"requests for Pods wait for a slow webhook", "WebhookResourceLatencyHigh", append(waitFor(duringMinutes(70, 1000, often(10)), 0.8, false), hang(4, 200)...), 1, 1, 50, 151, 0, 0, 150},
	{"requests for Pods wait, and for Nodes for a slow webhook", "WebhookResourceLatencyHigh", append(waitFor(duringMinutes(70, 1000, often(10)), 0.8, false), reaching("nodes", hang(4, 200))...), 1, 1, 50, 70, 95, 150, 150},
	{"requests wait for a slow conversion webhook", "WebhookResourceLatencyHigh", append(waitFor(duringMinutes(75, 1000, often(10)), 2, true), renamedAll(convertedSlowly(often(10)), `name="w"`, `name="widgets.example.com"`)...), 1, 1, 50, 151, 0, 0, 150},
	{"a policy refuses six requests a minute beside 180 that fail to mutate", "WebhookPolicyConfigErrors", renamedAll(besideDenials(), "Validating", "Mutating", promql.Validations, promql.Mutations, `enforcement_action="deny"`, `error_type="invalid_error"`), 1, 1, 50, 75, 100, 240, 240},
	{"two slow calls each three minutes", "WebhookSlow", slowly(1, twoInThree, duringMinutes(60, 1000, twoInThree)), 1, 1, 50, 80, 95, 150, 150},
	{"each CREATE fails, a twelfth of the calls", "WebhookFailingClosed", hides(calls("a", "CREATE", 18, from60)...), 1, 1, 50, 60, 72, 240, 240},
	{"each CREATE passes unchecked, a twelfth of the calls", "WebhookFailingOpen", hides(passed(calls("a", "CREATE", 18, from60))...), 1, 1, 50, 60, 72, 240, 240},
	{"each CREATE fails, one in two minutes", "WebhookFailingClosed", hides(calls("a", "CREATE", 18, from60)[0].slower(36), calls("a", "CREATE", 18, from60)[1].slower(36), calls("a", "CREATE", 18, from60)[2].slower(36)), 1, 1, 50, 60, 100, 240, 240},
	{"each CREATE fails on one of two API servers", "WebhookFailingClosed", hides(append(calls("a", "CREATE", 3, from60), calls("b", "CREATE", 3, neverFails)...)...), 1, 1, 50, 60, 72, 240, 240},
	{"all calls of one of eight API servers fail", "WebhookFailingClosed", hides(calls("h", "UPDATE", 20, from60)...), 1, 1, 50, 60, 72, 240, 240},
	{"each DELETE of a mutating webhook fails", "WebhookFailingClosed", mutating(hides(calls("a", "DELETE", 18, from60)...)), 1, 1, 50, 60, 72, 150, 150},
	{"each CREATE and each CONNECT fails", "WebhookFailingClosed", hides(append(calls("a", "CREATE", 9, from60), calls("b", "CONNECT", 9, from60)...)...), 1, 1, 50, 60, 72, 150, 150},
	{"each CREATE fails on six of seven API servers, seldom", "WebhookFailingClosed", hides(createsOn(6)...), 1, 1, 50, 60, 72, 150, 150},
	{"an outage of four minutes", "WebhookFailingClosed WebhookCallsFailing", rollout(180, 1000, 4), 1, 1, 50, 201, 0, 0, 200},
	{"an outage of five minutes", "WebhookFailingClosed", rollout(180, 1000, 5), 1, 1, 50, 201, 0, 0, 200},
	{"each CREATE hangs, a twelfth of the calls", "WebhookCriticalResourceSlow", hangsOnCreate(), 1, 1, 50, 60, 80, 150, 150},
	{"each conversion between two versions fails", "WebhookConversionFailing", oneWay(), 1, 1, 50, 60, 72, 240, 240},
	{"calls hang until requests end", "WebhookCriticalResourceSlow", hang(10, 200), 1, 1, 50, 60, 69, 240, 240},
	{"most calls hang", "WebhookCriticalResourceSlow", hang(6, 200), 1, 1, 50, 60, 71, 240, 240},
	{"the ticket before that page", "WebhookFailingOpen", hang(4, 200), 1, 1, 50, 60, 70, 73, 73},
	{"calls hang of a webhook that is not known", "WebhookCriticalResourceSlow", append(hanging(duringMinutes(60, 1000, often(60))), seesAll), 1, 1, 50, 60, 70, 150, 150},
	{"calls hang for an hour of a webhook that is not known", "WebhookSlow", append(hanging(duringMinutes(60, 120, often(60))), seesAll), 1, 1, 50, 181, 0, 0, 180},
	{"calls hang in eight of each 25 minutes of a webhook that is not known", "WebhookCriticalResourceSlow", append(hanging(inSpells(8, 60, 0)), seesAll), 1, 1, 50, 60, 120, 240, 240},
	{"calls hang in eight of each 25 minutes", "WebhookCriticalResourceSlow", append(hang(10, 0)[7:], hanging(inSpells(8, 60, 0))...), 1, 1, 50, 60, 120, 240, 240},
	{"an API server reaches no webhook in five of each 15 minutes", "WebhookNoneReachable", twoReached(calls("a", "CREATE", 60, func(m int) bool { return m >= 60 && (m-60)%15 < 5 })), 1, 1, 50, 60, 85, 240, 240},
	{"an API server reaches neither of two webhooks, each called thrice in four minutes", "WebhookNoneReachable", twoReached(counted(thriceInFour, duringMinutes(60, 1000, thriceInFour))), 1, 1, 50, 60, 80, 150, 150},
	{"two in three calls of an API server fail", "WebhookNoneReachable", twoReached(counted(often(60), duringMinutes(60, 1000, often(40)))), 1, 1, 50, 151, 0, 0, 150},
	{"an API server reaches neither of two webhooks, which are called for two operations", "WebhookNoneReachable", twoReached(append(calls("a", "CREATE", 60, from60), calls("a", "UPDATE", 60, from60)...)), 1, 1, 50, 60, 80, 150, 150},
	{"an API server that is scraped each two minutes reaches neither of two webhooks", "WebhookNoneReachable", twoReached(calls("a", "CREATE", 60, from60)), 2, 1, 50, 60, 80, 150, 150},
	{"the only API server reaches neither of two backends", "WebhookNoneReachable", twoBackends(), 1, 1, 50, 60, 75, 150, 150},
	{"requests for Pods wait for eight minutes", "WebhookResourceLatencyHigh", waitedFor(8, 8, 0), 1, 1, 50, 151, 0, 0, 150},
	{"requests for Pods wait for three seconds, for nine minutes", "WebhookResourceLatencyHigh", waitedFor(9, 30, 0), 1, 1, 50, 151, 0, 0, 150},
	{"requests for Pods wait for half an hour", "WebhookResourceLatencyHigh", waitedFor(30, 8, 0), 1, 1, 50, 60, 80, 91, 150},
	{"requests for Pods wait for eight seconds, then for less than one", "WebhookResourceLatencyHigh", waitedFor(30, 80, 8), 1, 1, 50, 60, 80, 150, 150},
	{"all calls fail for four minutes of each two hours", "WebhookCallsFailing", spell(4, 120), 1, 1, 50, 240, 364, 364, 364},
	{"all calls fail for three minutes, twice in six hours", "WebhookCallsFailing", partly(often(60), then(duringMinutes(60, 63, often(60)), 120, duringMinutes(180, 183, often(60)))), 1, 1, 50, 241, 0, 0, 240},
	{"a backend that is called once a minute is found down in eight of each 25 minutes", "WebhookFailingClosed", append(partly(often(1), inSpells(8, 1, 0)), foundInSpells), 1, 1, 50, 60, 118, 240, 240},
	{"a backend that is found down in eight of each 25 minutes", "WebhookFailingClosed", append(partly(often(60), inSpells(8, 60, 0)), foundInSpells), 1, 1, 50, 60, 118, 240, 240},
	{"matchConditions fail for 13 minutes", "WebhookMatchConditionErrors", unevaluated(duringMinutes(60, 73, often(3))), 1, 1, 50, 151, 0, 0, 150},
	{"matchConditions fail for half an hour", "WebhookMatchConditionErrors", unevaluated(duringMinutes(60, 90, often(3))), 1, 1, 50, 74, 79, 90, 150},
	{"matchConditions fail each five minutes, evaluated each two", "WebhookMatchConditionErrors", unevaluated(oneIn(5)), 1, 2, 50, 65, 80, 150, 150},
	{"matchConditions fail for 17 minutes, evaluated each two", "WebhookMatchConditionErrors", unevaluated(duringMinutes(60, 77, often(3))), 1, 2, 50, 151, 0, 0, 150},
	{"calls hang for four minutes", "WebhookCriticalResourceSlow", hang(10, 4), 1, 1, 50, 181, 0, 0, 180},
	{"a tenth of the calls fails within three minutes of each hour", "WebhookCallsFailing", hides(calls("h", "CREATE", 90, eachHour)...), 1, 1, 50, 100, 363, 365, 400},
	{"a hot loop of twelve minutes", "WebhookRejectionsHigh", loops(12), 1, 1, 50, 181, 0, 0, 180},
	{"a hot loop of fourteen minutes", "WebhookRejectionsHigh", loops(14), 1, 1, 50, 181, 0, 0, 180},
	{"a hot loop of an hour", "WebhookRejectionsHigh", loops(60), 1, 1, 50, 74, 83, 118, 180},
	{"an API server that crashes every five minutes", "WebhookInputMetricsMissing", crashing(), 1, 1, 1, 181, 0, 0, 180},
	{"a minute of each ten fails", "WebhookCallsFailing", spell(1, 10), 1, 1, 50, 60, 105, 240, 240},
	{"a minute of each fifteen fails", "WebhookCallsFailing", spell(1, 15), 1, 1, 50, 60, 170, 240, 240},
	{"a minute of each twenty fails", "WebhookCallsFailing", spell(1, 20), 1, 1, 50, 60, 155, 240, 240},
	{"two minutes of each thirty fail", "WebhookCallsFailing", spell(2, 30), 1, 1, 50, 60, 190, 240, 240},
	{"a policy refuses for twelve minutes", "WebhookPolicyConfigErrors", refusedFor(12), 1, 1, 50, 151, 0, 0, 150},
	{"a policy refuses for eighteen minutes", "WebhookPolicyConfigErrors", refusedFor(18), 1, 1, 50, 70, 78, 78, 150},
	{"a policy refuses ninety requests each hour", "WebhookPolicyConfigErrors", refusedEachHour(90), 1, 1, 50, 240, 244, 250, 250},
	{"a policy refuses four requests, four and ninety", "WebhookPolicyConfigErrors", refusedEachHour(4, 4, 90), 1, 1, 50, 240, 244, 244, 250},
	{"a policy refuses ninety requests, two and ninety", "WebhookPolicyConfigErrors", refusedEachHour(90, 2, 90), 1, 1, 50, 251, 0, 0, 250},
	{"a policy lets ninety requests pass each hour", "WebhookPolicyFailingOpen", []trace{counts(openPolicy, func(m int) int { return 1 + eachHourOf(90)(m) })}, 1, 1, 50, 240, 244, 250, 250},
	{"a policy lets requests pass for 13 minutes after hours", "WebhookPolicyFailingOpen", []trace{counts(openPolicy, func(m int) int { return 1 + 5*min(max(m-300, 0), 13) })}, 1, 1, 50, 351, 0, 0, 350},
	{"manifests cannot be read for eight minutes", "WebhookManifestsNotReloaded", unreadFor(8), 1, 1, 50, 151, 0, 0, 150},
	{"manifests cannot be read, scraped each two minutes", "WebhookManifestsNotReloaded", unreadFor(30), 2, 1, 50, 70, 76, 90, 150},
	{"manifests cannot be read for twelve minutes", "WebhookManifestsNotReloaded", unreadFor(12), 1, 1, 50, 70, 72, 77, 150},
	{"one call in 22 fails for hours", "WebhookFailingClosed", partly(often(200), duringMinutes(60, 1000, often(9))), 1, 1, 50, 401, 0, 0, 400},
	{"one in eleven fails for hours", "WebhookFailingClosed", partly(often(200), duringMinutes(60, 1000, often(18))), 1, 1, 50, 150, 195, 400, 400},
	{"all fail for two minutes, one in twenty at other times", "WebhookFailingClosed", partly(often(20), then(often(1), 60, then(often(20), 62, often(1)))), 1, 1, 50, 241, 0, 0, 240},
	{"three calls in half an hour are answered after an outage", "WebhookFailingClosed", partly(oneIn(10), duringMinutes(60, 150, oneIn(10))), 1, 1, 50, 90, 115, 215, 215},
	{"ten calls of a minute fail", "WebhookFailingClosed", partly(then(often(1), 59, then(often(10), 60, often(1))), atMinutes(10, 59)), 1, 1, 50, 201, 0, 0, 200},
	{"five calls of a minute fail, twice", "WebhookFailingClosed", partly(func(m int) int { return 1 + atMinutes(5, 59, 63)(m) }, atMinutes(5, 59, 63)), 1, 1, 50, 201, 0, 0, 200},
	{"two in five creations fail for ten minutes, all for three", "WebhookFailingClosed", hides(counted(often(18), then(duringMinutes(60, 70, often(7)), 70, duringMinutes(70, 73, often(18))))...), 1, 1, 50, 181, 0, 0, 180},
	{"four of the calls fail that are made each ten minutes", "WebhookFailingClosed", partly(oneIn(10), duringMinutes(60, 100, oneIn(10))), 1, 1, 50, 201, 0, 0, 200},
	{"18 of a hundred calls fail", "WebhookFailingClosed", partly(often(50), duringMinutes(60, 1000, often(9))), 1, 1, 50, 85, 100, 240, 240},
	{"a quarter of the calls fails", "WebhookFailingClosed", partly(often(50), duringMinutes(60, 1000, often(13))), 1, 1, 50, 60, 70, 240, 240},
	{"a tenth fails for ten minutes, most for three", "WebhookFailingClosed", partly(often(60), then(duringMinutes(60, 70, often(6)), 70, duringMinutes(70, 73, often(36)))), 1, 1, 50, 181, 0, 0, 180},
	{"one call a minute fails after hours", "WebhookFailingClosed", partly(often(1), duringMinutes(300, 1000, often(1))), 1, 1, 50, 300, 309, 330, 330},
	{"four calls fail in eight minutes after hours", "WebhookFailingClosed", partly(oneIn(2), duringMinutes(300, 308, oneIn(2))), 1, 1, 50, 331, 0, 0, 330},
	{"thirty calls fail, then none is made", "WebhookFailingClosed", partly(then(oneIn(2), 60, duringMinutes(60, 70, often(3))), duringMinutes(60, 70, often(3))), 1, 1, 50, 60, 72, 130, 130},
	{"a call each two minutes is answered after an outage", "WebhookFailingClosed", partly(oneIn(2), duringMinutes(60, 80, oneIn(2))), 1, 1, 50, 60, 76, 106, 106},
	{"four calls a minute are answered after an outage", "WebhookFailingClosed", partly(often(4), duringMinutes(60, 80, often(4))), 1, 1, 50, 60, 70, 95, 95},
	{"one in twenty fails after an outage of a third", "WebhookFailingClosed", partly(often(100), then(duringMinutes(60, 100, often(30)), 100, often(5))), 1, 1, 50, 60, 70, 200, 200},
	{"an outage of eight minutes of each 25", "WebhookFailingClosed", partly(often(60), inSpells(8, 60, 0)), 1, 1, 50, 60, 118, 240, 240},
	{"one in fifteen fails between outages of eight minutes", "WebhookFailingClosed", partly(often(60), inSpells(8, 60, 4)), 1, 1, 50, 60, 118, 240, 240},
	{"a sixth fails for ten minutes of each 25", "WebhookCallsFailing", partly(often(60), inSpells(10, 9, 0)), 1, 1, 50, 60, 125, 240, 240},
	{"three in two hundred fail for hours", "WebhookCallsFailing", partly(often(400), duringMinutes(60, 1000, often(6))), 1, 1, 50, 401, 0, 0, 400},
	{"one in 22 fails for two hours, then few do", "WebhookCallsFailing", partly(often(1000), then(duringMinutes(60, 180, often(45)), 180, often(7))), 1, 1, 50, 301, 0, 0, 300},
	{"three in two hundred fail for hours, then one in 22", "WebhookCallsFailing", partly(often(400), then(often(6), 150, often(18))), 1, 1, 50, 150, 242, 260, 260},
	{"two calls of an hour fail", "WebhookCallsFailing", partly(often(1), atMinutes(1, 60, 70, 120, 130, 180, 190)), 1, 1, 50, 201, 0, 0, 200},
	{"four calls fail in ten minutes", "WebhookCallsFailing", partly(often(1), atMinutes(1, 60, 63, 66, 69)), 1, 1, 50, 60, 72, 73, 73},
	{"a tenth of the calls fails for eight minutes", "WebhookCallsFailing", partly(often(60), duringMinutes(60, 68, often(6))), 1, 1, 50, 151, 0, 0, 150},
	{"a tenth of the calls fails for 18 minutes", "WebhookCallsFailing", partly(often(60), duringMinutes(60, 78, often(6))), 1, 1, 50, 60, 76, 78, 78},
	{"one in 29 fails for hours", "WebhookCallsFailing", partly(often(200), duringMinutes(60, 1000, often(7))), 1, 1, 50, 235, 250, 400, 400},
	{"one in 29 passes unchecked for hours", "WebhookFailingOpen", passed(partly(often(200), duringMinutes(60, 1000, often(7)))), 1, 1, 50, 235, 250, 400, 400},
	{"one conversion in 29 fails for hours", "WebhookConversionFailing", conversionsOf(often(200), duringMinutes(60, 1000, often(7))), 1, 1, 50, 235, 250, 400, 400},
	{"nine of ten conversions fail while quotas wait", "WebhookConversionBlocksControllers", blocked(often(1), duringMinutes(60, 1000, often(9)), namespaceWorked(90)), 1, 1, 50, 151, 0, 0, 150},
	{"four conversions fail while a namespace waits", "WebhookConversionBlocksControllers", blocked(often(0), atMinutes(1, 60, 62, 64, 66), namespaceWorked(90)), 1, 1, 50, 151, 0, 0, 150},
	{"a conversion each four minutes fails while a namespace waits", "WebhookConversionBlocksControllers", blocked(often(0), duringMinutes(60, 1000, oneIn(4)), namespaceWorked(90)), 1, 1, 50, 75, 88, 150, 150},
	{"conversions fail while a namespace is deleted", "WebhookConversionBlocksControllers", blocked(often(0), duringMinutes(60, 1000, often(9)), namespaceWorked(45)), 1, 1, 50, 151, 0, 0, 150},
	{"a policy refuses three requests each ten minutes", "WebhookPolicyConfigErrors", []trace{refusedByPolicy("a", 3, 10)}, 1, 1, 50, 60, 88, 240, 240},
	{"a policy refuses two requests each ten minutes", "WebhookPolicyConfigErrors", []trace{refusedByPolicy("a", 2, 10)}, 1, 1, 50, 95, 115, 240, 240},
	{"a policy refuses two requests", "WebhookPolicyConfigErrors", newPolicies("ValidatingAdmissionPolicy", "", 1, 60, 84)[:1], 1, 1, 50, 241, 0, 0, 240},
	{"new policies deny five requests each", "WebhookPolicyConfigErrors", newPolicies("ValidatingAdmissionPolicy", promql.Validations+`{instance="a",enforcement_action="deny"`, 5, 60, 90, 120, 150), 1, 1, 50, 241, 0, 0, 240},
	{"new policies fail to mutate five requests each", "WebhookPolicyConfigErrors", newPolicies("MutatingAdmissionPolicy", promql.Mutations+`{instance="a",error_type="invalid_error"`, 5, 60, 90, 120, 150), 1, 1, 50, 241, 0, 0, 240},
	{"a policy refuses seven requests three times", "WebhookPolicyConfigErrors", newPolicies("ValidatingAdmissionPolicy", "", 7, 60, 70, 80)[:1], 1, 1, 50, 60, 110, 140, 140},
	{"a policy lets seven requests pass each quarter of an hour, for three", "WebhookPolicyFailingOpen", []trace{counts(openPolicy, func(m int) int { return 1 + summed(atMinutes(7, 60, 75, 90))(m) })}, 1, 1, 50, 60, 95, 200, 200},
	{"a policy lets two requests pass", "WebhookPolicyFailingOpen", []trace{counts(openPolicy, func(m int) int { return 1 + summed(atMinutes(1, 57, 157))(m) })}, 1, 1, 50, 241, 0, 0, 240},
	{"five slow calls in hours", "WebhookSlow", slowly(1, oneIn(10), atMinutes(1, 60, 100, 140, 180, 220)), 1, 1, 50, 130, 240, 285, 285},
	{"three slow calls, twice", "WebhookSlow", slowly(1, then(oneIn(20), 61, then(often(3), 62, then(oneIn(20), 121, then(often(3), 122, oneIn(20))))), atMinutes(3, 61, 121)), 1, 1, 50, 241, 0, 0, 240},
	{"three quick calls in half an hour", "WebhookSlow", slowly(1, oneIn(10), duringMinutes(60, 180, oneIn(10))), 1, 1, 50, 60, 185, 240, 240},
	{"four quick calls in half an hour", "WebhookSlow", slowly(1, oneIn(8), duringMinutes(60, 180, oneIn(8))), 1, 1, 50, 60, 185, 240, 240},
	{"a call each twenty minutes is slow, of three in five", "WebhookSlow", slowly(1, threeInFive, duringMinutes(60, 1000, oneIn(20))), 1, 1, 50, 140, 158, 200, 200},
	{"fifteen quick calls in five minutes", "WebhookSlow", slowly(1, then(oneIn(10), 180, often(3)), duringMinutes(60, 180, oneIn(10))), 1, 1, 50, 60, 175, 205, 205},
	{"three slow calls in hours", "WebhookSlow", slowly(1, func(m int) int { return oneIn(10)(m) + atMinutes(1, 61, 101, 141)(m) }, atMinutes(1, 61, 101, 141)), 1, 1, 50, 241, 0, 0, 240},
	{"three slow calls each five minutes", "WebhookSlow", slowly(1, often(10), duringMinutes(60, 1000, func(m int) int { return 3 * oneIn(5)(m) })), 1, 1, 50, 60, 85, 150, 150},
	{"a slow call a minute", "WebhookSlow", slowly(1, often(1), duringMinutes(60, 1000, often(1))), 1, 1, 50, 60, 84, 150, 150},
	{"a slow call each two minutes", "WebhookSlow", slowly(1, oneIn(2), duringMinutes(60, 1000, oneIn(2))), 1, 1, 50, 78, 95, 150, 150},
	{"all calls for Pods take a second", "WebhookCriticalResourceSlow", append(slowly(0.5, often(60), duringMinutes(60, 1000, often(60))), reach, counts(promql.WebhookSeconds+`_bucket{`+calledHook+`,le="2.5"}`, since(0, 60))), 1, 1, 50, 74, 80, 150, 150},
	{"three in two hundred calls are slow", "WebhookSlow", slowly(1, often(200), duringMinutes(60, 1000, often(3))), 1, 1, 50, 60, 80, 150, 150},
	{"three in two hundred calls for Pods are slow", "WebhookCriticalResourceSlow", append(slowly(0.5, often(200), duringMinutes(60, 1000, often(3))), reach), 1, 1, 50, 60, 80, 150, 150},
	{"calls for Pods are slow but for five minutes", "WebhookCriticalResourceSlow", append(slowly(0.5, often(60), then(duringMinutes(60, 85, often(6)), 90, often(6))), reach), 1, 1, 50, 60, 80, 150, 150},
	{"seven slow conversions in five minutes", "WebhookConversionSlow", convertedSlowly(seven), 1, 1, 50, 60, 80, 150, 150},
	{"four slow conversions in five minutes", "WebhookConversionSlow", convertedSlowly(four), 1, 1, 50, 78, 92, 150, 150},
	{"seven slow conversions in half an hour", "WebhookConversionSlow", convertedSlowly(oneIn(4)), 1, 1, 50, 78, 100, 150, 150},
	{"four slow conversions in half an hour", "WebhookConversionSlow", convertedSlowly(oneIn(8)), 1, 1, 50, 90, 125, 180, 180},
	{"thirty of sixty requests are refused", "WebhookRejectionsHigh", denied(often(4), duringMinutes(60, 1000, often(2))), 1, 1, 50, 60, 90, 120, 120},
	{"fifteen of sixty requests are refused", "WebhookRejectionsHigh", denied(often(4), duringMinutes(60, 1000, often(1))), 1, 1, 50, 151, 0, 0, 150},
	{"one in seven requests is refused", "WebhookRejectionsHigh", denied(often(70), duringMinutes(60, 1000, often(10))), 1, 1, 50, 60, 90, 120, 120},
	{"one in 14 requests is refused", "WebhookRejectionsHigh", denied(often(70), duringMinutes(60, 1000, often(5))), 1, 1, 50, 151, 0, 0, 150},
	{"a quarter is refused after a tenth", "WebhookRejectionsHigh", denied(often(80), then(often(8), 60, often(20))), 1, 1, 50, 151, 0, 0, 150},
	{"a fifth is refused after a twentieth", "WebhookRejectionsHigh", denied(often(80), then(often(4), 60, often(16))), 1, 1, 50, 60, 90, 100, 100},
	{"three calls each five minutes fail", "WebhookCallsFailing", failsFrom420(clumps(3, 5)), 1, 1, 400, 420, 460, 505, 505},
	{"three calls each five minutes fail", "WebhookFailingClosed", failsFrom420(clumps(3, 5)), 1, 1, 400, 420, 495, 505, 505},
	{"ten calls each ten minutes fail", "WebhookFailingClosed", failsFrom420(clumps(10, 10)), 1, 1, 400, 420, 480, 505, 505},
	{"fifty calls each hour fail", "WebhookFailingClosed", failsFrom420(clumps(50, 60)), 1, 1, 400, 420, 660, 670, 670},
	{"25 calls each half hour fail", "WebhookFailingClosed", failsFrom420(clumps(25, 30)), 1, 1, 400, 420, 540, 560, 560},
	{"a call each four minutes fails, and one between is answered", "WebhookFailingClosed", partly(oneIn(2), duringMinutes(420, 1000, oneIn(4))), 1, 1, 400, 420, 540, 560, 560},
	{"a call each seven minutes fails of one a minute", "WebhookFailingClosed", partly(often(1), duringMinutes(420, 1000, oneIn(7))), 1, 1, 400, 420, 660, 700, 700},
	{"a call each three minutes fails but for one", "WebhookFailingClosed", partly(oneIn(3), func(m int) int { return duringMinutes(420, 1000, oneIn(3))(m) - atMinutes(1, 480)(m) }), 1, 1, 400, 420, 540, 560, 560},
	{"a call each five minutes fails of two a minute", "WebhookCallsFailing", partly(often(2), duringMinutes(420, 1000, oneIn(5))), 1, 1, 400, 420, 480, 700, 700},
	{"a call each six minutes fails on one of three API servers", "WebhookFailingClosed", append(failsFrom420(oneIn(6)), renamedAll(counted(clumps(2, 6), often(0))[:1], `instance="a"`, `instance="b"`)...), 1, 1, 400, 420, 600, 620, 620},
	{"one in a hundred fails for hours before the rules are loaded", "WebhookCallsFailing WebhookFailingClosed", partly(often(100), duringMinutes(60, 1000, often(1))), 1, 1, 400, 541, 0, 0, 540},
	{"all calls that are ever made fail within two minutes", "WebhookFailingClosed", partly(duringMinutes(60, 62, often(60)), duringMinutes(60, 62, often(60))), 1, 1, 50, 151, 0, 0, 150},
	{"half of the calls fail for three minutes", "WebhookFailingClosed WebhookCallsFailing", partly(often(60), duringMinutes(60, 63, often(30))), 1, 1, 50, 151, 0, 0, 150},
	{"what was counted long ago", onCalls(), longAgo(), 1, 1, 1, 101, 0, 0, 100},
	{"one scrape in 18 succeeds", "WebhookInputMetricsMissing WebhookAllCallsFailing", seldom(), 1, 1, 1, 136, 0, 0, 135},
	{"API servers that restart each hour count the same again", "WebhookAllCallsFailing", restartsEachHour(), 1, 1, 60, 361, 0, 0, 360},
	{"a storm of eight minutes", "WebhookCriticalResourceSlow", storm(300, 8), 1, 1, 50, 181, 0, 0, 180},
	{"a storm of eleven minutes", "WebhookCriticalResourceSlow", storm(300, 11), 1, 1, 50, 181, 0, 0, 180},
	{"a call a minute is slow, for nine minutes", "WebhookSlow", slowly(1, often(1), duringMinutes(60, 69, often(1))), 1, 1, 50, 181, 0, 0, 180},
	{"a storm of ten minutes, of 18 calls a minute", "WebhookCriticalResourceSlow", storm(18, 10), 1, 1, 50, 181, 0, 0, 180},
	{"a storm of ten minutes, scraped each two", "WebhookCriticalResourceSlow", storm(300, 10), 2, 1, 50, 181, 0, 0, 180},
	{"a storm of forty minutes", "WebhookCriticalResourceSlow", storm(300, 40), 1, 1, 50, 60, 78, 100, 180},
	{"a policy without its params refuses a request each ten minutes", "WebhookPolicyConfigErrors", []trace{refusedByPolicy("a", 1, 10)}, 1, 1, 50, 60, 120, 290, 290},
	{"one refuses two requests each ten minutes on each of three API servers", "WebhookPolicyConfigErrors", []trace{refusedByPolicy("a", 2, 10), refusedByPolicy("b", 2, 10), refusedByPolicy("c", 2, 10)}, 1, 1, 50, 60, 115, 240, 240},
	{"one refuses one each half an hour or less on each of three API servers", "WebhookPolicyConfigErrors", []trace{refusedByPolicy("a", 1, 20), refusedByPolicy("b", 1, 25), refusedByPolicy("c", 1, 30)}, 1, 1, 50, 60, 150, 300, 300},
	{"one refuses six requests a minute beside 180 that are denied", "WebhookPolicyConfigErrors", besideDenials(), 1, 1, 50, 60, 100, 240, 240},
	{"a mutation fails once each hour", "WebhookPolicyMutationsFailing", []trace{failedMutations("a", 60), mutated}, 1, 1, 50, 60, 260, 520, 520},
	{"mutations fail each three hours on each of three API servers", "WebhookPolicyMutationsFailing", []trace{failedMutations("a", 180), failedMutations("b", 170), failedMutations("c", 160), mutated}, 1, 2, 50, 160, 600, 900, 900},
	{"a policy lets a request pass each hour", "WebhookPolicyFailingOpen", []trace{passedByPolicy("a", 60)}, 1, 1, 50, 60, 260, 520, 520},
	{"it does each three hours on each of three API servers", "WebhookPolicyFailingOpen", []trace{passedByPolicy("a", 180), passedByPolicy("b", 170), passedByPolicy("c", 160)}, 1, 2, 50, 160, 600, 900, 900},
	{"refusals each morning", "WebhookRejectionsHigh", mornings(), 4, 4, 4, 3401, 0, 0, 3400},
	{"thirty calls each night, all refused", "WebhookAllCallsFailing", nights(), 1, 4, 50, 90, 1560, 2200, 2200},
	{"several API servers behind one address", "WebhookInputMetricsMissing", behindOneAddress(), 1, 1, 0, 5, 32, 180, 180},
	{"no quota is computed since the conversions fail", "WebhookConversionBlocksControllers", blockedQuota(0), 1, 1, 50, 60, 75, 150, 150},
	{"quotas are computed though the conversions fail", "WebhookConversionBlocksControllers", blockedQuota(0.02), 1, 1, 50, 151, 0, 0, 150},
	{"an unknown error_type is a failure", "WebhookFailingClosed", pages("something_new"), 1, 1, 50, 60, 70, 150, 150},
	{"patches that do not apply refuse everything", "WebhookFailingClosed", pages("apiserver_internal_error"), 1, 1, 50, 60, 70, 150, 150},
	{"matchConditions that fail on one API server after the other", "WebhookFailingClosed", inTurn(), 1, 1, 50, 60, 85, 150, 150},
	{"three calls fail, and scrapes in 4 of 10 minutes", "WebhookAllCallsFailing", gapped(neverCalledBefore()), 1, 1, 10, 90, 112, 145, 145},
	{"each second minute a slow call, for twelve, then seven quick ones in five", "WebhookSlow", slowly(1, then(oneIn(2), 72, seven), duringMinutes(60, 72, oneIn(2))), 1, 1, 50, 181, 0, 0, 180},
	{"each second minute a slow call, for twelve, then seven quick ones in five, of two operations", "WebhookSlow", ofTwoOperations(slowly(1, then(oneIn(2), 72, seven), duringMinutes(60, 72, oneIn(2)))), 1, 1, 50, 181, 0, 0, 180},
	{"all calls are slow for twelve minutes", "WebhookSlow", slowFor(60, 72), 1, 1, 50, 181, 0, 0, 180},
	{"a backend that stays down is called each ten minutes", "WebhookFailingClosed", append(partly(oneIn(10), duringMinutes(60, 1000, oneIn(10))), findingIn(60, 1000)[0]), 1, 1, 50, 60, 140, 240, 240},
	{"a minute in which a thousand calls fail, then four in a hundred", "WebhookFailingClosed", partly(then(oneIn(5), 60, then(often(1000), 61, often(20))), duringMinutes(60, 1000, then(often(1000), 61, func(m int) int { return 4 * oneIn(5)(m) }))), 1, 1, 50, 301, 0, 0, 300},
	{"a webhook that is slow in clumps", "WebhookSlow", clumpy(), 1, 1, 50, 60, 120, 240, 240},
	{"refusals after idle hours, for as long as they last", "WebhookRejectionsHigh", idleThenRefusing(), 1, 1, 440, 450, 490, 700, 700},
	{"a hundred calls once a night, all fail", "WebhookAllCallsFailing", nightly(), 1, 1, 80, 90, 110, 145, 200},
	{"four calls a day, all fail", "WebhookAllCallsFailing", fourADay(), 4, 4, 0, 720, 1230, 2000, 2000},
	{"three of a hundred calls fail for half a day", "WebhookCallsFailing", threeInAHundred(), 2, 2, 50, 60, 360, 600, 600},
	{"an auditor whose clock is an hour ahead, with a broken watch", "WebhookAuditorStale", []trace{build, ahead}, 1, 1, 0, 60, 72, 150, 150},
	{"an auditor that is away for a day and a half", "WebhookAuditorDown", []trace{build.except(30, 5000, "_").except(30, 31, "stale")}, 1, 4, 0, 30, 52, 2160, 2160},
	{"the auditor of one of several clusters is away for a day and a half", "WebhookAuditorDown", []trace{buildOfEast.except(30, 5000, "_").except(30, 31, "stale")}, 1, 4, 0, 30, 52, 2160, 2160},
}

// longAgo are counters that counted failures and refusals before Prometheus started.
func longAgo() []trace {
	traces := []trace{
		stays(requested("503"), 12), stays(requested("403"), 7), stays(rejected("calling_webhook_error"), 12), stays(rejected("no_error"), 7),
		stays(promql.FailedOpen+`{instance="a",name="w",type="validating"}`, 5), stays(conversions("false"), 9), limited(knownHook, 0.5), reach,
		stays(strings.Replace(matchConditionErrors, "{", "{"+calledHook+",", 1), 8), stays(gcErrors+`{instance="k"}`, 3),
		grows(scraped+`{instance="a"}`, 1), seesAll, info,
	}
	for _, slow := range durations(promql.WebhookSeconds, calledHook, "1", 1) {
		traces = append(traces, slow.idle())
	}
	return traces
}

// onCalls are the names of the alerts on calls.
func onCalls() string {
	var names []string
	for _, a := range callsGroup.Alerts {
		names = append(names, a.Name)
	}
	return strings.Join(names, " ")
}

// seldom is an API server of which one scrape in many succeeds in time: it lacks no series,
// and its webhook answers most of its few calls.
func seldom() []trace {
	traces := []trace{seesAll, stays(gcErrors+`{instance="k"}`, 0), stays(longestRun+`{instance="k",name="namespace"}`, 0), stays(queued+`{instance="k",name="namespace"}`, 0)}
	for _, t := range []trace{grows(scraped+`{instance="a"}`, 1), grows(requested("200"), 0.2), grows(requested("503"), 0.1), grows(rejected("calling_webhook_error"), 0.1)} {
		traces = append(traces, trace{t.series, func(minute int) string {
			if minute%18 > 0 {
				return "stale"
			}
			return t.value(minute)
		}})
	}
	return traces
}

// restartsEachHour answers twenty calls a minute, and fails three in an hour, in which all
// is counted anew.
func restartsEachHour() []trace {
	return []trace{
		counts(requested("200"), func(m int) int { return 20 * (m%60 + 1) }), counts(requested("503"), func(m int) int { return (m%60 + 1) / 15 }),
		counts(rejected("calling_webhook_error"), func(m int) int { return (m%60 + 1) / 15 }), counts(scraped+`{instance="a"}`, func(m int) int { return m%60 + 1 }),
		limited(knownHook, 1), seesAll,
	}
}

// storm has one call in ten be slow for some minutes.
func storm(perMinute, minutes int) []trace {
	calls := since(0, perMinute)
	slow := func(m int) int { return perMinute * min(max(m-60, 0), minutes) / 10 }
	return []trace{
		counts(promql.WebhookSeconds+`_bucket{`+calledHook+`,le="0.5"}`, func(m int) int { return calls(m) - slow(m) }),
		counts(promql.WebhookSeconds+`_count{`+calledHook+`}`, calls), counts(requested("200"), calls), limited(knownHook, 0.5), reach, seesAll,
	}
}

// refusedByPolicy are requests that no policy denied, from minute 60 on.
func refusedByPolicy(instance string, requests, perMinutes int) trace {
	return counts(plugins+`{instance="`+instance+`",name="ValidatingAdmissionPolicy",type="validate",operation="CREATE",rejected="true"}`,
		func(m int) int { return 5 + max(m-60, 0)/perMinutes*requests })
}

// eachHourOf are so many at once each hour, one number for each hour from the first on.
func eachHourOf(requests ...int) func(int) int {
	return summed(func(m int) int {
		return oneIn(60)(m) * duringMinutes(60, 1000, func(m int) int { return requests[(m/60-1)%len(requests)] })(m)
	})
}

// refusedEachHour are such requests.
func refusedEachHour(requests ...int) []trace {
	return []trace{counts(refusedByPolicy("a", 1, 1).series, func(m int) int { return 5 + eachHourOf(requests...)(m) })}
}

// refusedFor are six such requests a minute, for some minutes, unreadFor an API server that cannot read its manifests.
func refusedFor(minutes int) []trace {
	return []trace{counts(refusedByPolicy("a", 1, 1).series, func(m int) int { return 5 + 6*min(max(m-60, 0), minutes) })}
}

func unreadFor(minutes int) []trace {
	return []trace{counts(promql.ManifestReloads+`{instance="a",plugin="p",status="failure"}`, func(m int) int { return 1 + min(max(m-60, 0), minutes) })}
}

// besideDenials are six such requests a minute beside 180 denials.
func besideDenials() []trace {
	return []trace{
		counts(plugins+`{instance="a",name="ValidatingAdmissionPolicy",type="validate",operation="CREATE",rejected="true"}`, func(m int) int { return 180*m + since(60, 6)(m) }),
		counts(promql.Validations+`{instance="a",policy="p",policy_binding="b",enforcement_action="deny"}`, since(0, 180)),
	}
}

// openPolicy counts what a policy lets pass.
const openPolicy = promql.Validations + `{instance="a",policy="p",policy_binding="b",enforcement_action="allow",error_type="policy_error"}`

// passedByPolicy are requests that a policy cannot evaluate, one in so many minutes.
func passedByPolicy(instance string, minutes int) trace {
	return counts(promql.Validations+`{instance="`+instance+`",policy="p",policy_binding="b",enforcement_action="allow",error_type="policy_error"}`, func(m int) int { return m / minutes })
}

// mutated are mutations that succeed.
var mutated = counts(promql.Mutations+`{instance="a",policy="p",policy_binding="b",error_type="no_error"}`, since(0, 60))

// failedMutations are those that fail, one in so many minutes.
func failedMutations(instance string, minutes int) trace {
	return counts(promql.Mutations+`{instance="`+instance+`",policy="p",policy_binding="b",error_type="invalid_error"}`, func(m int) int { return m / minutes })
}

// mornings are calls of which a third is refused for eight hours of each day.
func mornings() []trace {
	refused := func(m int) int { return 20 * (m/1440*480 + min(m%1440, 480)) }
	return []trace{
		counts(requested("200"), func(m int) int { return 60*m - refused(m) }), counts(requested("403"), refused), counts(rejected("no_error"), refused), limited(knownHook, 1), seesAll,
	}
}

// nights are thirty calls in two minutes of each night, all of which fail.
func nights() []trace {
	past := func(m int) int {
		since := max(m-90, 0)
		return 30*(since/1440) + 15*min(since%1440, 2)
	}
	return []trace{
		stays(requested("200"), 7), counts(requested("503"), past), counts(rejected("calling_webhook_error"), past), counts(scraped+`{instance="a"}`, since(0, 1)),
		limited(knownHook, 1), seesAll,
	}
}

// behindOneAddress are three API servers, another of which answers each scrape.
func behindOneAddress() []trace {
	return []trace{
		counts(scraped+`{instance="a"}`, func(m int) int { return 1000*(m*7%3+1) + m }), seesAll,
		stays(gcErrors+`{instance="k"}`, 0), stays(longestRun+`{instance="k",name="namespace"}`, 0), stays(queued+`{instance="k",name="namespace"}`, 0),
	}
}

// rollout has one call in so many fail, at random, and all for some minutes.
func rollout(perMinute, oneIn, minutes int) []trace {
	const last = 200
	random := rand.New(rand.NewPCG(uint64(perMinute), uint64(oneIn)))
	failed := make([]int, last+1)
	for m := 1; m <= last; m++ {
		failed[m] = failed[m-1]
		for range perMinute {
			if m > 120 && m <= 120+minutes || random.IntN(oneIn) == 0 {
				failed[m]++
			}
		}
	}
	failures := func(m int) int { return failed[min(m, last)] }
	return []trace{
		counts(requested("200"), func(m int) int { return perMinute*m - failures(m) }), counts(requested("503"), failures), counts(rejected("calling_webhook_error"), failures),
		limited(knownHook, 0.5), reach, seesAll,
	}
}

// rollouts expect no page of an outage of two minutes, however many calls there are and
// how many of them fail at any time, and no ticket where these are fewer than one in a
// hundred.
func rollouts() []expectation {
	var out []expectation
	for _, perMinute := range []int{18, 180, 1800} {
		for _, oneIn := range []int{1000, 200, 50} {
			name := fmt.Sprintf("%d calls a minute, one in %d fails, and all for two minutes", perMinute, oneIn)
			alerts := "WebhookFailingClosed"
			if oneIn > 100 {
				alerts += " WebhookCallsFailing"
			}
			out = append(out, expectation{name, alerts, rollout(perMinute, oneIn, 2), 1, 1, 50, 201, 0, 0, 200})
		}
	}
	return out
}

// auditorsGo expects that an alert is one and the same for as long as its cause lasts,
// whatever happens to the auditors in the middle of the outage.
func auditorsGo() []expectation {
	goes := func(t trace) trace { return t.except(121, 122, "stale").except(122, 1000, "_") }
	var out []expectation
	for name, happens := range map[string]func(t trace) []trace{
		"the auditor is away for 30 minutes": func(t trace) []trace { return []trace{t.except(110, 111, "stale").except(111, 140, "_")} },
		"the replicas are replaced":          func(t trace) []trace { return []trace{goes(t), t.second().except(0, 120, "_")} },
		"the backend moves": func(t trace) []trace {
			return []trace{goes(t), t.second().renamed(inPolicy, `service_namespace="moved"`).except(0, 120, "_")}
		},
	} {
		var traces []trace
		for _, t := range append(pages("calling_webhook_error"), findingIn(60, 1000)[:2]...) {
			if strings.HasPrefix(t.series, "webhook_auditor_") {
				traces = append(traces, happens(t)...)
			} else {
				traces = append(traces, t)
			}
		}
		for _, alert := range []string{"WebhookFailingClosed", "WebhookCallsFailing", "WebhookBackendDown"} {
			out = append(out, expectation{name, alert, traces, 1, 1, 50, 60, 75, 190, 190})
		}
	}
	return out
}

// nightly makes a hundred calls in two minutes of each night, all of which fail.
func nightly() []trace {
	failures := func(m int) int { return 100 + min(since(90, 50)(m), 100) }
	return []trace{
		counts(requested("503"), failures), counts(rejected("calling_webhook_error"), failures), counts(scraped+`{instance="a"}`, since(0, 1)),
		limited(knownHook, 1), seesAll,
	}
}

// fourADay makes a call each six hours, and all fail.
func fourADay() []trace {
	failures := func(m int) int { return (m + 310) / 360 }
	return []trace{
		stays(requested("200"), 7), counts(requested("503"), failures), counts(rejected("calling_webhook_error"), failures),
		counts(scraped+`{instance="a"}`, since(0, 1)), limited(knownHook, 0.5), reach, seesAll,
	}
}

// threeInAHundred of 300 calls a second fail.
func threeInAHundred() []trace {
	failures := since(60, 540)
	return []trace{
		counts(requested("200"), func(m int) int { return 18000*m - failures(m) }), counts(requested("503"), failures),
		counts(rejected("calling_webhook_error"), failures), limited(knownHook, 1), seesAll,
	}
}

// ahead is what an auditor says whose clock is an hour ahead, and whose watch breaks.
var ahead = trace{seesAll.series, func(m int) string { return number(float64(3600 + 60*min(m, 60))) }}

// blindFor is what an auditor says whose watch is broken for half an hour.
var blindFor = trace{seesAll.series, func(m int) string {
	if m > 60 && m < 90 {
		m = 60
	}
	return number(float64(60 * m))
}}

// scenario is the expectation as one of a world.
func (e expectation) scenario() scenario {
	return scenario{e.name + ", " + e.alert, e.cluster(), strings.Fields(e.alert), e.lines(), e.wrong}
}

func (e expectation) wrong(fires firings) string {
	identity := ""
	for m := e.begin; m <= e.last; m += e.step {
		alerts := firingOf(fires(minutes(m)), strings.Fields(e.alert)...)
		switch isDue := m >= e.begins && m <= e.ends; {
		case m < e.silent && len(alerts) > 0:
			return fmt.Sprintf("fires after %d minutes: %s", m, alerts[0].Labels)
		case isDue && len(alerts) != 1:
			return fmt.Sprintf("%d alerts fire after %d minutes, want one", len(alerts), m)
		case isDue && identity != "" && alerts[0].Labels.String() != identity:
			return fmt.Sprintf("after %d minutes %s fires, before it was %s", m, alerts[0].Labels, identity)
		case isDue:
			identity = alerts[0].Labels.String()
		}
	}
	return ""
}

// isAboutAbsence reports whether the alert is about what is not there, in whichever cluster.
func (e expectation) isAboutAbsence() bool {
	return strings.HasPrefix(e.alert, "WebhookAuditor") || strings.HasPrefix(e.alert, "WebhookInputMetricsMissing")
}

// cluster is where the expectation is looked at.
func (e expectation) cluster() string {
	switch {
	case strings.HasPrefix(e.name, "an auditor "):
		return ""
	case strings.Contains(e.name, "one of several clusters"):
		return "east"
	}
	return e.name
}

// bornLate are the series that exist only once what they count has happened: that
// one is missing says nothing. Those of policies and manifests are where these are.
var bornLate = []string{
	"apiserver_admission_match_condition_evaluation_errors_total", "apiserver_crd_conversion_webhook_duration_seconds_sum",
	"apiserver_request_total", plugins, promql.Validations, promql.Mutations, promql.ManifestReloads, promql.ManifestHashes,
}

// TestInputsAreComplete holds the table of inputs against the expressions: each
// series of others, each edge of a histogram and each label that is selected by
// is looked for.
func TestInputsAreComplete(t *testing.T) {
	var table strings.Builder
	for _, i := range inputs() {
		table.WriteString(i.series + "\n" + i.expr + "\n")
	}
	for _, a := range all() {
		expr := must.Get(parser.NewParser(parser.Options{}).ParseExpr(placedNumber.ReplaceAllString(a.Expr, "1")))(t)
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			s, ok := node.(*parser.VectorSelector)
			if !ok || a.Name == "WebhookInputMetricsMissing" || isOurs(s.Name) || strings.HasPrefix(s.Name, "webhook_auditor_") || slices.Contains(bornLate, s.Name) {
				return nil
			}
			if !strings.Contains(table.String(), s.Name) {
				t.Errorf("%s reads %s: inputs() does not look for it", a.Name, s.Name)
			}
			for _, m := range s.LabelMatchers {
				if want := lookedFor(s.Name, m); want != "" && !regexp.MustCompile(want).MatchString(table.String()) {
					t.Errorf("%s selects by %s: inputs() does not look for %q", a.Name, m, want)
				}
			}
			return nil
		})
	}
}

// lookedFor is what the table must have for a matcher of an admission or
// conversion series.
func lookedFor(series string, m *labels.Matcher) string {
	switch {
	case m.Name == "le":
		edge, _, _ := strings.Cut(m.Value, "|")
		return regexp.QuoteMeta(series + `{le="` + strings.TrimSuffix(edge, ".0"))
	case slices.Contains([]string{"error_type", "code", "succeeded"}, m.Name) && m.Value != "":
		return `label .*\b` + m.Name + `\b.* of ` + series
	}
	return ""
}

// TestRestart restarts Prometheus in the middle of an outage: it fires the same
// alerts as before, with the same labels.
func TestRestart(t *testing.T) {
	finding := `webhook_auditor_finding{instance="one",pod="one",check="service-missing",severity="critical",type="validating",configuration="c",name="w",group="",resource=""}`
	file := fileOf(t, "WebhookFailingClosed", "WebhookBackendDown", "WebhookAllCallsFailing")
	p := evaluateFile(t, file, tick, slices.Concat(called("0+20x240"), failed("0+10x240"), others(240), auditor("one", "policy", "x240"), []string{finding + " 1x240"}))
	p.now = 20 * time.Minute
	identities := func(offset time.Duration) []string {
		var out []string
		for _, a := range p.until(offset) {
			out = append(out, a.Labels.String())
		}
		slices.Sort(out)
		return out
	}
	before := identities(40 * time.Minute)
	p.restart(file, 42*time.Minute)
	if after := identities(50 * time.Minute); len(before) != 2 || !slices.Equal(before, after) {
		t.Errorf("%q fire after the restart, %q before", after, before)
	}
}

// repairedWorld has webhooks that are called now and then, whose backend is down for an hour,
// as the auditor finds: once it is back, the calls that failed until then page no more when the
// alert on the backend ends.
func repairedWorld() *world {
	const down, up = 20, 80
	w := &world{name: "repaired backends", scrape: minute, step: minute, begin: minutes(15), last: minutes(watched)}
	for _, period := range []int{1, 2, 5, 10} {
		calls := func(begin, end int) func(int) int {
			return func(m int) int { return max(min(m, end)-begin, 0) / period * max(1, period/2) }
		}
		found := stays(`webhook_auditor_finding{`+knownHook+`,check="no-ready-endpoints",severity="critical",configuration="c",group="",resource=""}`, 1)
		answered := func(m int) int { return calls(0, down)(m) + calls(up, watched)(m) }
		lines := faults[0].lines([]trace{
			counts(requested("200"), answered), counts(requested("503"), calls(down, up)), counts(rejected("calling_webhook_error"), calls(down, up)),
			found.during(down, up), info, reach, seesAll, limited(knownHook, 0.5),
		})
		name := fmt.Sprintf("a backend that is back, called every %d minutes", period)
		w.scenarios = append(w.scenarios, scenario{name, name, []string{"WebhookBackendDown", "WebhookFailingClosed"}, lines, func(fires firings) string {
			paged := false
			for m := 15; m <= watched; m++ {
				fires := fires(minutes(m))
				down, failing := len(firingOf(fires, "WebhookBackendDown")) > 0, len(firingOf(fires, "WebhookFailingClosed")) > 0
				paged = paged || down
				if m > up && failing && !down {
					return fmt.Sprintf("WebhookFailingClosed fires alone %d minutes after the backend is back", m-up)
				}
			}
			if !paged {
				return "WebhookBackendDown does not fire"
			}
			return ""
		}})
	}
	return w
}

// deleted is a webhook of which all calls fail, until its configuration is deleted
// at minute 100.
func deleted(perMinute int) []trace {
	failures := func(m int) int { return since(60, perMinute)(min(m, 100)) }
	return []trace{
		counts(requested("200"), func(m int) int { return perMinute * min(m, 60) }), counts(requested("503"), failures),
		counts(rejected("calling_webhook_error"), failures), seesAll,
		limited(knownHook, 0.5).except(100, 1000, "_").except(100, 101, "stale"), reach.except(100, 1000, "_").except(100, 101, "stale"),
	}
}

// createdAgain is that webhook, which is back from minute 130 on, and of which a call
// fails now and then.
func createdAgain() []trace {
	out := deleted(2)
	failures := func(m int) int { return since(60, 2)(min(m, 100)) + max(m-140, 0)/40 }
	out[0] = counts(requested("200"), func(m int) int { return 2*min(m, 60) + since(130, 2)(m) })
	out[1], out[2] = counts(requested("503"), failures), counts(rejected("calling_webhook_error"), failures)
	out[4], out[5] = limited(knownHook, 0.5).except(100, 130, "_").except(100, 101, "stale"), reach.except(100, 130, "_").except(100, 101, "stale")
	return out
}

// replaced is that webhook, and one of another name in its place that answers.
func replaced() []trace {
	out := deleted(60)
	for _, t := range []trace{counts(requested("200"), since(100, 60)), limited(knownHook, 0.5).except(0, 100, "_"), reach.except(0, 100, "_")} {
		out = append(out, trace{strings.Replace(t.series, `name="w"`, `name="renamed"`, 1), t.value})
	}
	return out
}

// relabelled is that webhook in a cluster of which nothing is scraped any more.
func relabelled(perMinute int) []trace {
	var out []trace
	for _, t := range deleted(perMinute) {
		out = append(out, t.except(100, 101, "stale").except(101, 1000, "_"))
	}
	return out
}

// slowFor is called twice a second, and slow in some minutes.
func slowFor(begin, before int) []trace {
	calls := since(0, 120)
	return []trace{
		counts(promql.WebhookSeconds+`_bucket{`+calledHook+`,le="1"}`, func(m int) int { return calls(min(m, begin)) + calls(max(m-before, 0)) }),
		counts(promql.WebhookSeconds+`_count{`+calledHook+`}`, calls), counts(requested("200"), calls), limited(knownHook, 1), seesAll,
	}
}

// findingIn is a finding in some minutes.
func findingIn(begin, before int) []trace {
	finding := stays(`webhook_auditor_finding{`+knownHook+`,check="no-ready-endpoints",severity="critical",configuration="c",group="",resource=""}`, 1)
	return []trace{finding.except(0, begin, "_").except(before, 1000, "stale"), info, reach, seesAll}
}

// ofTwoOperations halves calls between two operations.
func ofTwoOperations(traces []trace) []trace {
	var out []trace
	for _, t := range traces {
		if !strings.Contains(t.series, `operation="CREATE"`) {
			out = append(out, t)
			continue
		}
		half := t.slower(2)
		out = append(out, half, half.renamed("CREATE", "UPDATE"))
	}
	return out
}

// A silence is when an alert that has fired must fire no more, in minutes.
type silence struct {
	name, alert string
	traces      []trace
	// fires is when the alert fires; it is silent between begins and ends.
	fires, begins, ends int
}

var silences = []silence{
	{"the configuration of a busy webhook is deleted", "WebhookFailingClosed", deleted(60), 99, 105, 300},
	{"the configuration of a webhook that is called now and then is deleted", "WebhookFailingClosed", deleted(1), 99, 105, 300},
	{"the webhook gets another name", "WebhookFailingClosed", replaced(), 99, 105, 300},
	{"the label of the cluster changes", "WebhookFailingClosed", relabelled(1), 99, 125, 300},
	{"fifteen calls of a night fail", "WebhookAllCallsFailing", partly(duringMinutes(60, 75, often(1)), duringMinutes(60, 75, often(1))), 110, 160, 300},
	{"calls hang, as the page then says", "WebhookFailingOpen", hang(4, 240), 73, 92, 300},
	{"quick calls after slow ones", "WebhookSlow", slowFor(60, 80), 79, 95, 180},
	{"the backend is back", "WebhookBackendDown", findingIn(60, 100), 99, 110, 180},
	{"an auditor sees the cluster again", "WebhookAuditorStale", []trace{build, blindFor}, 85, 93, 150},
	{"stray failures of one in 50 calls, 18 a minute, after an outage", "WebhookFailingClosed", rollout(18, 50, 40), 159, 166, 199},
	{"stray failures of one in 200 calls, 18 a minute, after an outage", "WebhookCallsFailing", rollout(18, 200, 40), 159, 166, 199},
	{"stray failures of one in 200 calls, 180 a minute, after an outage", "WebhookFailingClosed", rollout(180, 200, 40), 159, 166, 199},
	{"six calls in half an hour are answered after an outage", "WebhookFailingClosed", partly(oneIn(5), duringMinutes(60, 150, oneIn(5))), 149, 190, 240},
	{"a call each minute is answered after an outage", "WebhookFailingClosed", partly(often(1), duringMinutes(60, 74, often(1))), 73, 97, 150},
	{"ten calls a minute are answered after an outage", "WebhookFailingClosed", partly(often(10), duringMinutes(60, 80, often(10))), 79, 90, 150},
	{"one in 14 fails after an outage", "WebhookFailingClosed", partly(often(100), then(duringMinutes(60, 80, often(100)), 80, often(7))), 79, 90, 200},
	{"one in sixty fails after an outage", "WebhookFailingClosed", partly(often(6), then(duringMinutes(60, 80, often(6)), 80, oneIn(10))), 79, 125, 200},
	{"many calls are answered after three outages", "WebhookFailingClosed", partly(then(often(60), 118, often(2000)), duringMinutes(0, 118, inSpells(8, 60, 0))), 118, 128, 160},
	{"six quick calls in half an hour", "WebhookSlow", slowly(1, then(oneIn(10), 180, oneIn(5)), duringMinutes(60, 180, oneIn(10))), 179, 225, 250},
	{"thirty quick calls in five minutes", "WebhookSlow", slowly(1, then(oneIn(10), 180, often(6)), duringMinutes(60, 180, oneIn(10))), 179, 195, 206},
	{"six quick calls in half an hour, of two operations", "WebhookSlow", ofTwoOperations(slowly(1, then(oneIn(10), 180, oneIn(5)), duringMinutes(60, 180, oneIn(10)))), 179, 225, 250},
	{"thirty quick calls in five minutes, of two operations", "WebhookSlow", ofTwoOperations(slowly(1, then(oneIn(10), 180, often(6)), duringMinutes(60, 180, oneIn(10)))), 179, 195, 206},
	{"a policy that refused fifteen requests three times", "WebhookPolicyConfigErrors", newPolicies("ValidatingAdmissionPolicy", "", 15, 60, 70, 80)[:1], 90, 125, 200},
	{"a policy that let fifteen requests pass three times", "WebhookPolicyFailingOpen", []trace{counts(openPolicy, func(m int) int { return 1 + summed(atMinutes(15, 60, 75, 90))(m) })}, 95, 140, 200},
	{"a backend that is called each two minutes is up after its fourth spell", "WebhookFailingClosed", append(partly(oneIn(2), func(m int) int { return oneIn(2)(m) * inSpells(8, 1, 0)(m) }), foundInSpells), 142, 152, 159},
	{"the configuration is created again", "WebhookFailingClosed", createdAgain(), 99, 105, 300},
}

// silenceWorld has what a person on call has cured end.
func silenceWorld() *world {
	w := &world{name: "silences", scrape: minute, step: minute, begin: minutes(50), last: minutes(300)}
	for _, s := range silences {
		lines := expectation{traces: s.traces, scrape: 1, last: s.ends}.lines()
		w.scenarios = append(w.scenarios, scenario{s.name, s.name, []string{s.alert}, lines, s.wrong})
	}
	return w
}

func (s silence) wrong(fires firings) string {
	if len(firingOf(fires(minutes(s.fires)), s.alert)) != 1 {
		return fmt.Sprintf("does not fire after %d minutes", s.fires)
	}
	for m := s.begins; m <= s.ends; m++ {
		if got := firingOf(fires(minutes(m)), s.alert); len(got) > 0 {
			return fmt.Sprintf("fires after %d minutes: %s", m, got[0].Labels)
		}
	}
	return ""
}

// TestCutOffSeenByAuditors has one of three API servers reach no webhook, where two
// auditors export what API servers count: one alert says so, and names it.
func TestCutOffSeenByAuditors(t *testing.T) {
	t.Parallel()
	const end = cutOffAt + 30*60
	var series []string
	for _, auditor := range []string{"x", "y"} {
		for _, line := range (cutOffServer{3600, 30, 0, nil}).series(end) {
			line = strings.Replace(line, `instance="`, `instance="`+auditor+`",server="`, 1)
			for _, name := range observed.Exported() {
				line = strings.Replace(line, name, observed.ExportedName(name), 1)
			}
			series = append(series, line)
		}
	}
	p := evaluate(t, Options{Signals: AuditorSignals}, series...)
	p.only("WebhookFailingClosed")
	p.tick = minute
	p.now = (cutOffAt - 30*60) * time.Second
	fires := slices.DeleteFunc(p.until(end*time.Second), func(a *rules.Alert) bool {
		return a.Labels.Get("component") == "" || strings.HasPrefix(a.Labels.Get("alertname"), "WebhookAuditor")
	})
	if len(fires) != 1 || fires[0].Labels.Get("alertname") != "WebhookNoneReachable" || fires[0].Labels.Get("server") != "c" || !strings.Contains(fires[0].Annotations.Get("summary"), "API server c ") {
		t.Errorf("%v fire, want WebhookNoneReachable about c", fires)
	}
}

// TestDecommissioned has a cluster go with its auditor and its API servers, the only
// one of the store, or because it has another name: no target is left, and nothing
// pages. It does where the targets are left.
func TestDecommissioned(t *testing.T) {
	const lives, step = 120, 10
	gone := func(series trace) trace { return series.except(lives, lives+1, "stale").except(lives+1, 100_000, "_") }
	east := []trace{buildOfEast, stays(scraped+`{cluster="east",job="j",instance="a"}`, 1)}
	target := stays(`up{cluster="east",job="j",instance="a"}`, 1)
	var ended, renamed []trace
	for _, of := range east {
		ended = append(ended, gone(of))
		renamed = append(renamed, gone(of), trace{strings.Replace(of.series, "east", "west", 1), of.value}.except(0, lives, "_"))
	}
	for name, test := range map[string]struct {
		traces []trace
		want   []string
	}{
		"the only one": {append(slices.Clone(ended), gone(target)), []string{"WebhookAuditorDown"}},
		"renamed":      {append(renamed, gone(target)), []string{"WebhookAuditorDown"}},
		"not scraped":  {append(slices.Clone(ended), target.except(lives, 100_000, "0")), []string{"WebhookAuditorDown", "WebhookUnwatched"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := expectation{scrape: step, last: lives + 9*24*60, traces: test.traces}
			p := evaluateFile(t, fileOf(t, "WebhookAuditorDown", "WebhookUnwatched"), step*minute, e.lines())
			p.tick = minute
			p.now = (lives - 10) * minute
			expect.Equal(t, test.want, p.firing((lives+60)*minute)) // fire after an hour
			p.tick = 4 * minute
			if got := p.firing(time.Duration(e.last) * minute); len(got) > 0 {
				t.Errorf("%q fire after nine days", got)
			}
		})
	}
}
