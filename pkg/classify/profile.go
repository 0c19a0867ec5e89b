package classify

import (
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Profile is a webhook as checks see it: what is derived of it before they run, and what
// is around it. It is never written to once a Report has it.
type Profile struct {
	*inventory.Webhook
	Snapshot *inventory.Snapshot
	Matcher  *admission.Matcher
	Policy   *Policy
	// Matched are all resources that the webhook is called for.
	Matched []admission.MatchedResource
	// UnusedRules are the indexes of the rules that match nothing.
	UnusedRules []int
	// ByClass are the matched resources of each class.
	ByClass map[Class][]inventory.Resource
	// Approval is the value of the annotation webhook-approved.openshift.io.
	Approval string
	// Approved says that Approval is a URL.
	Approved bool
	// Platform says that the webhook is part of a stock cluster, or one that the
	// Policy counts as such.
	Platform bool
	// ThirdParty says that the backend is outside the platform's namespaces.
	ThirdParty bool
	// Threshold is the latency in seconds from which the webhook is slow.
	Threshold float64
	// State says whether the API server can reach the backend.
	State inventory.BackendState
	// ControlPlane are the requests on the control plane's path that it is called for.
	ControlPlane []ControlPlaneMatch
	// RunLevelZero are the core resources that it is called for in namespaces
	// on run level 0, and those namespaces.
	RunLevelZero RunLevelZero

	// What follows concerns several webhooks, and is computed once for all.

	// Deadlock is the cycle in which nothing starts any more, nil without one.
	Deadlock *Deadlock
	// SameName are the configurations that register the webhook's name; none where no other
	// webhook has it.
	SameName []string
	// UnmatchedVersions are the versions of its resources for which it is not
	// called.
	UnmatchedVersions []string
	// UnmatchedSubresources are those that change Pods, which it validates, and for
	// which neither it nor another webhook of its configuration is called.
	UnmatchedSubresources []inventory.Resource
	// Excesses are the budgets that the requests exceed which it is called for.
	Excesses []Excess
	// Outlasting is the worst chain of webhooks with failurePolicy Ignore which it is part
	// of and which outlasts its request; nil for none.
	Outlasting *Outlasting
	// RefusedAtInstall are the objects of its input that it refuses when they are
	// installed together, RefusedAtUninstall those whose deletion it refuses when they are
	// removed together, and FinalizedAtUninstall those whose finalizers stay then.
	RefusedAtInstall, RefusedAtUninstall, FinalizedAtUninstall Stuck
}

// deriver makes the Profiles of webhooks one by one.
type deriver struct {
	work    *work
	policy  *Policy
	matcher *admission.Matcher
	// profiles are what is derived of webhooks that are called for the same requests, by their
	// admission.MatchKey: large clusters have many webhooks and few of these.
	profiles map[string]Profile
	// classes are those of resources that a webhook matches.
	classes map[inventory.Resource][]Class
	// runLevelZero are the namespaces on run level 0.
	runLevelZero []string
}

func (d *deriver) derive(w *inventory.Webhook) *Profile {
	key := admission.MatchKey(w)
	p, ok := d.profiles[key]
	if !ok || w.Type == inventory.Conversion { // which has no rules: what it matches is its CRD
		p = d.matching(w)
		d.profiles[key] = p
	}
	p.Webhook = w
	shortest := secondsOf(min(d.policy.LeaseTimeoutSeconds, d.policy.ControlPlaneTimeoutSeconds))
	if !w.FailsClosed() && w.Timeout <= shortest { // it cannot hold the control plane up
		p.ControlPlane = nil
	}
	p.Approval = w.Object.Annotations[ApprovalAnnotation]
	p.Approved = approvalURL.MatchString(p.Approval)
	p.Platform = matchAny(d.policy.PlatformWebhooks, w.Configuration) || matchAny(d.policy.PlatformWebhooks, w.Name) ||
		stock(p.Snapshot, w)
	p.ThirdParty = !matchAny(d.policy.PlatformNamespaces, w.Backend.Namespace())
	p.Threshold = d.policy.threshold(&p)
	p.State = p.Snapshot.State(w.Backend)
	return &p
}

// matching is what webhooks have in common that are called for the same requests.
func (d *deriver) matching(w *inventory.Webhook) Profile {
	p := Profile{
		Webhook: w, Snapshot: d.matcher.Snapshot, Matcher: d.matcher, Policy: d.policy,
		Matched: d.matcher.MatchedResources(w), ByClass: map[Class][]inventory.Resource{},
	}
	for _, r := range p.Matched {
		for _, class := range d.classesOf(r.Resource) {
			p.ByClass[class] = append(p.ByClass[class], r.Resource)
		}
	}
	if w.Type != inventory.Conversion {
		p.UnusedRules = d.matcher.UnusedRules(&w.Registration)
		p.RunLevelZero = d.matchedOnZero(&p)
		p.ControlPlane = d.work.requests.matchedBy(d.work, w, p.Matched)
	}
	return p
}

func (d *deriver) classesOf(r inventory.Resource) []Class {
	out, ok := d.classes[r]
	if !ok {
		for _, class := range ListedClasses {
			if slices.Contains(d.policy.Classes[class], r) {
				out = append(out, class)
			}
		}
		if slices.Contains(d.policy.CoreGroups, r.Group) || isApprovedAPI(d.matcher.Snapshot, r) {
			out = append(out, ClassCore)
		}
		d.classes[r] = out
	}
	return out
}
