// Package exporter serves a classify.Report as metric families over HTTP. It
// evaluates nothing, logs nothing and reads no clock.
package exporter

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

const program = "webhook_auditor"

const Prefix = program + "_"

// DefaultMaxSeries bounds a family where no other bound is given: as much as a default
// Prometheus of a cluster takes from one target.
const DefaultMaxSeries = 10_000

// Family is one metric family. Its series are derived from the current Report
// alone, so that there is nothing to reset and nothing to leak.
type Family struct {
	// Name is without Prefix; Series adds it.
	Name string
	Help string
	// Labels are names that the API server's own series use for the same thing.
	Labels []string
	// Counter marks a counter; all others are gauges.
	Counter bool
	// Max bounds the number of series; 0 stands for DefaultMaxSeries.
	Max int
	// Collect emits the family's series, the most important first: what is
	// beyond Max is dropped.
	Collect func(r *classify.Report, emit func(value float64, labels ...string))
}

func (f Family) Series() string { return Prefix + f.Name }

func (f Family) kind() string {
	if f.Counter {
		return "counter"
	}
	return "gauge"
}

func (f Family) bound() int {
	if f.Max == 0 {
		return DefaultMaxSeries
	}
	return f.Max
}

// Families are the metric families over a Report, in the order of the
// documents.
var Families = []Family{
	{
		Name:    "webhook_info",
		Help:    "Information about a registered webhook; value is always 1.",
		Labels:  refLabels("failure_policy", "match_policy", "backend", "service_namespace", "service_name", "approved", "owner"),
		Collect: webhookInfo,
	},
	{
		Name:    "policy_info",
		Help:    "Information about an admission policy; value is always 1.",
		Labels:  []string{"type", "name", "failure_policy", "param_kind", "bound", "owner"},
		Collect: policyInfo,
	},
	{
		Name:    "webhook_timeout_seconds",
		Help:    "Timeout of a call of the API server.",
		Labels:  refLabels(),
		Collect: perWebhook(func(p *classify.Profile) (float64, bool) { return p.Timeout.Seconds(), true }),
	},
	{
		Name:    "webhook_latency_threshold_seconds",
		Help:    "Latency above which calls of the webhooks with this name are slow; the smallest threshold of all that share the name. Always a bucket boundary of the API server's histogram.",
		Labels:  []string{"type", "name", "service_namespace"},
		Collect: latencyThreshold,
	},
	{
		Name:    "webhook_failure_impact",
		Help:    "What happens to requests while webhooks of this name fail: closed (at least one of them refuses requests) or open; value is always 1.",
		Labels:  []string{"type", "name", "service_namespace", "impact"},
		Collect: failureImpact,
	},
	{
		Name:    "webhook_reach",
		Help:    "A resource of the class that the webhook is called for; value is always 1. The class core has totals only, see " + Prefix + "webhook_reached_resources.",
		Labels:  refLabels("class", "group", "resource"),
		Collect: matched,
	},
	{
		Name:    "webhook_reached_resources",
		Help:    "Number of resources of the class that the webhook is called for.",
		Labels:  refLabels("class"),
		Max:     DefaultMaxSeries * len(classify.Classes),
		Collect: reachedResources,
	},
	{
		Name:    "webhook_backend_ready",
		Help:    "Whether the backend has a ready endpoint (1) or not (0); absent if unknown.",
		Labels:  refLabels(),
		Collect: perWebhook(backendReady),
	},
	{
		Name:    "webhook_ca_bundle_not_after_timestamp_seconds",
		Help:    "Expiry of the last valid CA of the CA bundle; absent if there is none.",
		Labels:  refLabels(),
		Collect: perWebhook(caBundleNotAfter),
	},
	{
		Name:    "webhook_probe_success",
		Help:    "Whether a TLS dial of the backend from the auditor succeeded (1) or not (0); absent if it was inconclusive (a timeout) or is off.",
		Labels:  refLabels(),
		Collect: perProbe(probeSuccess),
	},
	{
		Name:    "webhook_probe_duration_seconds",
		Help:    "Duration of the TLS dial of the backend, up to the end of the handshake or the refusal; absent if it was inconclusive or is off.",
		Labels:  refLabels(),
		Collect: perProbe(probeDuration),
	},
	{
		Name:    "webhook_serving_certificate_not_after_timestamp_seconds",
		Help:    "Expiry of the serving certificate that the backend presented when it was dialed; absent if there was none.",
		Labels:  refLabels(),
		Collect: perProbe(servingNotAfter),
	},
	{
		Name:    "webhook_configuration_changed_timestamp_seconds",
		Help:    "Time of the last change of the configuration, watched or recorded in it; absent if unknown.",
		Labels:  []string{"type", "configuration"},
		Collect: configurationChanged,
	},
	{
		Name:    "finding",
		Help:    "A finding that is not acknowledged; value is always 1.",
		Labels:  []string{"check", "severity", "type", "configuration", "name", "group", "resource"},
		Collect: openFindings,
	},
	{
		Name:    "findings",
		Help:    "Number of findings, including those beyond the bound of webhook_auditor_finding.",
		Labels:  []string{"severity", "acknowledged"},
		Collect: findingTotals,
	},
	{
		Name:   "admission_budget_seconds",
		Help:   "Longest time that a request to a critical resource can wait: the timeouts of all webhooks that it meets.",
		Labels: []string{"group", "resource", "operation"},
		Collect: func(r *classify.Report, emit func(float64, ...string)) {
			for _, c := range r.Costs {
				emit(c.Total().Seconds(), c.Resource.Group, c.Resource.Path(), string(c.Operation))
			}
		},
	},
	{
		Name:    "snapshot_timestamp_seconds",
		Help:    "Time at which all watches were last known to be current; does not advance while any watch is broken.",
		Collect: func(r *classify.Report, emit func(float64, ...string)) { emit(seconds(r.AsOf())) },
	},
	{
		Name:    "watch_errors_total",
		Help:    "Number of failed lists and watches of the resource, as of the snapshot.",
		Labels:  []string{"group", "resource"},
		Counter: true,
		Collect: watchErrors,
	},
	{
		Name:    "resource_version_regressions_total",
		Help:    "Number of times the resource version of the API server decreased, as after a restore of etcd; everything is then listed again.",
		Counter: true,
		Collect: func(r *classify.Report, emit func(float64, ...string)) { emit(float64(r.Snapshot.Regressions)) },
	},
	{
		Name:   "condition",
		Help:   "Current conditions of the operator; value is always 1.",
		Labels: []string{"condition", "status", "reason"},
		Collect: func(r *classify.Report, emit func(float64, ...string)) {
			for _, c := range r.Conditions {
				emit(1, c.Type, string(c.Status), c.Reason)
			}
		},
	},
}

