package classify

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var installOrder = &Check{
	Name:     "install-order",
	Summary:  "A webhook refuses objects that are installed with it, because its backend cannot serve yet.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		o := p.RefusedAtInstall
		if o == nil || p.Platform {
			return nil
		}
		severity, verb, condition := Warning, "refuses", ""
		if len(o.Unless) > 0 {
			severity, verb, condition = Info, "may refuse", unless(p.Webhook, o.Unless)
		}
		return []Problem{{
			Severity: severity,
			Message: fmt.Sprintf("%s what is installed with it before %s can serve%s: %s; %s",
				verb, o.Backend, condition, o.refused(), o.installers()),
			Fix: o.fix(p),
		}}
	},
}

// RefusedAtInstall are the objects of one input that a webhook of the same input
// refuses when they are installed for the first time.
type RefusedAtInstall struct {
	Remaining
	// Backend is the workload that has to be ready for the webhook to answer, and Wave
	// that in which Argo CD applies it.
	Backend string
	Wave    int
	// Pods says that the Pods of Backend are refused.
	Pods bool
	// Fails and Works are the names of the installers.
	Fails, Works []string
	// Unless are the namespaces whose labels, which are not known, may exempt all of it;
	// none where something is certainly refused.
	Unless []string
}

// refused names the objects.
func (o *RefusedAtInstall) refused() string {
	words := slices.Clone(o.First)
	if o.Pods {
		words = append([]string{"the Pods of " + o.Backend}, words...)
	}
	return sentence(words, o.Total-len(o.First))
}

// installers says with which of them it works.
func (o *RefusedAtInstall) installers() string {
	fails := "fails with " + sentence(slices.Clone(o.Fails), 0)
	if len(o.Works) == 0 {
		return fails
	}
	return "works with " + sentence(slices.Clone(o.Works), 0) + ", " + fails
}

func (o *RefusedAtInstall) fix(p *Profile) string {
	if o.Total == 0 {
		return fmt.Sprintf("have %s applied after %s, or let its Pods pass: %s",
			quoted(p.Object.Kind+" "+p.Configuration), quoted(o.Backend), patch(p, excludeNamespaces(p, []string{p.State.Service.Namespace})))
	}
	var names []string
	for _, name := range o.First {
		names = append(names, quoted(name))
	}
	later := fmt.Sprintf("have %s applied once %s is ready: annotated with %s: post-install,post-upgrade (helm install --wait; Argo CD) or %s: \"%d\" (Argo CD), or from a file that is applied later",
		sentence(names, o.Total-len(names)), quoted(o.Backend), inventory.AnnotationHelmHook, inventory.AnnotationSyncWave, o.Wave+1)
	if p.Type == inventory.Conversion {
		return fmt.Sprintf("write it in version %s, which needs no conversion; or %s", quoted(p.CRD.StorageVersion), later)
	}
	return later + "; or let requests pass while there is no answer: " + patch(p, set(p, "failurePolicy", admissionv1.Ignore))
}
