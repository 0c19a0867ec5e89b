package classify

import (
	"path"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Policy is everything that a cluster's owner may legitimately decide.
type Policy struct {
	// Classes are the members of the classes critical, virtual and sensitive.
	Classes map[Class][]inventory.Resource
	// CoreGroups are the API groups of the class core; CRDs annotated
	// api-approved.openshift.io belong to it as well.
	CoreGroups []string
	// PlatformNamespaces are globs of the namespaces whose webhooks belong to
	// the platform rather than to a third party.
	PlatformNamespaces []string
	// PlatformWebhooks are globs of the names of webhooks, or of their
	// configurations, that a stock cluster registers.
	PlatformWebhooks []string
	// LatencyThresholds set the latency in seconds from which a webhook is
	// slow, by webhook name: a bucket edge of the API server's histogram.
	LatencyThresholds map[string]float64
}

// DefaultPolicy is the Policy of a cluster whose owner decided nothing.
func DefaultPolicy() Policy {
	return Policy{
		Classes:            defaultClasses(),
		CoreGroups:         slices.Clone(coreGroups),
		PlatformNamespaces: []string{"openshift-*", "kube-system"},
		PlatformWebhooks:   slices.Clone(platformWebhooks),
	}
}

// platformWebhooks are what a stock OpenShift cluster registers; a stock
// Kubernetes cluster registers none. The comments name the source.
var platformWebhooks = []string{
	"network-node-identity.openshift.io",                 // cluster-network-operator bindata/network/node-identity
	"multus.openshift.io",                                // cluster-network-operator bindata/network/multus-admission-controller
	"pod-identity-webhook",                               // cloud-credential-operator bindata/v4.1.0/podidentity
	"autoscaling.openshift.io",                           // cluster-autoscaler-operator
	"machine-api",                                        // machine-api-operator, machines and machinesets
	"machine-api-metal3-remediation",                     // machine-api-operator
	"prometheusrules.openshift.io",                       // cluster-monitoring-operator assets/admission-webhook
	"alertmanagerconfigs.openshift.io",                   // cluster-monitoring-operator assets/admission-webhook
	"monitoringconfigmaps.openshift.io",                  // cluster-monitoring-operator assets/cluster-monitoring-operator
	"snapshot.storage.k8s.io",                            // cluster-csi-snapshot-controller-operator assets
	"cluster-baremetal-validating-webhook-configuration", // cluster-baremetal-operator
	"controlplanemachineset.machine.openshift.io",        // cluster-control-plane-machine-set-operator
	"performance-addon-operator",                         // cluster-node-tuning-operator
	"alertmanagerconfigs.monitoring.coreos.com",          // cluster-monitoring-operator, CRD conversion
}

// The latencies in seconds from which the enhancement calls a webhook slow.
// Both are bucket edges of the API server's histogram.
const (
	slow         = 1.0
	slowCritical = 0.5
)

// ApprovalAnnotation carries the URL of the pull request that approved a
// webhook.
const ApprovalAnnotation = "webhook-approved.openshift.io"

// AcknowledgeAnnotation carries "check[, check…]: reason".
const AcknowledgeAnnotation = "webhook-auditor.io/acknowledge"

func (p Policy) profiles(s *inventory.Snapshot) []Profile {
	m := p.members(s)
	out := make([]Profile, len(s.Webhooks))
	for i := range s.Webhooks {
		out[i] = p.profile(s, &s.Webhooks[i], m)
	}
	return out
}

func (p Policy) profile(s *inventory.Snapshot, w *inventory.Webhook, m members) Profile {
	reached := s.Reach(w)
	state := s.State(w.Backend)
	namespace := w.Backend.Namespace()
	profile := Profile{
		Webhook:      w,
		Snapshot:     s,
		Reached:      reached,
		Reach:        m.reach(reached),
		Approval:     w.Object.Annotations[ApprovalAnnotation],
		Platform:     matchAny(p.PlatformWebhooks, w.Configuration) || matchAny(p.PlatformWebhooks, w.Name),
		ThirdParty:   !matchAny(p.PlatformNamespaces, namespace),
		State:        state,
		BackendReady: ready(state),
	}
	profile.Approved = approvalURL.MatchString(profile.Approval)
	profile.Threshold = p.threshold(profile)
	return profile
}

// threshold is 0.5 s where a critical resource is reached, else 1 s, unless the
// Policy names the webhook.
func (p Policy) threshold(profile Profile) float64 {
	if set := p.LatencyThresholds[profile.Name]; set > 0 {
		return set
	}
	if len(profile.Reach[ClassCritical]) > 0 {
		return slowCritical
	}
	return slow
}

// ready says whether the backend is ready, nil where it cannot be known. A
// fault that holds in one of two possible routing modes is not known.
func ready(s inventory.BackendState) *bool {
	if !s.Known || s.Routing != inventory.RoutingUnknown {
		return nil
	}
	ok := s.Fault == inventory.Sound
	return &ok
}

func matchAny(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		ok, err := path.Match(glob, name)
		return err == nil && ok
	})
}
