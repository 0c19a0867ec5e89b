package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
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
		P50Seconds: b.P50.Measured(), P50Beyond: b.P50.Beyond, P99Seconds: b.P99.Measured(), P99Beyond: b.P99.Beyond,
		SlowShare: b.Slow, EnoughSeconds: b.Enough.Measured(), EnoughBeyond: b.Enough.Beyond,
		Failing: b.FailedShare(), Refused: b.RefusedShare(),
		FailedOpen: b.FailedOpen, Failures: b.Failures, RefusedCalls: b.Refused,
	}
	if series.Type == inventory.Mutating || series.Type == inventory.Validating {
		out.Share = o.Share(b)
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

type TopWebhook struct {
	inventory.Series
	Configurations   []string `json:"configurations" jsonschema:"Configurations are those that register the name, which share what is observed; none where nothing registers it."`
	ThresholdSeconds float64  `json:"thresholdSeconds,omitempty"`
	Observed         Observed `json:"observed"`
}

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
		out = append(out, TopWebhook{
			Series: series, Configurations: append([]string{}, bindings[series]...),
			Observed: *newObserved(s.Observed, series),
		})
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
	c := found.cells(ref.Type)
	if found.Calls == 0 && found.Failing == 0 { // shares of nothing are unknown, not 0
		c.Failing, c.Refused, c.Share = "-", "-", "-"
	}
	return c
}

func (o Observed) cells(t inventory.Type) Cells {
	out := Cells{
		Calls: fmt.Sprintf("%.2f", o.CallsPerSecond),
		P50:   quantile(o.P50Seconds, o.P50Beyond), P99: quantile(o.P99Seconds, o.P99Beyond),
		Failing: impact.Percent(o.Failing), Refused: impact.Percent(o.Refused), Share: impact.Percent(o.Share),
	}
	if t != inventory.Mutating && t != inventory.Validating {
		out.Share = "-"
	}
	if t == inventory.ValidatingPolicy && o.FailedOpen == 0 {
		out.Failing = "-" // what failed and refused a request counts as refused
	}
	return out
}

func (t Top) Text(TextOptions) Blocks {
	out := Blocks{{Table: topTable(topHeadings, t.Webhooks, topCells)}}
	if len(t.Policies) > 0 {
		out = append(out, Block{Table: topTable(policyHeadings, t.Policies, policyCells)})
	}
	return append(out, Block{Lines: Sentences(topNotes(t)...)}).NonEmpty()
}

func topTable(headings []string, lines []TopWebhook, cells func(TopWebhook) []string) *Table {
	spare := []string{"Configuration", "Binding", "Type", "p50", "Share"}
	return &Table{Headings: headings, Rows: lists.Map(lines, cells), Spare: spare}
}

var policyHeadings = []string{"Policy", "Type", "Counted/s", "Denied/s", "Failed/s", "p50", "p99", "Binding"}

// policyCells are those of a policy. One that mutates denies nothing; of one that
// validates, no failure that refused a request is known to be one.
func policyCells(line TopWebhook) []string {
	o := line.Observed
	denied, failed := fmt.Sprintf("%.2f", o.CallsPerSecond*o.Refused), fmt.Sprintf("%.2f", o.CallsPerSecond*o.Failing)
	switch {
	case line.Type == inventory.MutatingPolicy:
		denied = "-"
	case o.FailedOpen == 0:
		failed = "-"
	}
	c := o.cells(line.Type)
	return []string{line.Name, line.Type.Title(), c.Calls, denied, failed, c.P50, c.P99, registeredBy(line)}
}

var topHeadings = []string{"Name", "Type", "Calls/s", "p50", "p99", "Failing", "Refused", "Share", "Configuration"}

func topCells(line TopWebhook) []string {
	c := line.Observed.cells(line.Type)
	return []string{
		line.Name, line.Type.Title(), c.Calls, c.P50, c.P99, c.Failing, c.Refused, c.Share, registeredBy(line),
	}
}

func registeredBy(line TopWebhook) string {
	return cmp.Or(shortenLists(strings.Join(line.Configurations, ", ")), "(not registered)")
}

// policyCounts says what the counters of policies lack.
const policyCounts = "Of policies that validate, the API server counts failed checks alone, and with failurePolicy Fail an expression that fails as a denial."

func topNotes(t Top) []string {
	if t.Observation == nil {
		return nil
	}
	var out []string
	if len(t.Webhooks) == 0 {
		out = append(out, "No webhook was called.")
	}
	out = append(out, timeoutNotes(t.Webhooks)...)
	if slices.ContainsFunc(t.Policies, func(line TopWebhook) bool { return line.Type == inventory.ValidatingPolicy }) {
		out = append(out, policyCounts)
	}
	if len(t.NotCalled) > 0 {
		names := lists.Map(t.NotCalled, func(line TopWebhook) string { return line.Name })
		out = append(out, fmt.Sprintf("Registered, but not called in that time: %s.", shortenLists(strings.Join(names, ", "))))
	}
	return append(out, SourceLine(t.Observation))
}

func quantile(seconds *float64, beyond bool) string {
	return impact.Quantile(inventory.Quantile{Seconds: ptr.Deref(seconds, 0), Known: seconds != nil, Beyond: beyond})
}

// maxSlow bounds the webhooks of which a text says how many calls are slow.
const maxSlow = 5

// timeoutNotes say of which webhooks calls took longer than the default timeout, and which
// timeout would have been enough for the others. Of calls that fail, the time says nothing.
func timeoutNotes(lines []TopWebhook) []string {
	var out []string
	bySlow := slices.SortedStableFunc(slices.Values(lines),
		func(a, b TopWebhook) int { return cmp.Compare(b.Observed.SlowShare, a.Observed.SlowShare) })
	most, measured, failing := 0.0, 0, false
	for _, line := range bySlow {
		o := line.Observed
		switch {
		case o.Failing > 0:
			failing = true
		case o.EnoughSeconds == nil:
		case o.SlowShare > 0 && len(out) < maxSlow:
			out = append(out, fmt.Sprintf("%s: %s of its calls took longer than %d s; a timeout of %s would have been enough for 99.9%% of them.",
				line.Name, impact.Percent(o.SlowShare), inventory.SlowSeconds, timeoutText(o)))
		case !o.EnoughBeyond:
			most, measured = max(most, *o.EnoughSeconds), measured+1
		}
	}
	if measured > 0 {
		which := "each webhook"
		if len(out) > 0 || failing {
			which = "each other webhook"
		}
		out = append(out, fmt.Sprintf("A timeout of %g s would have been enough for 99.9%% of the calls of %s.", math.Ceil(most), which))
	}
	return out
}

// timeoutText is a timeout in whole seconds, as registrations have it.
func timeoutText(o Observed) string {
	if o.EnoughBeyond {
		return fmt.Sprintf("more than %g s", *o.EnoughSeconds)
	}
	return fmt.Sprintf("%g s", math.Ceil(*o.EnoughSeconds))
}
