package exporter

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// The conditions that sum up the others.
const (
	Available   = "Available"
	Progressing = "Progressing"
	Degraded    = "Degraded"
	Upgradeable = "Upgradeable"
	// EvaluationConditionsDetected tells what would degrade, without degrading.
	EvaluationConditionsDetected = "EvaluationConditionsDetected"
)

// asExpected is the reason of a condition that has nothing to say.
const asExpected = "AsExpected"

// notReady is the reason of a condition with several reasons at once.
const notReady = "WebhookServiceNotReady"

// RollUp says which condition the others are rolled up to.
type RollUp string

// The values of --degraded.
const (
	RollUpOn       RollUp = "on"
	RollUpEvaluate RollUp = "evaluate"
	RollUpOff      RollUp = "off"
)

// ConditionOptions are what conditions depend on besides the Report.
type ConditionOptions struct {
	RollUp RollUp
	// Inertia is how long an error lasts before it rolls up.
	Inertia time.Duration
	// Now is the time by which an error lasts; that of the Snapshot if zero.
	Now time.Time
	// RollingOut says that this very program is being replaced.
	RollingOut bool
}

// errorCondition is an operator condition that findings turn True. It is
// Unknown while one of the kinds it is derived from cannot be looked at.
type errorCondition struct {
	name string
	from []string
}

const (
	mutatingConfigurations   = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
	validatingConfigurations = "validatingwebhookconfigurations.admissionregistration.k8s.io"
	customResources          = "customresourcedefinitions.apiextensions.k8s.io"
	services                 = "services"
	endpointSlices           = "endpointslices.discovery.k8s.io"
)

// controllersError is not a check of its own: it is what a dead conversion does
// to the controllers that read every resource.
const controllersError = "ResourceControllersError"

var errorConditions = []errorCondition{
	{"VirtualResourceAdmissionError", []string{mutatingConfigurations, validatingConfigurations}},
	{"MutatingAdmissionWebhookConfigurationError", []string{mutatingConfigurations, services, endpointSlices}},
	{"ValidatingAdmissionWebhookConfigurationError", []string{validatingConfigurations, services, endpointSlices}},
	{"CRDConversionWebhookConfigurationError", []string{customResources, services, endpointSlices}},
	{controllersError, []string{customResources, services, endpointSlices}},
}

// Conditions returns the operator conditions of the Report, in a fixed order,
// with the times of the conditions written before.
func Conditions(r *classify.Report, before []metav1.Condition, o ConditionOptions) []metav1.Condition {
	if o.Now.IsZero() {
		o.Now = r.Snapshot.Taken
	}
	now := o.Now
	var errs []metav1.Condition
	inertia := map[string]time.Duration{}
	degraded := was(before, Degraded, metav1.ConditionTrue) || was(before, EvaluationConditionsDetected, metav1.ConditionTrue)
	degrading := degradingFindings(r)
	for _, c := range errorConditions {
		found := c.troubles(degrading)
		errs = append(errs, since(c.of(r, found), before, now))
		inertia[c.name] = o.Inertia
		if !degraded {
			inertia[c.name] = o.atFirst(found)
		}
	}
	out := []metav1.Condition{
		since(available(r), before, now),
		since(progressing(o), before, now),
		since(condition(Upgradeable, metav1.ConditionTrue, asExpected, "Webhooks never hold back an upgrade."), before, now),
	}
	lasting := slices.DeleteFunc(slices.Clone(errs), func(e metav1.Condition) bool {
		return e.Status != metav1.ConditionTrue || now.Sub(e.LastTransitionTime.Time) < inertia[e.Type]
	})
	out = append(out, rollUps(r, lasting, before, o)...)
	return append(out, errs...)
}

// rolloutInertia is how long Pods that are being replaced may leave a webhook
// without a ready endpoint.
const rolloutInertia = 10 * time.Minute

