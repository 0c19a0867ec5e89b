package rules

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/golden"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// scraping is how often API servers are scraped, and which of the scrapes fail.
type scraping struct {
	seconds int
	// fails says of each scrape whether it fails.
	fails func(scrape int) bool
	// latest is how many minutes after the begin of a total outage it pages.
	latest int
}

func never(int) bool        { return false }
func third(scrape int) bool { return scrape%3 == 0 }
func half(scrape int) bool  { return scrape%2 == 0 }

var scrapings = map[string]scraping{
	"every 30 s":                 {30, never, 8},
	"every 30 s, a third fails":  {30, third, 8},
	"every 30 s, half fail":      {30, half, 8},
	"every 60 s":                 {60, never, 8},
	"every 60 s, a third fails":  {60, third, 10},
	"every 60 s, half fail":      {60, half, 10},
	"every 90 s":                 {90, never, 9},
	"every 90 s, a third fails":  {90, third, 15},
	"every 90 s, half fail":      {90, half, 15},
	"every 120 s":                {120, never, 10},
	"every 120 s, a third fails": {120, third, 45},
	"every 120 s, half fail":     {120, half, 45},
}

// TestScrapes has all calls fail, or four in ten, while the API server is scraped
// seldom, or scrapes of it fail as those of an overloaded one do.
func TestScrapes(t *testing.T) {
	const begin, end = 2 * hour, 3 * hour
	scraped, within := []scrapedSeries{}, map[string]int{}
	for name, s := range scrapings {
		for _, share := range []int{10, 4} {
			cluster, calls := fmt.Sprintf("%s, %d in ten calls fail", name, share), evenly(hour)
			within[cluster] = s.latest
			tr := traffic{calls, countFrom(begin, func(second int) int { return calls(second) * share / 10 })}
			scraped = append(scraped, s.series(t, inClusters(map[string][]string{cluster: tr.series(30, end, "w", "a")}))...)
		}
	}
	p := evaluateOn(t, fileOf(t, "WebhookFailingClosed"), tick, scrapedInto(t, tick, scraped))
	fires := p.evaluateSpan((begin-hour/6)*time.Second, end*time.Second, minute)
	for cluster, within := range within {
		last := min(end, begin+(within+15)*60) // more than twice as long as the pattern of any scrapes
		began := false
		for m := -10; m <= (last-begin)/60; m++ {
			fired := len(fires(cluster, begin*time.Second+minutes(m)))
			if began = began || fired > 0; m < 0 && began || (began || m >= within) && fired != 1 {
				t.Fatalf("%s: %d alerts fire after %d minutes", cluster, fired, m)
			}
		}
	}
}

// series are those of which a scrape each 30 s is what is written.
func (s scraping) series(t *testing.T, lines []string) []scrapedSeries {
	t.Helper()
	out, every := parsed(t, lines), s.seconds/30
	for _, one := range out {
		for i := range one.values {
			one.values[i].Omitted = one.values[i].Omitted || i%every > 0 || s.fails(i/every)
		}
	}
	return out
}

// promised is the table of the README of what TestTwoMinutes measures.
var promised = regexp.MustCompile(`(?s)(<!-- Measured by TestTwoMinutes -->\n\n(?:\|[^\n]*\n){2}).*?\n\n`)

// TestTwoMinutes has all calls fail for two minutes, among stray failures, or for good. API servers
// are scraped and rules are evaluated equally often. The README has what it measures.
func TestTwoMinutes(t *testing.T) {
	rows := []string{"$1"}
	for _, every := range []int{15, 30, 60, 120} {
		pages, after, traffics := 0, time.Duration(0), shortOutages()
		series := map[string][]string{}
		for name, tr := range traffics {
			series[name] = tr.series(every, shortEnd, "w", "a")
		}
		interval := time.Duration(every) * time.Second
		fires := evaluateFile(t, fileOf(t, "WebhookFailingClosed"), interval, inClusters(series)).evaluateSpan((shortBegin-hour/6)*time.Second, shortEnd*time.Second, interval)
		for name := range traffics {
			for at := (shortBegin - hour/6) * time.Second; at <= shortEnd*time.Second; at += interval {
				if len(fires(name, at)) == 0 {
					continue
				}
				if name == forGood {
					after = at - shortBegin*time.Second
				} else {
					t.Errorf("every %s, %s: pages", interval, name)
					pages++
				}
				break
			}
		}
		rows = append(rows, fmt.Sprintf("| %d s | %.1f minutes | %d of %d |\n", every, after.Minutes(), pages, len(traffics)-1))
	}
	text := must.Get(os.ReadFile("README.md"))(t)
	golden.Compare(t, "../README.md", promised.ReplaceAll(text, []byte(strings.Join(rows, "")+"\n")))
}

// When the outages of TestTwoMinutes begin, between scrapes, and when it ends.
const (
	shortBegin = hour + 7
	shortEnd   = hour + 15*60
	forGood    = "for good"
)

// shortOutages are outages of two minutes, by how often the webhook is called and how many of the
// calls fail at other times, and one for good.
func shortOutages() map[string]traffic {
	out := map[string]traffic{forGood: {evenly(3 * hour), countFrom(shortBegin, evenly(3*hour))}}
	for _, perSecond := range []float64{0.3, 3, 30} {
		for _, oneIn := range []int{1000, 200, 50} {
			calls := evenly(int(perSecond * hour))
			out[fmt.Sprintf("%g calls a second, one in %d fails", perSecond, oneIn)] = traffic{calls, func(s int) int {
				return everyNth(calls, oneIn)(min(s, shortBegin)) + until(shortBegin+120, countFrom(shortBegin, calls))(s) + countFrom(shortBegin+120, everyNth(calls, oneIn))(s)
			}}
		}
	}
	return out
}
