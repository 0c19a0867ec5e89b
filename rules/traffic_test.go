package rules

import (
	"fmt"
	"slices"
	"strings"
)

// traffic is how often a webhook was called until a second, and how many of the
// calls failed, on one API server.
type traffic struct{ calls, failures func(second int) int }

// evenly makes so many calls an hour.
func evenly(perHour int) func(int) int { return func(s int) int { return s * perHour / 3600 } }

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

const hour = 3600

func none(int) int { return 0 }

// series are what the API server counts of the webhook until the end, with so many
// seconds between scrapes.
func (tr traffic) series(scrape, end int, webhook, instance string) []string {
	answered := func(s int) int { return tr.calls(s) - tr.failures(s) }
	var out []string
	for _, s := range slices.Concat(called(counter(scrape, end, answered)), failed(counter(scrape, end, tr.failures))) {
		out = append(out, strings.NewReplacer(`instance="a"`, fmt.Sprintf("instance=%q", instance), `name="w"`, fmt.Sprintf("name=%q", webhook)).Replace(s))
	}
	return out
}
