package observed

import (
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// scraped is a series that each API server has, whatever it serves.
const scraped = promql.StepSeconds + "_count"

// grown sums by how much a counter grew. A counter starts with the first call
// that it counts, which increase does not see: one that is new has counted all
// of the range, where its API server was scraped before.
func grown(labels, counter string) string {
	return strings.NewReplacer("LABELS", labels, "COUNTER", counter+"{SELECTOR}", "SCRAPED", scraped+"{SELECTOR}").Replace(
		`sum by (LABELS) ((COUNTER unless COUNTER offset RANGE and on (instance) SCRAPED offset RANGE) or increase(COUNTER[RANGE]))`,
	)
}

// queries count what happened to the family in the range, by the name of the series. The
// empty buckets are the edges of a histogram as well.
func (f family) queries() map[string]string {
	out := map[string]string{}
	switch {
	case !f.isHistogram():
		out[f.name] = grown(f.labels, f.name) + " > 0"
	case f.webhookType == inventory.Conversion:
		out[f.name+"_count"] = grown(f.labels, f.name+"_count") + " > 0"
		fallthrough
	default:
		out[f.name+"_sum"] = grown(f.labels, f.name+"_sum") + " > 0"
		out[f.name+"_bucket"] = grown(f.labels+", le", f.name+"_bucket")
	}
	return out
}

const scrapedServers = `count(group by (instance) (` + scraped + `{SELECTOR}))`

// coversLastWeek answers where the API servers were scraped all week, but for
// some hours.
const coversLastWeek = `count_over_time((group(` + scraped + `{SELECTOR}))[7d:1h]) >= 160`

// calledLastWeek are the webhooks with a counter that grew in the week, or that
// was new in it.
const calledLastWeek = `group by (type, name) (
	increase(` + promql.Requests + `{SELECTOR}[7d]) > 0 or (last_over_time(` + promql.Requests + `{SELECTOR}[7d]) unless ` + promql.Requests + `{SELECTOR} offset 7d)
	or increase(` + promql.MatchConditionErrors + `{kind="webhook",SELECTOR}[7d]) > 0
	or (last_over_time(` + promql.MatchConditionErrors + `{kind="webhook",SELECTOR}[7d]) unless ` + promql.MatchConditionErrors + `{kind="webhook",SELECTOR} offset 7d)
)`

// firing are the project's alerts, with the time since when each is active.
const firing = `ALERTS_FOR_STATE{component="webhook-auditor",SELECTOR} and ignoring (alertstate) ALERTS{alertstate="firing",component="webhook-auditor",SELECTOR}`
