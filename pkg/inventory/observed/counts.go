package observed

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// family is one of the API server that says what webhooks or policies did.
type family struct {
	name        string
	webhookType inventory.Type
	labels      string
}

func (f family) isHistogram() bool { return strings.HasSuffix(f.name, "_seconds") }

var measured = []family{
	{promql.Requests, "", "type, name"},
	{promql.Rejections, "", "type, name, error_type"},
	{promql.FailedOpen, "", "type, name"},
	{promql.WebhookSeconds, "", "type, name"},
	{promql.MatchConditionErrors, "", "type, name, kind"},
	{promql.ConversionSeconds, inventory.Conversion, "crd_name, succeeded"},
	{promql.OldConversionSeconds, inventory.Conversion, "crd_name, succeeded"},
	{promql.Validations, inventory.ValidatingPolicy, "policy, enforcement_action"},
	{promql.ValidationSeconds, inventory.ValidatingPolicy, "policy"},
	{promql.Mutations, inventory.MutatingPolicy, "policy, error_type"},
	{promql.MutationSeconds, inventory.MutatingPolicy, "policy"},
}

type webhookStats struct {
	inventory.Behavior
	// buckets are the calls that took no longer than each edge.
	buckets map[float64]float64
}

type statsByWebhook map[inventory.Series]*webhookStats

// refusal is the error_type of a request that the webhook refused on purpose.
// All other kinds are failures, also those that API servers do not have yet.
const refusal = "no_error"

// failureConversion is the kind of a failed conversion, of which the API server has
// no error_type.
const failureConversion = "conversion_failed"

// count adds a number of a series, counted in a span of so many seconds.
func (t statsByWebhook) count(m model.Metric, value, span float64) {
	family, part := familyOf(m)
	series := inventory.Series{Type: family.webhookType, Name: string(cmp.Or(m["crd_name"], m["policy"]))}
	isOne := family.name != ""
	if family.webhookType == "" {
		series = inventory.Series{Type: inventory.Type(m["type"]), Name: string(m["name"])}
		isOne = series.Type == inventory.Mutating || series.Type == inventory.Validating
	}
	kind := string(cmp.Or(m["enforcement_action"], m["error_type"]))
	empty := value == 0 && part == "_bucket" // still an edge of the histogram
	if !isOne || series.Name == "" || len(series.Name) > maxName || len(kind) > maxName || !counts(value) && !empty {
		return
	}
	w := t[series]
	if w == nil {
		w = &webhookStats{Behavior: inventory.Behavior{Failures: map[string]float64{}}, buckets: map[float64]float64{}}
		t[series] = w
	}
	switch {
	case part == "_sum":
		w.Seconds += value
	case part == "_bucket":
		if edge, err := strconv.ParseFloat(string(m[model.BucketLabel]), 64); err == nil && !math.IsNaN(edge) {
			w.buckets[edge] += value
		}
	case family.name == promql.Rejections && kind == refusal:
		w.Refused += value
	case family.name == promql.Rejections:
		w.Failures[kind] += value
	case family.name == promql.FailedOpen:
		w.FailedOpen += value
	case family.name == promql.MatchConditionErrors:
		if m["kind"] == "webhook" {
			w.Failures[inventory.FailureMatchCondition] += value
		}
	case family.webhookType == inventory.Conversion:
		w.call(value, span)
		if m["succeeded"] == "false" {
			w.Failures[failureConversion] += value
		}
	case family.name == promql.Requests:
		w.call(value, span)
	case part == "":
		w.call(value, span)
		w.check(kind, value)
	}
}

// familyOf is the family that a series is of, and which part of a histogram.
func familyOf(m model.Metric) (family, string) {
	name := string(m[model.MetricNameLabel])
	for _, f := range measured {
		if part, ok := strings.CutPrefix(name, f.name); ok && (part == "" || f.isHistogram()) {
			return f, part
		}
	}
	return family{}, ""
}

func (t *webhookStats) call(value, span float64) {
	t.Calls += value
	t.CallsPerSecond += value / span
}

// check adds checks of a policy by what was done about them, or by how they failed. A
// denial is one, and what is warned of or audited was let pass.
func (t *webhookStats) check(kind string, value float64) {
	switch kind {
	case "deny":
		t.Refused += value
	case "allow":
		t.FailedOpen += value
	case "audit", "warn", refusal:
	default:
		t.Failures[kind] += value
	}
}

// fill adds the results to the Observation. What admission took is the sum that shares
// are of.
func (t statsByWebhook) fill(o *inventory.Observation) {
	o.Webhooks, o.Policies = make(map[inventory.Series]inventory.Behavior,
		len(t)), map[inventory.Series]inventory.Behavior{}
	for series, w := range t {
		b := w.Behavior
		b.P50, b.P99 = quantile(0.5, w.buckets), quantile(0.99, w.buckets)
		b.Enough, b.Slow = enough(w.buckets), slowShare(w.buckets)
		switch {
		case b.Calls == 0 && b.Failed() == 0:
		case series.Type.IsPolicy():
			o.Policies[series] = b
		default:
			o.Webhooks[series] = b
			if series.Type != inventory.Conversion {
				o.Seconds += b.Seconds
			}
		}
	}
}

// enough is the first edge by which nearly all calls had ended: within a bucket they may
// all be at its end.
func enough(buckets map[float64]float64) inventory.Quantile {
	q := quantile(inventory.NearlyAll, buckets)
	if !q.Known || q.Beyond {
		return q
	}
	for _, edge := range slices.Sorted(maps.Keys(buckets)) {
		if edge >= q.Seconds {
			q.Seconds = edge
			break
		}
	}
	return q
}

// slowShare is the share of the calls beyond inventory.SlowSeconds, as far as the
// histogram has that edge; 0 where not.
func slowShare(buckets map[float64]float64) float64 {
	quick, hasEdge := buckets[inventory.SlowSeconds]
	if all := buckets[math.Inf(1)]; hasEdge && all > 0 {
		return max(0, 1-quick/all)
	}
	return 0
}

// quantile computes what PromQL's histogram_quantile does: linear within a
// bucket. Beyond the last finite edge it is that edge.
func quantile(q float64, buckets map[float64]float64) inventory.Quantile {
	edges := slices.Sorted(maps.Keys(buckets))
	if len(edges) < 2 || !math.IsInf(edges[len(edges)-1], 1) {
		return inventory.Quantile{}
	}
	counts := make([]float64, len(edges))
	for i, edge := range edges {
		counts[i] = buckets[edge]
		if i > 0 { // scrapes of several API servers may disagree
			counts[i] = max(counts[i], counts[i-1])
		}
	}
	last := len(edges) - 1
	rank := q * counts[last]
	if rank <= 0 {
		return inventory.Quantile{}
	}
	i := slices.IndexFunc(counts, func(n float64) bool { return n >= rank })
	switch {
	case i == last:
		return inventory.Quantile{Seconds: edges[last-1], Known: true, Beyond: true}
	case i == 0:
		return inventory.Quantile{Seconds: edges[0] * rank / counts[0], Known: true}
	}
	share := (rank - counts[i-1]) / (counts[i] - counts[i-1])
	return inventory.Quantile{Seconds: edges[i-1] + (edges[i]-edges[i-1])*share, Known: true}
}
