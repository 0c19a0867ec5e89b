package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// healthy is a cluster in which the webhook "w" is called once a second and
// allows everything, seen by two auditors; each value lasts a tick.
func healthy(ticks int) []string {
	return slices.Concat(called(fmt.Sprintf("0+30x%d", ticks)), audited(ticks), inputs(ticks))
}

// called are the series of calls of "w" that are quick and allowed.
func called(values string) []string {
	return []string{
		`apiserver_admission_webhook_request_total{instance="a",name="w",type="validating",operation="CREATE",code="200",rejected="false"} ` + values,
		`apiserver_admission_webhook_admission_duration_seconds_count{instance="a",name="w",type="validating",operation="CREATE",rejected="false"} ` + values,
		`apiserver_admission_webhook_admission_duration_seconds_bucket{instance="a",name="w",type="validating",operation="CREATE",rejected="false",le="0.5"} ` + values,
		`apiserver_admission_webhook_admission_duration_seconds_bucket{instance="a",name="w",type="validating",operation="CREATE",rejected="false",le="1"} ` + values,
		`apiserver_admission_webhook_admission_duration_seconds_bucket{instance="a",name="w",type="validating",operation="CREATE",rejected="false",le="+Inf"} ` + values,
	}
}

// failed are the calls of "w" that fail and are refused for it.
func failed(values string) []string {
	return []string{
		`apiserver_admission_webhook_request_total{instance="a",name="w",type="validating",operation="CREATE",code="503",rejected="true"} ` + values,
		`apiserver_admission_webhook_rejection_count{instance="a",name="w",type="validating",operation="CREATE",error_type="calling_webhook_error",rejection_code="503"} ` + values,
	}
}

// audited are the series of two auditors that know "w".
func audited(ticks int) []string {
	var out []string
	for _, pod := range []string{"one", "two"} {
		out = append(out, auditor(pod, "policy", fmt.Sprintf("x%d", ticks))...)
	}
	return out
}

// auditor are the series of an auditor that knows "w" with its backend in the
// namespace.
func auditor(pod, namespace, times string) []string {
	target := fmt.Sprintf(`instance=%q,pod=%q,namespace="webhook-auditor",job="webhook-auditor"`, pod, pod)
	webhook := `type="validating",name="w"`
	return []string{
		`webhook_auditor_build_info{` + target + `,version="1"} 1` + times,
		`webhook_auditor_snapshot_timestamp_seconds{` + target + `} 0+30` + times,
		`webhook_auditor_webhook_info{` + target + `,` + webhook + `,configuration="c",failure_policy="Fail",service_namespace="` + namespace + `"} 1` + times,
		`webhook_auditor_webhook_reach{` + target + `,` + webhook + `,configuration="c",class="critical",group="",resource="pods"} 1` + times,
		`webhook_auditor_webhook_latency_threshold_seconds{` + target + `,` + webhook + `,service_namespace="` + namespace + `"} 0.5` + times,
		`webhook_auditor_webhook_failure_impact{` + target + `,` + webhook + `,service_namespace="` + namespace + `",impact="closed"} 1` + times,
	}
}

// inputs are the other series that an API server always has.
func inputs(ticks int) []string {
	return []string{
		fmt.Sprintf(`apiserver_admission_step_admission_duration_seconds_count{instance="a"} 0+1x%d`, ticks),
		fmt.Sprintf(`apiserver_request_sli_duration_seconds_sum{instance="a",verb="GET",group="",resource="pods"} 0+1x%d`, ticks),
		fmt.Sprintf(`apiserver_request_duration_seconds_sum{instance="a",verb="GET",group="",resource="pods",dry_run=""} 0+1x%d`, ticks),
	}
}

func TestHealthy(t *testing.T) {
	p := play(t, Options{}, healthy(240)...)
	for moment := time.Duration(0); moment <= 2*time.Hour; moment += 10 * time.Minute {
		if got := p.firing(moment); len(got) > 0 {
			t.Fatalf("after %s: %q", moment, got)
		}
	}
}

// kind is a kind of webhook, and how its calls are counted.
type kind struct {
	alert          string
	called, failed func(values string) []string
}

var kinds = []kind{
	{"WebhookFailingClosed", called, failed},
	{"WebhookFailingOpen", called, func(values string) []string {
		return []string{
			`apiserver_admission_webhook_request_total{instance="a",name="w",type="validating",operation="CREATE",code="503",rejected="false"} ` + values,
			`apiserver_admission_webhook_fail_open_count{instance="a",name="w",type="validating"} ` + values,
		}
	}},
	{"WebhookConversionFailing", converts("true"), converts("false")},
}

func converts(succeeded string) func(values string) []string {
	return func(values string) []string {
		return []string{`apiserver_crd_conversion_webhook_duration_seconds_count{instance="a",crd_name="w",from_version="v1",to_version="v2",succeeded="` + succeeded + `"} ` + values}
	}
}

