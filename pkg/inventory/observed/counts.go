package observed

import (
	"maps"
	"math"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// webhookStats adds up what is counted of one webhook.
type webhookStats struct {
	called, perSecond          float64
	refused, failedOpen, spent float64
	failures                   map[string]float64
	// buckets are the calls that took no longer than each edge.
	buckets map[float64]float64
}

// statsByWebhook are those of all webhooks.
type statsByWebhook map[inventory.Series]*webhookStats

// refusal is the error_type of a request that the webhook refused on purpose.
// All other kinds are failures, also those that API servers do not have yet.
const refusal = "no_error"

// failureConversion is the kind of a failed conversion, of which the API server has
// no error_type.
const failureConversion = "conversion_failed"

// count adds a number of a webhook, counted in a span of so many seconds.
func (t statsByWebhook) count(series inventory.Series, m measure, value, span float64) {
	empty := value == 0 && m.what == bucket // still an edge of the histogram
	if !counts(value) && !empty {
		return
	}
	w := t[series]
	if w == nil {
		w = &webhookStats{failures: map[string]float64{}, buckets: map[float64]float64{}}
		t[series] = w
	}
	switch m.what {
	case called:
		w.call(value, span)
	case checked:
		w.call(value, span)
		w.check(m.kind, value)
	case rejected:
		w.reject(m.kind, value)
	case openFailures:
		w.failedOpen += value
	case conditionErrors:
		w.failures[inventory.FailureMatchCondition] += value
	case unconverted:
		w.failures[failureConversion] += value
	case timed:
		if series.Type == inventory.Conversion {
			w.call(value, span)
		}
	case seconds:
		w.spent += value
	case bucket:
		w.buckets[m.edge] += value
	}
}

func (t *webhookStats) call(value, span float64) {
	t.called += value
	t.perSecond += value / span
}

func (t *webhookStats) reject(kind string, value float64) {
	if kind == refusal {
		t.refused += value
		return
	}
	t.failures[kind] += value
}

// check adds checks of a policy by what was done about them, or by how they failed. A
// denial is one, and what is warned of or audited was let pass.
func (t *webhookStats) check(kind string, value float64) {
	switch kind {
	case "deny":
		t.refused += value
	case "allow":
		t.failedOpen += value
	case "audit", "warn", refusal:
	default:
		t.failures[kind] += value
	}
}

// fill adds the results to the Observation. What admission took is the sum that shares
// are of.
func (t statsByWebhook) fill(o *inventory.Observation) {
	o.Webhooks, o.Policies = make(map[inventory.Series]inventory.Behavior, len(t)), map[inventory.Series]inventory.Behavior{}
	for series, w := range t {
		b := w.behavior()
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

func (t *webhookStats) behavior() inventory.Behavior {
	b := inventory.Behavior{
		Calls: t.called, CallsPerSecond: t.perSecond,
		Refused: t.refused, FailedOpen: t.failedOpen, Failures: t.failures,
		Seconds: t.spent,
	}
	if len(t.buckets) > 0 {
		b.P50, b.P99 = quantile(0.5, t.buckets), quantile(0.99, t.buckets)
		b.Enough, b.Slow = enough(t.buckets), slowShare(t.buckets)
	}
	return b
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
	within, hasEdge := buckets[inventory.SlowSeconds]
	if all := buckets[math.Inf(1)]; hasEdge && all > 0 {
		return max(0, 1-within/all)
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
	within := (rank - counts[i-1]) / (counts[i] - counts[i-1])
	return inventory.Quantile{Seconds: edges[i-1] + (edges[i]-edges[i-1])*within, Known: true}
}