// atFirst is how long the troubles last before they roll up where nothing has:
// a new attempt to mend what is degraded does not make it well.
func (o ConditionOptions) atFirst(found []trouble) time.Duration {
	if !slices.ContainsFunc(found, func(t trouble) bool { return !t.passing }) {
		return max(o.Inertia, rolloutInertia)
	}
	return o.Inertia
}

func condition(name string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: reason, Message: message}
}

// since gives a condition the time of its last transition. A time in the
// future, of a writer whose clock runs fast, counts as now.
func since(c metav1.Condition, before []metav1.Condition, now time.Time) metav1.Condition {
	c.LastTransitionTime = metav1.NewTime(now)
	for _, b := range before {
		if b.Type == c.Type && b.Status == c.Status && b.LastTransitionTime.Time.Before(now) {
			c.LastTransitionTime = b.LastTransitionTime
		}
	}
	return c
}

func available(r *classify.Report) metav1.Condition {
	return condition(Available, metav1.ConditionTrue, asExpected, fmt.Sprintf("Watching %d webhooks.", len(r.Profiles)))
}

func progressing(o ConditionOptions) metav1.Condition {
	if o.RollingOut {
		return condition(Progressing, metav1.ConditionTrue, "RollingOut", "Another version of webhook-auditor takes over.")
	}
	return condition(Progressing, metav1.ConditionFalse, asExpected, "The version at work is the one installed.")
}

// trouble is one line of a condition.
type trouble struct {
	reason, line string
	// passing says that it may well pass by itself.
	passing bool
}

func (c errorCondition) of(r *classify.Report, found []trouble) metav1.Condition {
	if len(found) > 0 {
		return condition(c.name, metav1.ConditionTrue, commonReason(found), bounded(lines(found)))
	}
	for _, e := range r.Snapshot.Errors {
		if slices.Contains(c.from, e.Object) {
			return condition(c.name, metav1.ConditionUnknown, "CannotLook", clipped(capital(e.Error())))
		}
	}
	return condition(c.name, metav1.ConditionFalse, asExpected, "All is well.")
}

// degradingFinding is a finding that counts for conditions.
type degradingFinding struct {
	classify.Finding
	profile classify.Profile
	// passing says that the backend's Pods are being replaced.
	passing bool
}

func degradingFindings(r *classify.Report) []degradingFinding {
	profiles := map[inventory.Ref]*classify.Profile{}
	var out []degradingFinding
	for _, f := range r.Findings {
		if f.Check.Condition[f.Webhook.Type] == "" {
			continue
		}
		if len(profiles) == 0 {
			for i := range r.Profiles {
				profiles[r.Profiles[i].Ref] = &r.Profiles[i]
			}
		}
		if p := profiles[f.Webhook]; p != nil && degrades(f, *p) {
			out = append(out, degradingFinding{f, *p, passes(p)})
		}
	}
	return out
}

// passes reports whether the backend has no ready endpoint because its Pods are
// being replaced.
func passes(p *classify.Profile) bool {
	service, known := p.Snapshot.Services[p.State.Service.Key()]
	return known && p.State.Fault == inventory.NoReadyEndpoints && p.Snapshot.RollingOut(service)
}

func (c errorCondition) troubles(all []degradingFinding) []trouble {
	var out []trouble
	for _, f := range all {
		switch c.name {
		case f.Check.Condition[f.Webhook.Type]:
			out = append(out, trouble{f.Check.Reason, line(f.Finding), f.passing})
		case controllersError:
			if blocksControllers(f.Finding, f.profile) {
				out = append(out, trouble{"ConversionBlocksControllers", line(f.Finding), f.passing})
			}
		}
	}
	return out
}

// degrades reports whether a finding counts for conditions at all: never one
// that is acknowledged, nor of a webhook that fails open, nor one that is only
// possible. A dead conversion counts as soon as anybody needs it.
func degrades(f classify.Finding, p classify.Profile) bool {
	if f.Acknowledged || p.Webhook == nil || !p.FailsClosed() {
		return false
	}
	return f.Severity == classify.Critical || f.Webhook.Type == inventory.Conversion && f.Severity == classify.Warning
}

