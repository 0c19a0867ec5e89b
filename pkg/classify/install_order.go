package classify

import (
	"fmt"

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
		severity, verb := Warning, "refuses"
		if o.Unless != "" {
			severity, verb = Info, "may refuse"
		}
		return []Problem{{
			Severity: severity,
			Message: fmt.Sprintf("%s what is installed with it before %s can serve%s: %s; fails with %s",
				verb, o.Backend, o.Unless, JoinBounded(o.Names), sentence(o.By, 0)),
			Fix: afterBackend(p, o),
		}}
	},
}

// afterBackend has the objects come once the backend is ready.
func afterBackend(p *Profile, o *Stuck) string {
	later := fmt.Sprintf("have %s applied once %s is ready: annotated with %s: post-install,post-upgrade (helm install --wait; Argo CD) or in a later %s (Argo CD), or from a file that is applied later",
		JoinBounded(quotedAll(o.Names)), quoted(o.Backend), inventory.AnnotationHelmHook, inventory.AnnotationSyncWave)
	if p.Type == inventory.Conversion {
		return fmt.Sprintf("write it in version %s, which needs no conversion; or %s", quoted(p.CRD.StorageVersion), later)
	}
	return later + "; or let requests pass while there is no answer: " + patch(p, set(p, "failurePolicy", admissionv1.Ignore))
}
