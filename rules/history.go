package rules

import (
	"strings"
	"time"
)

// sampling is how often what is counted over hours is sampled: every five
// minutes, what was counted in six, so that nothing falls between two samples.
// Reading the 72 samples of six hours costs a tenth of reading the counters. All
// that is compared is sampled at the same times, so that neither what overlaps
// nor a gap changes a share.
const sampling = 5 * time.Minute

// overlap takes off of the samples what two of them have counted.
const overlap = `5 / 6`

// historyWindows are what samples are added up over.
var historyWindows = []string{"15m", "30m", "6h"}

// samples are those of a record.
func samples(record string) string {
	return strings.Replace(record, ":increase", "_sampled:increase", 1)
}

// addedUp are its samples, added up over a window.
func addedUp(record, window string) string {
	return strings.Replace(record, ":increase6m", "_sampled:sum"+window, 1)
}

// lastAddedUp is read by a group that is evaluated at other times: of two
// evaluations of the samples, one may fail.
func lastAddedUp(record, window string) string {
	return `last_over_time(` + addedUp(record, window) + `[11m])`
}

// historyGroup samples what the group of the calls records, and adds it up: the
// calls for the affected webhooks alone.
func historyGroup() Group {
	g := Group{Name: "webhook-auditor-history", Interval: sampling}
	few := []string{refusedIn("6m")}
	for _, f := range failures {
		few = append(few, f.on("increase6m"))
	}
	for _, record := range append([]string{calls}, few...) {
		g.RecordingRules = append(g.RecordingRules, RecordingRule{Name: samples(record), Expr: record})
	}
	for _, window := range historyWindows {
		g.RecordingRules = append(g.RecordingRules, RecordingRule{
			Name: addedUp(calls, window),
			Expr: overlap + ` * (sum_over_time(` + samples(calls) + `[` + window + `]) and on (type, name) ` + affected + `)`,
		})
		for _, record := range few {
			g.RecordingRules = append(g.RecordingRules, RecordingRule{Name: addedUp(record, window), Expr: overlap + ` * sum_over_time(` + samples(record) + `[` + window + `])`})
		}
	}
	g.RecordingRules = append(g.RecordingRules, inputSamples...)
	return g
}
