package classify

import (
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Profile is a webhook as checks see it: what is derived of it, and what is around
// it.
type Profile struct {
	*Facts
	// Snapshot holds the facts around the webhook.
	Snapshot *inventory.Snapshot
	// Matcher answers what the API server does with requests.
	Matcher *admission.Matcher
	// Policy holds what the cluster's owner decided.
	Policy *Policy
}

// Facts are what is derived of a webhook before checks run on it. They are never
// written to once a Report has them.
type Facts struct {
	*inventory.Webhook
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
	// removed together, and FinalizedAtUninstall those whose finalizers stay then; each is
	// nil for none.
	RefusedAtInstall, RefusedAtUninstall, FinalizedAtUninstall *Stuck

	// matchKey is the same for webhooks that are called for the same requests.
	matchKey string
}

// derive fills in what is known of the webhook alone.
func (d *deriver) derive(f *Facts, w *inventory.Webhook) {
	f.Webhook = w
	f.matchKey = admission.MatchKey(w)
	class := d.classOf(w, f.matchKey)
	f.Matched, f.UnusedRules, f.ByClass, f.RunLevelZero = class.matched, class.unused, class.byClass, class.runLevelZero
	if d.policy.holdsUpControlPlane(w) {
		f.ControlPlane = d.controlPlane(class, w)
	}
	f.Approval = w.Object.Annotations[ApprovalAnnotation]
	f.Approved = approvalURL.MatchString(f.Approval)
	f.Platform = matchAny(d.policy.PlatformWebhooks, w.Configuration) || matchAny(d.policy.PlatformWebhooks, w.Name) || stock(d.snapshot, w)
	f.ThirdParty = !matchAny(d.policy.PlatformNamespaces, w.Backend.Namespace())
	f.Threshold = d.policy.threshold(f)
	f.State = d.snapshot.State(w.Backend)
}
