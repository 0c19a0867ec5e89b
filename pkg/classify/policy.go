package classify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	yamlv3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
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

func matchAny(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool { return match(glob, name) })
}

// match reports whether the glob matches the name. A malformed one, which
// ParsePolicy refuses, matches nothing.
func match(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return err == nil && ok
}

// ParsePolicy reads what a cluster's owner decided, as YAML or JSON. What it
// does not mention stays as DefaultPolicy has it; a list that it mentions
// replaces the default, an entry of classes or controlPlane that entry alone.
func ParsePolicy(content []byte) (Policy, error) {
	if err := oneDocument(content); err != nil {
		return Policy{}, err
	}
	p := DefaultPolicy()
	document, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return Policy{}, err
	}
	unknown, err := kjson.UnmarshalStrict(document, &p)
	if err != nil {
		return Policy{}, err
	}
	if len(unknown) > 0 { // one that is only ignored would be a decision without effect
		return Policy{}, fmt.Errorf("%w: webhook-auditor print policy has all", unknown[0])
	}
	if err := p.check(); err != nil {
		return Policy{}, err
	}
	return p, nil
}

// oneDocument refuses what follows the Policy in its file: it would be ignored.
func oneDocument(content []byte) error {
	decoder := yamlv3.NewDecoder(bytes.NewReader(content))
	var first, next yamlv3.Node
	if err := decoder.Decode(&first); err != nil {
		return nil // an empty file is the default Policy; the decoder says what else is wrong
	}
	switch err := decoder.Decode(&next); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("after the Policy: %w", err)
	}
	return fmt.Errorf("line %d begins another document: the file must hold one Policy", next.Line)
}

// bucketEdges are those of the API server's histogram: of a threshold between
// them no series could show whether it was exceeded.
var bucketEdges = []float64{0.1, 0.5, 1, 2.5, 10}

// check returns all that is wrong with what the cluster's owner decided.
func (p Policy) check() error {
	var out []error
	refuse := func(isWrong bool, format string, values ...any) {
		if isWrong {
			out = append(out, fmt.Errorf(format, values...))
		}
	}
	refuseGlobs := func(where string, globs ...string) {
		for _, glob := range globs {
			_, err := path.Match(glob, "")
			refuse(err != nil, "%sglob %q: %w", where, glob, err)
		}
	}
	for _, class := range slices.Sorted(maps.Keys(p.Classes)) {
		refuse(class == ClassCore, "class core has no members of its own: set coreGroups")
		refuse(class != ClassCore && !slices.Contains(ListedClasses, class),
			"unknown class %q: must be one of critical, vital, virtual, sensitive", class)
	}
	refuseGlobs("", slices.Concat(p.PlatformNamespaces, p.PlatformWebhooks, p.RunLevelZero)...)
	for _, n := range []struct {
		key   string
		value int
	}{
		{"longTimeoutSeconds", p.LongTimeoutSeconds},
		{"controlPlaneTimeoutSeconds", p.ControlPlaneTimeoutSeconds},
		{"leaseTimeoutSeconds", p.LeaseTimeoutSeconds},
		{"caExpiryDays", p.CAExpiryDays},
		{"injectionGraceSeconds", p.InjectionGraceSeconds},
	} {
		refuse(n.value <= 0, "%s: %d: must be more than 0", n.key, n.value)
	}
	for _, name := range slices.Sorted(maps.Keys(p.LatencyThresholds)) {
		seconds := p.LatencyThresholds[name]
		refuse(!slices.Contains(bucketEdges, seconds),
			"latencyThresholds of %s: %g: must be one of 0.1, 0.5, 1, 2.5, 10, the edges that the API server's histogram has",
			name, seconds)
	}
	out = append(out, p.checkErrors()...)
	for i, b := range p.Budgets {
		refuse(b.Resource.Name == "" || b.Seconds < 0 || b.Webhooks < 0 || b.Seconds+b.Webhooks == 0,
			"budgets[%d]: must have a resource, and seconds, webhooks or both", i)
	}
	names := slices.Sorted(slices.Values(CheckNames(Checks)))
	for i, a := range p.Acknowledgements {
		place := fmt.Sprintf("acknowledgements[%d]: ", i)
		refuseGlobs(place, a.Check, a.Configuration, a.Name)
		refuse(strings.TrimSpace(a.Reason) == "", "%sreason is missing", place)
		refuse(!slices.ContainsFunc(names, func(name string) bool { return matchOrAny(a.Check, name) }),
			"%sno check is named %q: must be one of %s", place, a.Check, strings.Join(names, ", "))
	}
	return errors.Join(out...)
}

// checkErrors are about names that are none of opt-in checks.
func (p Policy) checkErrors() []error {
	optIn := CheckNames(lists.Filter(Checks, func(c *Check) bool { return c.OptIn }))
	var out []error
	for _, name := range p.Checks {
		if !slices.Contains(optIn, name) {
			out = append(out, fmt.Errorf("checks: %q: must be one of %s", name, strings.Join(optIn, ", ")))
		}
	}
	return out
}
