package admission

import (
	"cmp"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// ConversionNeed says who breaks when the conversion webhook of a CRD is dead.
type ConversionNeed int

// The needs, from none to all.
const (
	// Unserved: the API server serves no version; the webhook is not called.
	Unserved ConversionNeed = iota
	// NeverConverted: one version is served and stored, and no webhook or policy
	// asks for another; the webhook is never called.
	NeverConverted
	// ClientsConvert: only clients of versions other than the stored one need
	// the webhook.
	ClientsConvert
	// WritesConvert: a webhook or a policy gets objects in another version than
	// that of the request, so that these requests are refused.
	WritesConvert
	// ControllersConvert: the version that the garbage collector, the
	// namespace controller and quota read differs from a stored one, so that
	// they stop with the webhook.
	ControllersConvert
)

// ConversionNeed computes the need. The controllers read the version that
// discovery prefers: the best version of the whole group, or the CRD's own best
// where it does not serve that one.
func (m *Matcher) ConversionNeed(c *inventory.CRD) ConversionNeed {
	stored, served := StoredVersions(c), servedVersions(c)
	single := len(lists.Distinct(slices.Concat(stored, served))) <= 1
	switch {
	case len(served) == 0:
		return Unserved
	case !single && (len(stored) != 1 || m.preferredVersion(c) != stored[0]):
		return ControllersConvert
	case m.GetsOther(c) != nil:
		return WritesConvert
	case single:
		return NeverConverted
	}
	return ClientsConvert
}

// GetsOther is a webhook or policy that gets some of the CRD's objects in another
// version than that of the request: a rule may name any version, even one that is not
// served. It is nil without one.
func (m *Matcher) GetsOther(c *inventory.CRD) *inventory.Registration {
	return m.others.getOrCompute(c, func() *inventory.Registration { return m.findOther(c) })
}

func (m *Matcher) findOther(c *inventory.CRD) *inventory.Registration {
	webhooks := slices.DeleteFunc(slices.Clone(m.Snapshot.Webhooks),
		func(w *inventory.Webhook) bool { return !namesVersion(w.Rules, c.Resource.Group) })
	policies := slices.DeleteFunc(slices.Clone(m.Snapshot.Policies),
		func(p *inventory.AdmissionPolicy) bool { return !namesVersion(p.Rules, c.Resource.Group) })
	for _, v := range m.index.byName[c.Resource] {
		for _, op := range m.Operations(v.Resource) {
			r := m.cachedRequest(v, op, Subject{})
			for _, w := range webhooks {
				if v.Served && r.getsOther(&w.Registration) && r.Match(w).Match != No {
					return &w.Registration
				}
			}
			for _, p := range policies {
				isMet := func(s PolicyStep) bool { return s.Match != No }
				if v.Served && r.getsOther(&p.Registration) && slices.ContainsFunc(m.policySteps(r, p), isMet) {
					return &p.Registration
				}
			}
		}
	}
	return nil
}

// namesVersion reports whether a rule for the group names versions: others cover that of
// the request.
func namesVersion(rules []admissionv1.RuleWithOperations, group string) bool {
	return slices.ContainsFunc(rules, func(r admissionv1.RuleWithOperations) bool {
		return !slices.Contains(r.APIVersions, "*") &&
			(slices.Contains(r.APIGroups, "*") || slices.Contains(r.APIGroups, group))
	})
}

// getsOther reports whether the object is converted for what is registered, if that
// meets the request: the API server gives it in the version of the rule. Without the
// conversion it refuses the request, whatever the failurePolicy. Source:
// NewVersionedAttributes in k8s.io/apiserver/pkg/admission.
func (r Request) getsOther(registration *inventory.Registration) bool {
	kind, verdict := r.rulesCover(registration.Type, &registration.MatchResources)
	return verdict.Match != No && kind != r.Kind
}

// StoredVersions returns the versions in which objects may be stored. Manifests carry
// no status; they start with the storage version alone.
func StoredVersions(c *inventory.CRD) []string {
	if c.StorageVersion == "" || slices.Contains(c.StoredVersions, c.StorageVersion) {
		return c.StoredVersions
	}
	return append(slices.Clip(c.StoredVersions), c.StorageVersion)
}

func servedVersions(c *inventory.CRD) []string {
	if !c.Established {
		return nil
	}
	return c.ServedVersions()
}

// PreferredVersion returns the version in which controllers read the CRD: the
// one that discovery prefers. Source:
// k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_discovery_controller.go.
func (m *Matcher) preferredVersion(c *inventory.CRD) string {
	best := m.index.preferred[c.Resource.Group]
	own := servedVersions(c)
	if slices.Contains(own, best) {
		return best
	}
	return preferred(own)
}

// preferredVersions are the best version that CRDs serve of each group.
func preferredVersions(crds map[string]*inventory.CRD) map[string]string {
	served := map[string][]string{}
	for _, c := range crds {
		served[c.Resource.Group] = append(served[c.Resource.Group], servedVersions(c)...)
	}
	out := make(map[string]string, len(served))
	for group, versions := range served {
		out[group] = preferred(versions)
	}
	return out
}

func preferred(versions []string) string {
	if len(versions) == 0 {
		return ""
	}
	return slices.MaxFunc(versions, func(a, b string) int {
		return cmp.Or(version.CompareKubeAwareVersionStrings(a, b), cmp.Compare(a, b))
	})
}
