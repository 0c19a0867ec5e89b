package classify

import (
	"errors"
	"path"
	"slices"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Policy is everything that a cluster's owner may legitimately decide.
// POLICY.md documents the fields.
type Policy struct {
	Classes            map[Class][]inventory.Resource `json:"classes,omitempty"`
	CoreGroups         []string                       `json:"coreGroups,omitempty"`
	PlatformNamespaces []string                       `json:"platformNamespaces,omitempty"`
	PlatformWebhooks   []string                       `json:"platformWebhooks,omitempty"`

	RunLevelLabel string                          `json:"runLevelLabel,omitempty"`
	RunLevelZero  []string                        `json:"runLevelZero,omitempty"`
	ControlPlane  map[string][]inventory.Resource `json:"controlPlane,omitempty"`

	AuditorNamespaces []string `json:"auditorNamespaces,omitempty"`

	LatencyThresholds          map[string]float64 `json:"latencyThresholds,omitempty"`
	LongTimeoutSeconds         int                `json:"longTimeoutSeconds,omitempty"`
	ControlPlaneTimeoutSeconds int                `json:"controlPlaneTimeoutSeconds,omitempty"`
	LeaseTimeoutSeconds        int                `json:"leaseTimeoutSeconds,omitempty"`
	CAExpiryDays               int                `json:"caExpiryDays,omitempty"`
	InjectionGraceSeconds      int                `json:"injectionGraceSeconds,omitempty"`

	Checks           []string          `json:"checks,omitempty"`
	Budgets          []Budget          `json:"budgets,omitempty"`
	Acknowledgements []Acknowledgement `json:"acknowledgements,omitempty"`
}

// runs reports whether the Policy has the check run.
func (p *Policy) runs(c *Check) bool { return !c.OptIn || slices.Contains(p.Checks, c.Name) }

// WithChecks adds opt-in checks to run. It returns an error for a name that is none.
func (p Policy) WithChecks(names []string) (Policy, error) {
	p.Checks = slices.Concat(p.Checks, names)
	return p, errors.Join(p.checkErrors()...)
}

// Budget is what the webhooks of one resource may cost together.
type Budget struct {
	Resource inventory.Resource `json:"resource"`
	Seconds  int                `json:"seconds,omitempty"`
	Webhooks int                `json:"webhooks,omitempty"`
}

// DefaultPolicy is the Policy of a cluster whose owner decided nothing.
func DefaultPolicy() Policy {
	return Policy{
		Classes:                    defaultClasses(),
		CoreGroups:                 coreGroups(),
		PlatformNamespaces:         []string{"openshift-*", "kube-system"},
		RunLevelLabel:              "openshift.io/run-level",
		ControlPlane:               defaultControlPlane(),
		AuditorNamespaces:          []string{"webhook-auditor", "openshift-webhook-auditor"},
		LongTimeoutSeconds:         15,
		ControlPlaneTimeoutSeconds: 15,
		LeaseTimeoutSeconds:        3,
		CAExpiryDays:               30,
		InjectionGraceSeconds:      300,
	}
}

// The latencies in seconds from which the enhancement calls a webhook slow.
// Both are bucket edges of the API server's histogram.
const (
	slow         = 1.0
	slowCritical = 0.5
)

// The annotations that a webhook's owner may set.
const (
	// ApprovalAnnotation carries the URL of the pull request that approved a
	// webhook.
	ApprovalAnnotation = "webhook-approved.openshift.io"
	// acknowledgeAnnotation carries "check[, check…]: reason".
	acknowledgeAnnotation = "webhook-auditor.io/acknowledge"
	// OptInAnnotation, set to "true", lets a webhook reach run level 0.
	OptInAnnotation = "webhook.openshift.io/run-level-0-opt-in"
)

func (p *Policy) threshold(f *Profile) float64 {
	if set := p.LatencyThresholds[f.Name]; set > 0 {
		return set
	}
	if len(f.ByClass[ClassCritical]) > 0 || len(f.ByClass[ClassVital]) > 0 {
		return slowCritical
	}
	return slow
}

func secondsOf(n int) time.Duration { return time.Duration(n) * time.Second }

// matchAny reports whether one of the globs matches the name.
func matchAny(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool { return match(glob, name) })
}

// match reports whether the glob matches the name. A malformed one, which
// ParsePolicy refuses, matches nothing.
func match(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return err == nil && ok
}
