package observed

import (
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// query is a PromQL query, and what its answer counts.
type query struct {
	measure
	// of is the type of webhook where the answer has no label of it.
	of inventory.Type
	// expression computes it from the API servers' series.
	expression string
}

// scraped is a series that each API server has, whatever it serves.
const scraped = promql.StepSeconds + "_count"

// queries count what happened in the range.
var queries = []query{
	{measure{what: called}, "", grown("type, name", promql.Requests)},
	{measure{what: conditionErrors}, "", grown("type, name", promql.MatchConditionErrors+`{kind="webhook",SELECTOR}`)},
	{measure{what: rejected}, "", grown("type, name, error_type", promql.Rejections)},
	{measure{what: openFailures}, "", grown("type, name", promql.FailedOpen)},
	{measure{what: seconds}, "", grown("type, name", promql.WebhookSeconds+"_sum")},
	{measure{what: bucket}, "", buckets("type, name", promql.WebhookSeconds)},
	{measure{what: timed}, inventory.Conversion, grown("crd_name", promql.ConversionSeconds+"_count")},
	{measure{what: unconverted}, inventory.Conversion, grown("crd_name", promql.ConversionSeconds+`_count{succeeded="false",SELECTOR}`)},
	{measure{what: seconds}, inventory.Conversion, grown("crd_name", promql.ConversionSeconds+"_sum")},
	{measure{what: bucket}, inventory.Conversion, buckets("crd_name", promql.ConversionSeconds)},
	{measure{what: checked}, inventory.ValidatingPolicy, grown("policy, enforcement_action", promql.Validations)},
	{measure{what: seconds}, inventory.ValidatingPolicy, grown("policy", promql.ValidationSeconds+"_sum")},
	{measure{what: bucket}, inventory.ValidatingPolicy, buckets("policy", promql.ValidationSeconds)},
	{measure{what: checked}, inventory.MutatingPolicy, grown("policy, error_type", promql.Mutations)},
	{measure{what: seconds}, inventory.MutatingPolicy, grown("policy", promql.MutationSeconds+"_sum")},
	{measure{what: bucket}, inventory.MutatingPolicy, buckets("policy", promql.MutationSeconds)},
}

// grown sums by how much a counter grew. A counter starts with the first call
// that it counts, which increase does not see: one that is new has counted all
// of the range, where its API server was scraped before.
func grown(by, counter string) string {
	if !strings.Contains(counter, "{") {
		counter += "{SELECTOR}"
	}
	return growth(by, counter) + " > 0"
}

func growth(by, counter string) string {
	return strings.NewReplacer("BY", by, "COUNTER", counter, "SCRAPED", scraped+"{SELECTOR}").Replace(
		`sum by (BY) ((COUNTER unless COUNTER offset RANGE and on (instance) SCRAPED offset RANGE) or increase(COUNTER[RANGE]))`,
	)
}

// buckets are those of a histogram, the empty ones as well: they are its edges.
func buckets(by, histogram string) string { return growth(by+", le", histogram+"_bucket{SELECTOR}") }

// scrapedServers counts the API servers that are scraped.
const scrapedServers = `count(group by (instance) (` + scraped + `{SELECTOR}))`

// failedOverTime counts the calls that failed in each span of the history: a denial
// has the error_type no_error.
const failedOverTime = `sum by (type, name) (increase(` + promql.Rejections + `{error_type!="no_error",SELECTOR}[5m]) or increase(` + promql.FailedOpen + `{SELECTOR}[5m])) > 0`

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

// over returns the expression for the range.
func (q query) over(span time.Duration) string {
	return strings.ReplaceAll(q.expression, "RANGE", model.Duration(span).String())
}