func TestAcceptance(t *testing.T) {
	hour := "0+30x120 " // one call a second for an hour
	tests := []struct {
		name            string
		calls, failures string
		within          time.Duration // after the first hour
	}{
		{"10 % fail", hour + "3600+27x120", "_x120 0+3x120", 15 * time.Minute},
		{"10 % fail on a young webhook", "_x120 0+27x120", "_x120 0+3x120", 15 * time.Minute},
		{"total outage", hour + "3600x120", "_x120 1+30x120", 7 * time.Minute},
		{"total outage of a young webhook", "_x240", "_x120 1+30x120", 7 * time.Minute},
	}
	for _, test := range tests {
		for _, k := range kinds {
			t.Run(k.alert+": "+test.name, func(t *testing.T) {
				series := slices.Concat(k.called(test.calls), k.failed(test.failures), audited(240), inputs(240))
				p := play(t, Options{}, series...)
				p.only(k.alert)
				got := p.first(k.alert, 2*time.Hour)
				if got < time.Hour || got > time.Hour+test.within {
					t.Errorf("fires after %s, want within %s of the first hour", got, test.within)
				}
			})
		}
	}
}

// TestBurst lets each call of a webhook fail for 30 seconds, once: nobody may
// hear of it, however the webhook was called before and is scraped.
func TestBurst(t *testing.T) {
	// It begins just after a scrape, so that it shows in as many as it can. One
	// failure long before makes the first of the burst visible.
	const begin, length, end = 4201, 30, 5400 // seconds
	failures := func(second int) int { return 1 + min(max(second-begin, 0), length) }
	tests := []struct {
		name  string
		calls func(second int) int
	}{
		{"one call a second", func(s int) int { return 1 + s }},
		{"called since a minute", func(s int) int { return 1 + max(s-begin+60, 0) }},
		{"never called before", func(s int) int { return 1 + max(s-begin, 0) }},
		{"called once a minute afterwards", func(s int) int { return failures(s) + max(s-begin, 0)/60 }},
	}
	for _, test := range tests {
		for _, scrape := range []int{10, 15, 30} {
			for _, k := range kinds {
				t.Run(fmt.Sprintf("%s: %s scraped every %d s", k.alert, test.name, scrape), func(t *testing.T) {
					t.Parallel()
					answered := func(s int) int { return test.calls(s) - failures(s) }
					series := slices.Concat(k.called(counter(scrape, end, answered)), k.failed(counter(scrape, end, failures)))
					p := playFile(t, ruleFile(t, Options{}), time.Duration(scrape)*time.Second, series)
					p.only(k.alert)
					for p.now = 4200 * time.Second; p.now <= end*time.Second; {
						for _, got := range p.firing(p.now) {
							if got == k.alert+" w" || got == "WebhookAllCallsFailing w" {
								t.Fatalf("%s fires after %s", got, p.now)
							}
						}
					}
				})
			}
		}
	}
}

// counter writes a counter as promtool does, one value each scrape. Like the
// API server's it is born when it first counts.
func counter(scrape, end int, value func(second int) int) string {
	var b strings.Builder
	for s := 0; s <= end; s += scrape {
		if v := value(s); v > 0 {
			fmt.Fprintf(&b, "%d ", v)
		} else {
			b.WriteString("_ ")
		}
	}
	return b.String()
}

// TestSafe shows that an alert goes on where it must change: TestMishaps has
// what changes nothing.
func TestSafe(t *testing.T) {
	failing := slices.Concat(called("0+27x240"), failed("1+3x240"), inputs(240))
	tests := []struct {
		name   string
		series []string
		want   string
	}{
		{"no auditor", nil, ""},
		{"an auditor that goes after an hour", auditor("one", "policy", "x120"), "policy then "},
		{"a backend that moves", slices.Concat(auditor("one", "policy", "x120"), delayed(auditor("one", "moved", "x110"), 121)), "policy then moved"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := play(t, Options{}, slices.Concat(failing, test.series)...)
			p.only("WebhookFailingClosed")
			p.now = 40 * time.Minute
			var seen []string
			for moment := 50 * time.Minute; moment <= 110*time.Minute; moment += tick {
				for _, a := range p.until(moment) {
					if a.Labels.Get("alertname") == "WebhookFailingClosed" {
						seen = append(seen, a.Labels.Get("namespace"))
					}
				}
			}
			if got := strings.Join(slices.Compact(seen), " then "); got != test.want || len(seen) < 100 {
				t.Errorf("fires with namespace %q at %d ticks, want %q at all", got, len(seen), test.want)
			}
		})
	}
}

// delayed lets the series begin some ticks later.
func delayed(series []string, ticks int) []string {
	var out []string
	for _, s := range series {
		end := strings.LastIndex(s, "} ") + 2
		out = append(out, fmt.Sprintf("%s_x%d %s", s[:end], ticks-1, s[end:]))
	}
	return out
}
