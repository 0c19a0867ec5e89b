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

	yamlv3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

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
	if err := errors.Join(slices.Concat(p.classErrors(), p.globErrors(), p.numberErrors(), p.checkErrors(),
		p.budgetErrors(), p.acknowledgementErrors())...); err != nil {
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

func (p Policy) classErrors() []error {
	var out []error
	for _, class := range slices.Sorted(maps.Keys(p.Classes)) {
		switch class {
		case ClassCritical, ClassVital, ClassVirtual, ClassSensitive:
		case ClassCore:
			out = append(out, errors.New("class core has no members of its own: set coreGroups"))
		default:
			out = append(out, fmt.Errorf("unknown class %q: must be one of critical, vital, virtual, sensitive", class))
		}
	}
	return out
}

func (p Policy) globErrors() []error {
	return text.Map(slices.Concat(p.PlatformNamespaces, p.PlatformWebhooks, p.RunLevelZero), globError)
}

func globError(glob string) error {
	if _, err := path.Match(glob, ""); err != nil {
		return fmt.Errorf("glob %q: %w", glob, err)
	}
	return nil
}

// bucketEdges are those of the API server's histogram: of a threshold between
// them no series could show whether it was exceeded.
var bucketEdges = []float64{0.1, 0.5, 1, 2.5, 10}

func (p Policy) numberErrors() []error {
	var out []error
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
		if n.value <= 0 {
			out = append(out, fmt.Errorf("%s: %d: must be more than 0", n.key, n.value))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.LatencyThresholds)) {
		if seconds := p.LatencyThresholds[name]; !slices.Contains(bucketEdges, seconds) {
			out = append(out, fmt.Errorf("latencyThresholds of %s: %g: must be one of 0.1, 0.5, 1, 2.5, 10, the edges that the API server's histogram has", name, seconds))
		}
	}
	return out
}

func (p Policy) checkErrors() []error {
	var optIn []string
	for _, c := range Checks {
		if c.OptIn {
			optIn = append(optIn, c.Name)
		}
	}
	var out []error
	for _, name := range p.Checks {
		if !slices.Contains(optIn, name) {
			out = append(out, fmt.Errorf("checks: %q: must be one of %s", name, strings.Join(optIn, ", ")))
		}
	}
	return out
}

func (p Policy) budgetErrors() []error {
	var out []error
	for i, b := range p.Budgets {
		if b.Resource.Name == "" || b.Seconds < 0 || b.Webhooks < 0 || b.Seconds+b.Webhooks == 0 {
			out = append(out, fmt.Errorf("budgets[%d]: must have a resource, and seconds, webhooks or both", i))
		}
	}
	return out
}

func (p Policy) acknowledgementErrors() []error {
	var out []error
	for i, a := range p.Acknowledgements {
		at := fmt.Sprintf("acknowledgements[%d]", i)
		for _, glob := range []string{a.Check, a.Configuration, a.Name} {
			if err := globError(glob); err != nil {
				out = append(out, fmt.Errorf("%s: %w", at, err))
			}
		}
		if strings.TrimSpace(a.Reason) == "" {
			out = append(out, fmt.Errorf("%s: reason is missing", at))
		}
		if !slices.ContainsFunc(Checks, func(c *Check) bool { return matchOrAny(a.Check, c.Name) }) {
			names := slices.Sorted(slices.Values(CheckNames(Checks)))
			out = append(out, fmt.Errorf("%s: no check is named %q: must be one of %s", at, a.Check, strings.Join(names, ", ")))
		}
	}
	return out
}