// Bounded returns the Families with another bound than DefaultMaxSeries.
func Bounded(series int) []Family {
	out := slices.Clone(Families)
	for i := range out {
		out[i].Max = int(int64(out[i].bound()) * int64(series) / DefaultMaxSeries)
	}
	return out
}

func refLabels(more ...string) []string {
	return slices.Concat([]string{"type", "configuration", "name"}, more)
}

// perWebhook collects one series per webhook, where there is a value.
func perWebhook(value func(*classify.Profile) (float64, bool)) func(*classify.Report, func(float64, ...string)) {
	return func(r *classify.Report, emit func(float64, ...string)) {
		for _, p := range r.Profiles {
			if v, ok := value(p); ok {
				emit(v, string(p.Type), p.Configuration, p.Name)
			}
		}
	}
}

func webhookInfo(r *classify.Report, emit func(float64, ...string)) {
	for _, p := range r.Profiles {
		emit(1, string(p.Type), p.Configuration, p.Name,
			string(p.FailurePolicy), string(p.MatchPolicy),
			string(p.Webhook.Backend.Kind), p.Webhook.Backend.Service.Namespace, p.Webhook.Backend.Service.Name,
			strconv.FormatBool(p.Approved), p.Object.Owner.String())
	}
}

func policyInfo(r *classify.Report, emit func(float64, ...string)) {
	for _, p := range r.Snapshot.Policies {
		kind := ""
		if p.ParamKind != nil {
			kind = p.ParamKind.Kind
		}
		emit(1, string(p.Type), p.Name, string(p.FailurePolicy), kind, strconv.FormatBool(len(p.Bindings) > 0),
			p.Object.Owner.String())
	}
}

func backendReady(p *classify.Profile) (float64, bool) {
	ready := 0.0
	if p.State.Fault == inventory.Sound {
		ready = 1
	}
	return ready, p.State.Certain()
}

// perProbe collects one series per webhook whose backend was dialed, where
// there is a value.
func perProbe(value func(p inventory.Probe, snapshotTime time.Time) (float64, bool)) func(*classify.Report,
	func(float64, ...string)) {
	return func(r *classify.Report, emit func(float64, ...string)) {
		perWebhook(func(p *classify.Profile) (float64, bool) {
			return value(r.Snapshot.Probes[p.Ref], r.Snapshot.Taken)
		})(r, emit)
	}
}

