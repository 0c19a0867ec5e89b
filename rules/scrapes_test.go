package rules

import (
	"fmt"
	"testing"
	"time"
)

// scraping is how often API servers are scraped, and which of the scrapes fail.
type scraping struct {
	seconds int
	// fails says of each scrape whether it fails.
	fails func(scrape int) bool
	// within is how many minutes after the begin of a total outage it pages.
	within int
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
	const begin = 2 * hour
	for name, s := range scrapings {
		for _, share := range []int{10, 4} {
			t.Run(fmt.Sprintf("%s, %d in ten calls fail", name, share), func(t *testing.T) {
				t.Parallel()
				end := begin + (s.within+15)*60 // more than twice as long as the pattern of any scrapes
				calls := evenly(hour)
				tr := traffic{calls, from(begin, func(second int) int { return calls(second) * share / 10 })}
				p := evaluateOn(t, fileOf(t, "WebhookFailingClosed"), tick, scrapedInto(t, time.Duration(s.seconds)*time.Second, s.series(t, tr, end)))
				p.tick, p.now = minute, (begin-hour/6)*time.Second
				fires := p.first("WebhookFailingClosed", time.Duration(end)*time.Second)
				if after := fires - begin*time.Second; after < 0 || after > time.Duration(s.within)*time.Minute {
					t.Fatalf("pages after %s, want it within %d minutes", after, s.within)
				}
				for at := fires; at <= time.Duration(end)*time.Second; at += minute {
					if len(p.until(at)) != 1 {
						t.Fatalf("no longer fires %s after it did", at-fires)
					}
				}
			})
		}
	}
}

// series are what is scraped of the traffic.
func (s scraping) series(t *testing.T, tr traffic, end int) []scrapedSeries {
	t.Helper()
	out := parsed(t, tr.series(kinds[0], s.seconds, end, "w", "a"))
	for _, one := range out {
		for scrape := range one.values {
			one.values[scrape].Omitted = one.values[scrape].Omitted || s.fails(scrape)
		}
	}
	return out
}
