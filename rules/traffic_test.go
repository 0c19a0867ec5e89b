package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// traffic is how often a webhook was called until a second, and how many of the
// calls failed, on one API server.
type traffic struct{ calls, failures func(second int) int }

// every makes n calls at once, each period.
func every(n, period int) func(int) int { return func(s int) int { return n * (s / period) } }

// evenly makes so many calls an hour.
func evenly(perHour int) func(int) int { return func(s int) int { return s * perHour / 3600 } }

// spread makes n calls during the first seconds of each period.
func spread(n, during, period int) func(int) int {
	return func(s int) int { return n*(s/period) + n*min(s%period, during)/during }
}

// everyNth is every nth call.
func everyNth(calls func(int) int, n int) func(int) int {
	return func(s int) int { return calls(s) / n }
}

// countFrom counts what happens after a second, until counts what happens before.
func countFrom(second int, count func(int) int) func(int) int {
	return func(s int) int { return count(max(s, second)) - count(second) }
}

func until(second int, count func(int) int) func(int) int {
	return func(s int) int { return count(min(s, second)) }
}

const (
	hour   = 3600
	broken = 6*hour + 13 // when the outages of the scenarios begin, apart from scrapes and slots
)

// outage has the calls fail from then on.
func outage(calls, failures func(int) int) traffic {
	return traffic{calls, countFrom(broken, failures)}
}

func total(calls func(int) int) traffic { return outage(calls, calls) }

// scenarios are what an on-call engineer expects of traffic that fails. All are
// evaluated with a webhook that answered everything for six hours.
var scenarios = []struct {
	name string
	// servers are what each API server counts.
	servers []traffic
	// warns and pages are how long after the outage began the alerts may fire
	// first; 0 stands for never.
	warns, pages time.Duration
}{
	{"3 calls every 5 minutes, all fail", []traffic{total(every(3, 300))}, 40 * time.Minute, 75 * time.Minute},
	{"10 calls every 10 minutes, all fail", []traffic{total(every(10, 600))}, 45 * time.Minute, time.Hour},
	{"50 calls in one minute each hour, all fail", []traffic{total(spread(50, 60, hour))}, 4 * time.Hour, 4 * time.Hour},
	{"24 calls an hour, half fail", []traffic{outage(evenly(24), everyNth(evenly(24), 2))}, time.Hour, 2 * time.Hour},
	{"60 calls an hour, one in seven fails", []traffic{outage(evenly(60), everyNth(evenly(60), 7))}, time.Hour, 4 * time.Hour},
	{"18 calls an hour, one is answered", []traffic{outage(evenly(18), everyNth(evenly(17), 1))}, 75 * time.Minute, 2 * time.Hour},
	{"30 calls an hour, one API server of three fails", []traffic{total(evenly(10)), {evenly(10), none}, {evenly(10), none}}, time.Hour, 3 * time.Hour},
	{"25 calls every 30 minutes, all fail", []traffic{total(spread(25, 20, 1800))}, 2 * time.Hour, 2 * time.Hour},
	{"one call a second, all fail", []traffic{total(evenly(hour))}, 8 * time.Minute, 8 * time.Minute},
	{"one call a second, a third fails", []traffic{outage(evenly(hour), everyNth(evenly(hour), 3))}, 9 * time.Minute, 9 * time.Minute},
	{"one call a second, one in ten fails", []traffic{outage(evenly(hour), everyNth(evenly(hour), 10))}, 15 * time.Minute, 5 * time.Hour},
	{"one call a second since just now, one in ten fails", []traffic{total(countFrom(broken-60, evenly(hour))), {countFrom(broken-60, evenly(9*hour)), none}}, 15 * time.Minute, time.Hour},
	{"one call a second since just now, all fail", []traffic{total(countFrom(broken-60, evenly(hour)))}, 8 * time.Minute, 8 * time.Minute},
	{"100 calls an hour, one in ten fails", []traffic{outage(evenly(100), everyNth(evenly(100), 10))}, time.Hour, 5 * time.Hour},
	{"one call a second, one in a hundred fails", []traffic{outage(evenly(hour), everyNth(evenly(hour), 100))}, 0, 0},
	{"a burst of 30 seconds", []traffic{outage(evenly(hour), until(broken+30, evenly(hour)))}, 0, 0},
	{"an outage of two minutes", []traffic{outage(evenly(hour), until(broken+120, evenly(hour)))}, 0, 0},
	{"an outage of two minutes in which alone it is called", []traffic{total(until(broken+120, countFrom(broken, evenly(hour))))}, 0, 0},
	{"half of the calls fail for three minutes", []traffic{outage(evenly(hour), everyNth(until(broken+180, evenly(hour)), 2))}, 0, 0},
	{"a rollout: half of the calls fail for a minute, twice", []traffic{outage(evenly(1200), func(s int) int {
		return (until(broken+60, evenly(1200))(s) + countFrom(broken+150, until(broken+210, evenly(1200)))(s)) / 2
	})}, 0, 0},
}