// probeSuccess reports whether a call gets through the handshake.
func probeSuccess(p inventory.Probe, snapshotTime time.Time) (float64, bool) {
	c := p.Certificate
	if p.Answer == inventory.AnswerTLS && c != nil && c.Untrusted == "" && c.Misnamed == "" &&
		!snapshotTime.Before(c.NotBefore) && !snapshotTime.After(c.NotAfter) {
		return 1, true
	}
	return 0, p.Answer != inventory.AnswerNone
}

func probeDuration(p inventory.Probe, _ time.Time) (float64, bool) {
	return p.Took.Seconds(), p.Answer != inventory.AnswerNone
}

func servingNotAfter(p inventory.Probe, _ time.Time) (float64, bool) {
	if p.Certificate == nil {
		return 0, false
	}
	return seconds(p.Certificate.NotAfter), true
}

func latencyThreshold(r *classify.Report, emit func(float64, ...string)) {
	for _, all := range sameName(r) {
		p := slices.MinFunc(all, func(a, b *classify.Profile) int { return cmp.Compare(a.Threshold, b.Threshold) })
		// A threshold of 0 would declare every call slow.
		if p.Threshold > 0 {
			emit(p.Threshold, string(p.Type), p.Name, serviceNamespace(all))
		}
	}
}

func failureImpact(r *classify.Report, emit func(float64, ...string)) {
	for _, all := range sameName(r) {
		impact := "open"
		if slices.ContainsFunc(all, (*classify.Profile).FailsClosed) {
			impact = "closed"
		}
		emit(1, string(all[0].Type), all[0].Name, serviceNamespace(all), impact)
	}
}

// matched goes through the classes first: what a bound drops is the least
// dangerous of all webhooks, not everything of the last ones.
func matched(r *classify.Report, emit func(float64, ...string)) {
	for _, class := range classify.ListedClasses {
		for _, p := range r.Profiles {
			for _, res := range p.ByClass[class] {
				emit(1, string(p.Type), p.Configuration, p.Name, string(class), res.Group, res.Path())
			}
		}
	}
}

func reachedResources(r *classify.Report, emit func(float64, ...string)) {
	for _, p := range r.Profiles {
		for _, class := range classify.Classes {
			emit(float64(len(p.ByClass[class])), string(p.Type), p.Configuration, p.Name, string(class))
		}
	}
}

func caBundleNotAfter(p *classify.Profile) (float64, bool) {
	authority := p.Webhook.Backend.Authority
	if authority == nil || len(authority.Certificates) == 0 {
		return 0, false
	}
	return seconds(authority.NotAfter), true
}

func configurationChanged(r *classify.Report, emit func(float64, ...string)) {
	for _, p := range r.Profiles {
		if !p.Object.LastChanged.IsZero() {
			emit(seconds(p.Object.LastChanged), string(p.Type), p.Configuration)
		}
	}
}

func openFindings(r *classify.Report, emit func(float64, ...string)) {
	for _, f := range r.Findings {
		if !f.Acknowledged {
			emit(1, f.Check.Name, f.Severity.String(),
				string(f.Webhook.Type), f.Webhook.Configuration, f.Webhook.Name,
				f.Resource.Group, f.Resource.Path())
		}
	}
}

func findingTotals(r *classify.Report, emit func(float64, ...string)) {
	type key struct {
		severity     classify.Severity
		acknowledged bool
	}
	counts := map[key]int{}
	for _, f := range r.Findings {
		counts[key{f.Severity, f.Acknowledged}]++
	}
	for _, severity := range classify.Severities {
		for _, acknowledged := range []bool{false, true} {
			n := counts[key{severity, acknowledged}]
			emit(float64(n), severity.String(), strconv.FormatBool(acknowledged))
		}
	}
}

func watchErrors(r *classify.Report, emit func(float64, ...string)) {
	for _, resource := range slices.SortedFunc(maps.Keys(r.Snapshot.WatchErrors), inventory.Resource.Compare) {
		emit(float64(r.Snapshot.WatchErrors[resource]), resource.Group, resource.Path())
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// sameName groups the webhooks that share a type and a name: the API server's series have no
// more labels than that, so joins need them merged.
func sameName(r *classify.Report) [][]*classify.Profile {
	return lists.Group(r.Profiles, func(p *classify.Profile) inventory.Series { return p.Series() })
}

// serviceNamespace is "" where they disagree or call a URL.
func serviceNamespace(profiles []*classify.Profile) string {
	first := profiles[0].Webhook.Backend.Service.Namespace
	differs := func(p *classify.Profile) bool { return p.Webhook.Backend.Service.Namespace != first }
	if slices.ContainsFunc(profiles, differs) {
		return ""
	}
	return first
}
