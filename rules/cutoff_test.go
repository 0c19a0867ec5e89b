package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A cutOffServer is one of three API servers that reaches no webhook for a while.
type cutOffServer struct {
	perHour int // calls of each of two webhooks on each API server
	minutes int // how long it reaches none
	// again is how many minutes later one webhook fails on it anew, for good; 0
	// stands for never.
	again int
	// strays are how many minutes later single calls of it fail.
	strays []int
}

const cutOffAt = 2 * hour

func (c cutOffServer) restored() int { return cutOffAt + c.minutes*60 }

// series are the calls of both webhooks until the end.
func (c cutOffServer) series(end int) []string {
	var out []string
	for n, instance := range []string{"a", "b", "c"} {
		for _, webhook := range []string{"v", "w"} {
			tr := traffic{evenly(c.perHour), none}
			if n == 2 {
				tr.failures = c.failures(webhook)
			}
			out = append(out, tr.series(30, end, webhook, instance)...)
		}
	}
	return out
}

func (c cutOffServer) failures(webhook string) func(int) int {
	lost := until(c.restored(), countFrom(cutOffAt, evenly(c.perHour)))
	if webhook == "v" {
		return lost
	}
	if c.again == 0 {
		return func(s int) int {
			n := lost(s)
			for _, after := range c.strays {
				if s >= c.restored()+after*60 {
					n++
				}
			}
			return n
		}
	}
	anew := countFrom(c.restored()+c.again*60, evenly(c.perHour))
	return func(s int) int { return lost(s) + anew(s) }
}

// cutOffWorld has an API server reach no webhook for a while. What it counts then is none of single
// webhooks, neither then nor when it reaches them again, and its own page ends within ten minutes. A
// webhook that fails on it later has its own alerts, as soon as if nothing had been.
func cutOffWorld() *world {
	w := &world{name: "cut off", scrape: tick, step: minute, begin: cutOffAt * time.Second}
	for _, c := range []cutOffServer{
		{60, 10, 0, nil}, {60, 90, 0, nil}, {3600, 30, 0, nil}, {120, 30, 0, []int{7, 32, 80}}, {3600, 30, 0, []int{7, 12, 13}}, {3600, 30, 20, nil},
	} {
		name, end := fmt.Sprintf("%+v", c), c.restored()+120*60
		w.last = max(w.last, time.Duration(end)*time.Second)
		w.scenarios = append(w.scenarios, scenario{name, name, []string{"WebhookCallsFailing", "WebhookFailingClosed", "WebhookNoneReachable"}, c.series(end), func(fires firings) string {
			return c.wrong(fires, end)
		}})
	}
	return w
}

func (c cutOffServer) wrong(fires firings, end int) string {
	first, last := map[string]int{}, map[string]int{} // as minutes after the API server reaches webhooks again
	for at := cutOffAt; at <= end; at += 60 {
		for _, a := range fires(time.Duration(at) * time.Second) {
			name := a.Labels.Get("alertname") + a.Labels.Get("name")
			last[name] = (at - c.restored()) / 60
			if _, seen := first[name]; !seen {
				first[name] = last[name]
			}
		}
	}
	page, closed, tickets := first["WebhookNoneReachable"], first["WebhookFailingClosedw"], first["WebhookCallsFailingw"]
	later := func(minute int) bool { return minute >= c.again && minute <= c.again+9 }
	if page >= 0 || last["WebhookNoneReachable"] > 10 || c.again == 0 && len(first) != 1 || c.again > 0 && (len(first) != 3 || !later(closed) || !later(tickets)) {
		return fmt.Sprintf("begin %v minutes after the outage, and end %v", first, last)
	}
	return ""
}

// TestEverywhere has one of two API servers reach no webhook, or both: the text says
// which.
func TestEverywhere(t *testing.T) {
	for want, servers := range map[string][]string{"other API servers reach them": {"a"}, "No API server of the cluster reaches any": {"a", "b"}} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			var series []string
			for _, instance := range []string{"a", "b"} {
				series = append(series, fmt.Sprintf(`%s{instance=%q} 0+1x60`, scraped, instance))
				for _, webhook := range []string{"v", "w"} {
					tr := traffic{evenly(hour), none}
					if slices.Contains(servers, instance) {
						tr.failures = countFrom(600, evenly(hour))
					}
					series = append(series, tr.series(30, 1800, webhook, instance)...)
				}
			}
			for _, webhook := range []string{"v", "w"} {
				series = append(series, fmt.Sprintf(`webhook_auditor_webhook_latency_threshold_seconds{pod="one",name=%q,type="validating",service_namespace=%q} 1x60`, webhook, webhook))
			}
			series = append(series, `webhook_auditor_snapshot_timestamp_seconds{pod="one"} 0+30x60`)
			alerts := evaluateFile(t, groupFile(t, groupsOf(t, "WebhookNoneReachable")), tick, series).until(25 * time.Minute)
			if len(alerts) != len(servers) {
				t.Fatalf("%d alerts fire, want %d", len(alerts), len(servers))
			}
			for _, a := range alerts {
				if text := a.Annotations.Get("description"); !strings.Contains(text, want) {
					t.Errorf("the alert on %s says %q", a.Labels.Get("instance"), text)
				}
			}
		})
	}
}

// backendsDownWorld has all webhooks of an only API server fail, as the auditor says
// that their backends are down. It is no API server that reaches none, though the auditor
// goes, and though scrapes are missed.
func backendsDownWorld() *world {
	const end = 2 * hour
	var series []string
	for _, webhook := range []string{"v", "w"} {
		tr := traffic{evenly(hour), countFrom(hour/2, evenly(hour))}
		series = append(series, tr.series(30, end, webhook, "a")...)
		of := fmt.Sprintf(`pod="one",type="validating",name=%q,service_namespace=%q`, webhook, webhook)
		series = append(series,
			fmt.Sprintf(`webhook_auditor_webhook_latency_threshold_seconds{%s} 1x120 stale`, of),
			fmt.Sprintf(`webhook_auditor_webhook_backend_ready{%s} 1x59 0x60 stale`, of))
	}
	series = append(series, fmt.Sprintf(`%s{instance="a"} 0+1x%d`, scraped, end/30), `webhook_auditor_snapshot_timestamp_seconds{pod="one"} 0+30x120 stale`)
	w := &world{name: "backends that are down", scrape: tick, step: minute, last: end * time.Second}
	for name, series := range map[string][]string{"all are scraped": series, "scrapes are missed": missed(series)} {
		w.scenarios = append(w.scenarios, scenario{name, name, []string{"WebhookCallsFailing", "WebhookNoneReachable"}, series, func(fires firings) string {
			got := map[string]bool{}
			for at := time.Duration(0); at < end*time.Second; at += minute {
				for _, a := range fires(at) {
					got[a.Labels.Get("alertname")] = true
				}
			}
			if len(got) != 1 || !got["WebhookCallsFailing"] {
				return fmt.Sprintf("%v fired, want WebhookCallsFailing alone", got)
			}
			return ""
		}})
	}
	return w
}

// missed leaves out scrapes of API servers, one or two in a row.
func missed(series []string) []string {
	var out []string
	for _, s := range series {
		name, values, _ := strings.Cut(s, "} ")
		if fields := strings.Fields(values); strings.HasPrefix(name, "apiserver_admission_webhook") {
			for i := range fields {
				if i%4 == 1 || i%7 == 2 {
					fields[i] = "_"
				}
			}
			values = strings.Join(fields, " ")
		}
		out = append(out, name+"} "+values)
	}
	return out
}
