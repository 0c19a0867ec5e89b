package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Observed is what was measured of one webhook. Shares are from 0 to 1.
type Observed struct {
	Calls          float64            `json:"calls"`
	CallsPerSecond float64            `json:"callsPerSecond"`
	P50Seconds     *float64           `json:"p50Seconds,omitempty" jsonschema:"P50Seconds and P99Seconds are absent where no call was measured."`
	P99Seconds     *float64           `json:"p99Seconds,omitempty"`
	P50Beyond      bool               `json:"p50Beyond,omitempty" jsonschema:"P99Beyond says that the quantile is more than P99Seconds, the highest edge of the API server's histogram; P50Beyond is the same."`
	P99Beyond      bool               `json:"p99Beyond,omitempty"`
	SlowShare      float64            `json:"slowShare" jsonschema:"SlowShare is the share of the calls that took longer than 10 s. EnoughSeconds is a timeout within which 99.9 % of the calls ended, absent where no call was measured; EnoughBeyond says that it is more."`
	EnoughSeconds  *float64           `json:"enoughSeconds,omitempty"`
	EnoughBeyond   bool               `json:"enoughBeyond,omitempty"`
	Failing        float64            `json:"failing" jsonschema:"Failing is the share of the requests for which the webhook failed, Refused that of the calls that it refused on purpose."`
	Refused        float64            `json:"refused"`
	FailedOpen     float64            `json:"failedOpen" jsonschema:"FailedOpen counts the failed calls whose requests passed, Failures the others by kind, RefusedCalls those refused on purpose."`
	Failures       map[string]float64 `json:"failures,omitempty"`
	RefusedCalls   float64            `json:"refusedCalls"`
	Share          float64            `json:"share" jsonschema:"Share is the webhook's part of the time that all admission webhooks took."`
}

func newObserved(o *inventory.Observation, series inventory.Series) *Observed {
	if o == nil {
		return nil
	}
	b := o.Of(series)
	out := &Observed{
		Calls: b.Calls, CallsPerSecond: b.CallsPerSecond,
		P50Beyond: b.P50.Beyond, P99Beyond: b.P99.Beyond,
		Failing: b.FailedShare(), Refused: b.RefusedShare(),
		FailedOpen: b.FailedOpen, Failures: b.Failures, RefusedCalls: b.Refused,
	}
	if series.Type == inventory.Mutating || series.Type == inventory.Validating {
		out.Share = o.Share(b)
	}
	if b.P50.Known {
		out.P50Seconds = &b.P50.Seconds
	}
	out.SlowShare, out.EnoughBeyond = b.Slow, b.Enough.Beyond
	if b.Enough.Known {
		out.EnoughSeconds = &b.Enough.Seconds
	}
	if b.P99.Known {
		out.P99Seconds = &b.P99.Seconds
	}
	return out
}

// observed is what was measured of each webhook.
func (d Document) observed() map[inventory.Ref]*Observed {
	out := make(map[inventory.Ref]*Observed, len(d.Webhooks))
	for _, w := range d.Webhooks {
		out[w.Ref] = w.Observed
	}
	return out
}

// SourceLine says where observed values come from; "" without a source.
func SourceLine(o *inventory.Observation) string {
	if o == nil || len(o.Servers) == 0 {
		return ""
	}
	var servers []string
	for _, s := range o.Servers {
		span := s.To.Sub(s.From)
		if o.Source == "prometheus" {
			return fmt.Sprintf("Observed by %s: the last %s, %s.", s.Address, span, inventory.Counted(o.Scraped, "API server"))
		}
		server := fmt.Sprintf("%s in %s", s.Address, span.Round(100*time.Millisecond))
		if s.Restarted {
			server += " since its start"
		}
		servers = append(servers, server)
	}
	out := "Observed by API server " + strings.Join(servers, ", ")
	switch {
	case o.OfServers > len(o.Servers):
		return out + fmt.Sprintf(": %d of %d API servers; the others may call webhooks too.", len(o.Servers), o.OfServers)
	case o.OfServers == 0:
		return out + "; whether there are others behind the address is not known."
	}
	return out + "."
}

// Top is what "top" prints: the webhooks by what was observed of them.
type Top struct {
	Version     string                 `json:"version"`
	Taken       time.Time              `json:"taken"`
	Observation *inventory.Observation `json:"observed,omitempty"`
	Webhooks    []TopWebhook           `json:"webhooks" jsonschema:"Webhooks are those that were called, sorted."`
	NotCalled   []TopWebhook           `json:"notCalled" jsonschema:"NotCalled are registered and were not called in the span."`
	Policies    []TopWebhook           `json:"policies" jsonschema:"Policies are the admission policies that counted checks, sorted alike, their configurations the bindings. One that validates counts none that admits, and with failurePolicy Fail a failure as refused."`
	Errors      []Error                `json:"errors"`
}

// TopWebhook is a line of a Top.
type TopWebhook struct {
	inventory.Series
	Configurations   []string `json:"configurations" jsonschema:"Configurations are those that register the name, which share what is observed; none where nothing registers it."`
	ThresholdSeconds float64  `json:"thresholdSeconds,omitempty"`
	Observed         Observed `json:"observed"`
}

