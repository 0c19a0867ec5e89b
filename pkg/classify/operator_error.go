package classify

import (
	"fmt"
	"slices"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// OperatorError is an operator condition that findings turn True, without its
// history: that is kept by package operator.
type OperatorError struct {
	// Name is the type of the condition.
	Name string
	// Degradations are the findings that turn it True.
	Degradations []Degradation
	// Unreadable is why it is Unknown while no finding turns it True; nil where
	// everything that it is derived from could be read.
	Unreadable *inventory.Error
}

// Degradation is a finding that turns an operator condition True.
type Degradation struct {
	Reason, Message string
	// RollsUp says that it degrades the operator, too.
	RollsUp bool
	// Transient says that the backend has no ready endpoint because its Pods are
	// being replaced: it probably ends by itself.
	Transient bool
}

// Extent says which findings turn operator conditions True.
type Extent string

const (
	// CriticalFindings turn them True that stop requests, or conversions that
	// clients need; the critical ones degrade.
	CriticalFindings Extent = "critical"
	// EnhancementFindings turn them True and degrade as OpenShift's enhancement
	// has it: whatever the absence of a backend does, its reference dangles.
	EnhancementFindings Extent = "enhancement"
)

// The resources that the conditions are derived from.
const (
	mutatingResource   = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
	validatingResource = "validatingwebhookconfigurations.admissionregistration.k8s.io"
	crdResource        = "customresourcedefinitions.apiextensions.k8s.io"
	serviceResource    = "services"
	sliceResource      = "endpointslices.discovery.k8s.io"
)

// ResourceControllersError has no check of its own: it is what a dead conversion
// does to the controllers that read every resource.
const ResourceControllersError = "ResourceControllersError"

// operatorErrors are the conditions and the resources each is derived from, in
// the order in which they are written.
var operatorErrors = []struct {
	name    string
	sources []string
}{
	{"VirtualResourceAdmissionError", []string{mutatingResource, validatingResource}},
	{"MutatingAdmissionWebhookConfigurationError", []string{mutatingResource, serviceResource, sliceResource}},
	{"ValidatingAdmissionWebhookConfigurationError", []string{validatingResource, serviceResource, sliceResource}},
	{"CRDConversionWebhookConfigurationError", []string{crdResource, serviceResource, sliceResource}},
	{ResourceControllersError, []string{crdResource, serviceResource, sliceResource}},
}

// OperatorErrors returns the operator's error conditions, in a fixed order.
func (r *Report) OperatorErrors(extent Extent) []OperatorError {
	degradations := r.degradations(extent)
	var out []OperatorError
	for _, e := range operatorErrors {
		out = append(out, OperatorError{
			Name:         e.name,
			Degradations: degradations[e.name],
			Unreadable:   unreadable(r.Errors, e.sources),
		})
	}
	return out
}

func unreadable(errs []inventory.Error, resources []string) *inventory.Error {
	i := slices.IndexFunc(errs, func(e inventory.Error) bool {
		return slices.ContainsFunc(resources, func(r string) bool { return e.Object == r || !e.Stale && e.Concerns(r) })
	})
	if i < 0 {
		return nil
	}
	return &errs[i]
}

// degradations returns the findings that turn conditions True, by condition: never one that
// is acknowledged, nor, but for the enhancement, of a webhook that fails open, nor
// one that is only possible. A dead conversion counts as soon as any client needs
// it, and degrades the operator where it is critical, as it stops controllers then.
func (r *Report) degradations(extent Extent) map[string][]Degradation {
	out := map[string][]Degradation{}
	profiles := r.ByRef()
	for _, f := range r.Findings {
		condition, p := f.Check.Condition[f.Webhook.Type], profiles[f.Webhook]
		if condition == "" || p == nil || f.Acknowledged {
			continue
		}
		d := Degradation{
			Reason: f.Check.Reason, Message: fmt.Sprintf("Webhook %s of %s %s.", f.Webhook.Name, f.Webhook.Configuration, f.Message),
			RollsUp: f.Severity == Critical && p.FailsClosed(), Transient: p.beingReplaced(),
		}
		if extent == EnhancementFindings { // a backend that is only missing in one mode of routing may be there
			d.RollsUp = f.Check == virtualResource || p.State.Routing == inventory.RoutingUnknown
		}
		isConversion := p.Type == inventory.Conversion
		if isConversion {
			d.Message = fmt.Sprintf("Conversion webhook of CRD %s %s.", f.Webhook.Name, f.Message)
		}
		if !d.RollsUp && !(isConversion && f.Severity == Warning) {
			continue
		}
		out[condition] = append(out[condition], d)
		if isConversion && p.Matcher.ConversionNeed(p.CRD) == admission.ControllersConvert {
			d.Reason = "ConversionBlocksControllers"
			out[ResourceControllersError] = append(out[ResourceControllersError], d)
		}
	}
	return out
}

// beingReplaced reports whether the backend has no ready endpoint because its
// Pods are being replaced.
func (p *Profile) beingReplaced() bool {
	return p.State.Fault == inventory.NoReadyEndpoints &&
		slices.ContainsFunc(BehindWebhook(p), func(w *inventory.Workload) bool {
			return w.Terminating || !w.Newest.IsZero() && p.Snapshot.Taken.Sub(w.Newest) < rollout
		})
}

// rollout is how long new Pods may take to become ready.
const rollout = 5 * time.Minute
