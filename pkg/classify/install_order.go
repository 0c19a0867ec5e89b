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
		if len(o.Names) == 0 {
			return nil
		}
		severity, verb := Warning, "refuses"
		if o.Unless != "" {
			severity, verb = Info, "may refuse"
		}
		return []Problem{{
			Severity: severity,
			Message:  verb + o.inWords(" what is installed with it before %[2]s can serve%[4]s: %[3]s; fails with %[1]s")[0],
			Fix:      afterBackend(p, o),
		}}
	},
}

// afterBackend has the objects come once the backend is ready.
func afterBackend(p *Profile, o Stuck) string {
	later := fmt.Sprintf("have %s applied once %s is ready: annotated with %s: post-install,post-upgrade (helm install --wait; Argo CD) or in a later %s (Argo CD), or from a file that is applied later",
		JoinBounded(quotedAll(o.Names)), quoted(o.Backend), inventory.AnnotationHelmHook, inventory.AnnotationSyncWave)
	if p.Type == inventory.Conversion {
		return fmt.Sprintf("write it in version %s, which needs no conversion; or %s", quoted(p.CRD.StorageVersion), later)
	}
	return later + "; or let requests pass while there is no answer: " + patch(p, set(p, "failurePolicy", admissionv1.Ignore))
}

// inWords fills in programs, backend, objects and condition; it is nothing where nothing is
// stuck.
func (s Stuck) inWords(format string) []string {
	if len(s.Names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf(format, sentence(s.By, 0), s.Backend, JoinBounded(s.Names), s.Unless)}
}