// NewTop returns the webhooks of the Report by what was observed of them.
func NewTop(r *classify.Report, column string) Top {
	t := Top{
		Version: documentVersion, Taken: r.Snapshot.Taken.UTC(), Observation: r.Snapshot.Observed,
		Webhooks: []TopWebhook{}, NotCalled: []TopWebhook{}, Policies: []TopWebhook{},
		Errors: NewErrors(r.Snapshot.Errors),
	}
	o := r.Snapshot.Observed
	if o == nil {
		return t
	}
	for series, line := range topLines(r) {
		line.Observed = *newObserved(o, series)
		if _, called := o.Webhooks[series]; called {
			t.Webhooks = append(t.Webhooks, *line)
		} else {
			t.NotCalled = append(t.NotCalled, *line)
		}
	}
	t.Policies = topPolicies(r.Snapshot)
	t.sort(column)
	return t
}

// topPolicies are the lines of the policies, those that the input lacks as well.
func topPolicies(s *inventory.Snapshot) []TopWebhook {
	bindings := map[inventory.Series][]string{}
	for _, p := range s.Policies {
		for _, b := range p.Bindings {
			bindings[p.Series()] = append(bindings[p.Series()], b.Object.Name)
		}
	}
	out := []TopWebhook{}
	for series := range s.Observed.Policies {
		line := TopWebhook{Series: series, Configurations: []string{}, Observed: *newObserved(s.Observed, series)}
		line.Configurations = append(line.Configurations, bindings[series]...)
		out = append(out, line)
	}
	return out
}

func (t Top) sort(column string) {
	order := TopWebhook.compare
	if key := sortKeys[column]; key != nil {
		order = func(a, b TopWebhook) int {
			return cmp.Or(cmp.Compare(key(b.Observed), key(a.Observed)),
				cmp.Compare(b.Observed.CallsPerSecond, a.Observed.CallsPerSecond), a.compare(b))
		}
	}
	slices.SortFunc(t.Webhooks, order)
	slices.SortFunc(t.Policies, order)
	slices.SortFunc(t.NotCalled, TopWebhook.compare)
}

// topLines are the webhooks that are registered, and those that were called though nothing
// registers them.
func topLines(r *classify.Report) map[inventory.Series]*TopWebhook {
	out, registered := map[inventory.Series]*TopWebhook{}, configurations(r.Snapshot)
	for _, p := range r.Profiles {
		if out[p.Series()] == nil {
			out[p.Series()] = &TopWebhook{
				Series: p.Series(), Configurations: registered[p.Series()], ThresholdSeconds: p.Threshold,
			}
		}
		out[p.Series()].ThresholdSeconds = min(out[p.Series()].ThresholdSeconds, p.Threshold)
	}
	for series := range r.Snapshot.Observed.Webhooks {
		if len(registered[series]) == 0 {
			out[series] = &TopWebhook{Series: series, Configurations: []string{}}
		}
	}
	return out
}

// configurations are those that register each name.
func configurations(s *inventory.Snapshot) map[inventory.Series][]string {
	out := map[inventory.Series][]string{}
	for _, w := range s.Webhooks {
		if names := out[w.Series()]; !slices.Contains(names, w.Configuration) {
			out[w.Series()] = append(names, w.Configuration)
		}
	}
	return out
}

func (w TopWebhook) compare(o TopWebhook) int {
	return cmp.Or(cmp.Compare(w.Type, o.Type), cmp.Compare(w.Name, o.Name))
}

// SortKeys are the values of --sort: the first is the default.
var SortKeys = []string{"share", "calls", "p50", "p99", "failing", "refused", "name"}

// sortKeys are what they sort by, but for names; of lines with the same, the one with more
// calls is first.
var sortKeys = map[string]func(Observed) float64{
	"share":   func(o Observed) float64 { return o.Share },
	"calls":   func(o Observed) float64 { return o.CallsPerSecond },
	"p50":     func(o Observed) float64 { return ptr.Deref(o.P50Seconds, -1) },
	"p99":     func(o Observed) float64 { return ptr.Deref(o.P99Seconds, -1) },
	"failing": func(o Observed) float64 { return o.Failing },
	"refused": func(o Observed) float64 { return o.Refused },
}

// Cells are what was measured of a webhook, as tables show it.
type Cells struct{ Calls, P50, P99, Failing, Refused, Share string }

// ObservedCells are the cells of a webhook or policy; "-" where nothing was measured.
func ObservedCells(o *inventory.Observation, ref inventory.Ref) Cells {
	found := newObserved(o, ref.Series())
	if found == nil {
		return Cells{"-", "-", "-", "-", "-", "-"}
	}
	c := found.cells()
	if found.Calls == 0 && found.Failing == 0 { // shares of nothing are unknown, not 0
		c.Failing, c.Refused, c.Share = "-", "-", "-"
	}
	if ref.Type != inventory.Mutating && ref.Type != inventory.Validating {
		c.Share = "-"
	}
	if ref.Type == inventory.ValidatingPolicy && found.FailedOpen == 0 {
		c.Failing = "-" // what failed and refused a request counts as refused
	}
	return c
}

func (o Observed) cells() Cells {
	return Cells{
		Calls: fmt.Sprintf("%.2f", o.CallsPerSecond),
		P50:   quantile(o.P50Seconds, o.P50Beyond), P99: quantile(o.P99Seconds, o.P99Beyond),
		Failing: impact.Percent(o.Failing), Refused: impact.Percent(o.Refused), Share: impact.Percent(o.Share),
	}
}