func blocksControllers(f classify.Finding, p classify.Profile) bool {
	return f.Webhook.Type == inventory.Conversion && p.Snapshot.ConversionNeed(p.CRD) == inventory.ControllersConvert
}

func line(f classify.Finding) string {
	if f.Webhook.Type == inventory.Conversion {
		return fmt.Sprintf("Conversion webhook of CRD %s %s.", f.Webhook.Name, f.Message)
	}
	return fmt.Sprintf("Webhook %s of %s %s.", f.Webhook.Name, f.Webhook.Configuration, f.Message)
}

// commonReason is the reason of all troubles, or notReady for a mixture.
func commonReason(found []trouble) string {
	for _, t := range found {
		if t.reason != found[0].reason {
			return notReady
		}
	}
	return found[0].reason
}

func lines(found []trouble) []string {
	var out []string
	for _, t := range found {
		out = append(out, t.line)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// rollUps sums the errors up: to Degraded, to EvaluationConditionsDetected, or
// nowhere. Degraded is always there, because its absence counts as degraded.
func rollUps(r *classify.Report, errs, before []metav1.Condition, o ConditionOptions) []metav1.Condition {
	now := o.Now
	sum := summed(errs)
	fine := condition(Degraded, metav1.ConditionFalse, asExpected, "All is well.")
	switch o.RollUp {
	case RollUpOff:
		return []metav1.Condition{since(fine, before, now)}
	case RollUpEvaluate:
		evaluation := sum
		evaluation.Type = EvaluationConditionsDetected
		return []metav1.Condition{since(fine, before, now), since(evaluation, before, now)}
	}
	if sum.Status == metav1.ConditionTrue && r.Snapshot.Upgrading && !was(before, Degraded, metav1.ConditionTrue) {
		sum = condition(Degraded, metav1.ConditionFalse, asExpected, "The cluster is being upgraded; webhooks may come and go.")
	}
	return []metav1.Condition{since(sum, before, now)}
}

func was(before []metav1.Condition, name string, status metav1.ConditionStatus) bool {
	return slices.ContainsFunc(before, func(c metav1.Condition) bool { return c.Type == name && c.Status == status })
}

// summed unites the errors as OpenShift's operators do: reasons joined by "::",
// a line for each.
func summed(errs []metav1.Condition) metav1.Condition {
	var reasons, all []string
	for _, e := range errs {
		reasons = append(reasons, e.Type+"_"+e.Reason)
		for l := range strings.SplitSeq(e.Message, "\n") {
			all = append(all, e.Type+": "+l)
		}
	}
	if len(reasons) == 0 {
		return condition(Degraded, metav1.ConditionFalse, asExpected, "All is well.")
	}
	slices.Sort(reasons)
	return condition(Degraded, metav1.ConditionTrue, strings.Join(reasons, "::"), bounded(all))
}

// The bounds of a message: conditions are written to etcd and read by people.
const (
	maxLines  = 10
	maxLength = 500
)

func bounded(all []string) string {
	shown := all[:min(len(all), maxLines)]
	out := make([]string, 0, len(shown)+1)
	for _, l := range shown {
		out = append(out, clipped(l))
	}
	if more := len(all) - len(shown); more > 0 {
		out = append(out, fmt.Sprintf("And %d more.", more))
	}
	return strings.Join(out, "\n")
}

// clipped cuts a text at a rune's boundary.
func clipped(s string) string {
	if len(s) <= maxLength {
		return s
	}
	return strings.ToValidUTF8(s[:maxLength], "") + "…"
}

func capital(s string) string { return strings.ToUpper(cmp.Or(s, " ")[:1]) + s[min(1, len(s)):] }
