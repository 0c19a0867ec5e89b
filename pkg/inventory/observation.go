package inventory

import (
	"context"
	"io"
	"maps"
	"slices"
	"time"
)

// Series names a webhook as the API server's metrics do: configurations that
// register the same name share their series.
type Series struct {
	Type Type   `json:"type"`
	Name string `json:"name"`
}

func (r Ref) Series() Series { return Series{r.Type, r.Name} }

// Observation is what API servers measured of their webhooks in a span of time.
type Observation struct {
	Source    string           `json:"source" jsonschema:"Source is \"apiserver\" or \"prometheus\"."`
	Servers   []ObservedServer `json:"servers" jsonschema:"Servers are the API servers that were asked, or the Prometheus."`
	OfServers int              `json:"ofServers,omitempty" jsonschema:"OfServers counts the cluster's API servers; absent where it is not known."`
	Scraped   int              `json:"scraped,omitempty" jsonschema:"Scraped counts the API servers that Prometheus scrapes."`
	// Webhooks are those that were called, by their series.
	Webhooks map[Series]Behavior `json:"-"`
	// Policies are the admission policies that counted checks: one that validates
	// counts what it refused (as Refused, also where failurePolicy Fail made a failure
	// of it), what failed and passed, and what it reported; one that mutates counts
	// each mutation.
	Policies map[Series]Behavior `json:"-"`
	// CalledLastWeek are the webhooks that were called within a week; nil where
	// the source does not cover all of that.
	CalledLastWeek map[Series]bool `json:"-"`
	Seconds        float64         `json:"-"`
	// Alerts are those of this project that fire, where the source evaluates any.
	Alerts []Alert `json:"-"`
}

type Alert struct {
	Name, Severity string
	// Series is the webhook that it is about; empty where it is about something else.
	Series Series
	Since  time.Time
}

// MetricsServer is an API server that can be asked for its metrics.
type MetricsServer struct {
	// Address is "host:port".
	Address string
	Fetch   func(context.Context) (io.ReadCloser, error)
}

type ObservedServer struct {
	Address   string    `json:"address"`
	From      time.Time `json:"from" jsonschema:"From and To are the ends of the span."`
	To        time.Time `json:"to"`
	Restarted bool      `json:"restarted,omitempty" jsonschema:"Restarted says that the API server started within the span, so that From is its start."`
}

// Behavior is what was measured of one webhook. Counts are fractions where
// Prometheus extrapolates them.
type Behavior struct {
	Calls, CallsPerSecond float64
	// Refused counts the requests that the webhook refused on purpose.
	Refused float64
	// FailedOpen counts the calls that failed and whose requests passed.
	FailedOpen float64
	// Failures counts the other failures by their kind: the API server's
	// error_type, FailureMatchCondition or "conversion_failed".
	Failures map[string]float64
	Seconds  float64
	P50, P99 Quantile
	// Enough is a timeout that NearlyAll of the calls kept, Slow the share of those that
	// took longer than SlowSeconds.
	Enough Quantile
	Slow   float64
}

// SlowSeconds is the default timeout of a webhook, and NearlyAll the share of its calls
// that a timeout should leave alone.
const (
	SlowSeconds = 10
	NearlyAll   = 0.999
)

// FailureMatchCondition is the kind of failure of a request whose matchConditions
// could not be evaluated; the API server's label error_type does not have it.
const FailureMatchCondition = "match_condition_error"

type Quantile struct {
	Seconds float64
	// Known is false where no call was measured.
	Known bool
	// Beyond says that it is more than Seconds, the highest edge of the
	// histogram.
	Beyond bool
}

// Measured is nil where no call was measured.
func (q Quantile) Measured() *float64 {
	if !q.Known {
		return nil
	}
	return &q.Seconds
}

// Of is what was measured of the webhook or policy; nothing where o is nil.
func (o *Observation) Of(series Series) Behavior {
	if o == nil {
		return Behavior{}
	}
	if series.Type.IsPolicy() {
		return o.Policies[series]
	}
	return o.Webhooks[series]
}

func (b Behavior) Failed() float64 {
	failed := b.FailedOpen
	for _, kind := range slices.Sorted(maps.Keys(b.Failures)) {
		failed += b.Failures[kind]
	}
	return failed
}

// requests counts the requests that met the webhook: those whose matchConditions
// failed are no calls.
func (b Behavior) requests() float64 { return b.Calls + b.Failures[FailureMatchCondition] }

// FailedShare is the share of the requests for which the webhook failed.
func (b Behavior) FailedShare() float64 { return share(b.Failed(), b.requests()) }

// RefusedShare is the share of the calls that the webhook refused on purpose.
func (b Behavior) RefusedShare() float64 { return share(b.Refused, b.Calls) }

// Share is the webhook's part of the time that all admission webhooks took.
func (o *Observation) Share(b Behavior) float64 { return share(b.Seconds, o.Seconds) }

// share is a part of a whole, 0 of nothing. Both are counted in different
// series, which may be a call apart.
func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return min(part/whole, 1)
}