func none(int) int { return 0 }

// series are what the API server counts of the webhook until the end, with so many
// seconds between scrapes.
func (tr traffic) series(k kind, scrape, end int, webhook, instance string) []string {
	answered := func(s int) int { return tr.calls(s) - tr.failures(s) }
	var out []string
	for _, s := range slices.Concat(k.called(counter(scrape, end, answered)), k.failed(counter(scrape, end, tr.failures))) {
		out = append(out, strings.NewReplacer(`instance="a"`, fmt.Sprintf("instance=%q", instance), `name="w"`, fmt.Sprintf("name=%q", webhook)).Replace(s))
	}
	return out
}

// ends is when the scenarios end.
const ends = broken + 4*hour

// TestTraffic evaluates the scenarios with each kind of webhook, all in one cluster.
func TestTraffic(t *testing.T) {
	t.Parallel()
	var series []string
	for i, s := range scenarios {
		for _, k := range kindsOf(i) {
			for n, server := range s.servers {
				series = append(series, server.series(k, 30, ends, webhookOf(i, k), string(rune('a'+n)))...)
			}
		}
	}
	firsts := map[string]time.Duration{}
	p := evaluateFile(t, fileOf(t, "WebhookCallsFailing", "WebhookFailingClosed", "WebhookFailingOpen", "WebhookConversionFailing"), tick, series)
	p.tick = time.Minute // half as often as scraped: what is shown is the same
	p.record("webhook-auditor-history", broken*time.Second)
	for p.now = broken / 30 * 30 * time.Second; p.now <= ends*time.Second; {
		now := p.now
		if now > (broken+hour)*time.Second {
			p.tick = 2 * time.Minute // than which every expectation then is wider
		}
		for _, a := range p.until(now) {
			id := a.Labels.Get("alertname") + " " + a.Labels.Get("name")
			if _, seen := firsts[id]; !seen {
				firsts[id] = now - broken*time.Second
			}
		}
	}
	for i, s := range scenarios {
		for _, k := range kindsOf(i) {
			for alert, want := range map[string]time.Duration{k.alert: s.warns, k.page: s.pages} {
				got, fired := firsts[alert+" "+webhookOf(i, k)]
				if alert != "" && (fired != (want > 0) || got > want) {
					t.Errorf("%s: %s fires after %s (%t), want within %s", s.name, alert, got, fired, want)
				} else {
					t.Logf("%s: %s fires after %s", s.name, alert, got)
				}
			}
		}
	}
}

// TestRulesInstalledLate has a Prometheus that begins to evaluate the alerts when
// one call in a hundred has failed for hours: the failures of these hours are not
// compared with the calls of the few minutes of which there are records.
func TestRulesInstalledLate(t *testing.T) {
	t.Parallel()
	tr := outage(evenly(hour), everyNth(evenly(hour), 100))
	p := evaluateFile(t, fileOf(t, "WebhookCallsFailing", "WebhookFailingClosed"), tick, tr.series(kinds[0], 30, ends, "w", "a"))
	p.now = (broken/30*30 + 2*hour) * time.Second
	installed := p.now
	for at := installed; at < (broken+3*hour)*time.Second; at += 5 * time.Minute {
		if got := p.firing(at); len(got) > 0 {
			t.Fatalf("%q fire %s after the alerts are installed", got, at-installed)
		}
	}
}

// kindsOf are the kinds of webhooks that a scenario has: those that
// fail closed with all, the others, whose rules are made alike, with every third.
func kindsOf(scenario int) []kind {
	if scenario%3 == 0 {
		return kinds
	}
	return kinds[:1]
}

// webhookOf is the name of the webhook of a scenario.
func webhookOf(scenario int, k kind) string {
	return fmt.Sprintf("w%d.%s", scenario, strings.ToLower(k.alert))
}
