package classify

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// RunLevelExclusions are the requirements that keep a namespaceSelector off
// run level 0: one by the label, and one by name for the namespaces that the
// Policy names. The Snapshot says which ones a glob stands for.
func (p Policy) RunLevelExclusions(s *inventory.Snapshot) []metav1.LabelSelectorRequirement {
	var out []metav1.LabelSelectorRequirement
	if p.RunLevelLabel != "" {
		out = append(out, metav1.LabelSelectorRequirement{
			Key: p.RunLevelLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"0"},
		})
	}
	if names := p.namedLevelZero(s); len(names) > 0 {
		out = append(out, metav1.LabelSelectorRequirement{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: names,
		})
	}
	return out
}

// namedLevelZero are the namespaces that the Policy names, whether they exist
// or not, and those that exist of its globs.
func (p Policy) namedLevelZero(s *inventory.Snapshot) []string {
	var out []string
	for _, glob := range p.RunLevelZero {
		if !IsGlob(glob) {
			out = append(out, glob)
			continue
		}
		for name := range s.Namespaces {
			if match(glob, name) {
				out = append(out, name)
			}
		}
	}
	return text.Distinct(out)
}

// IsGlob reports whether a glob of the Policy is more than a name.
func IsGlob(glob string) bool { return strings.ContainsAny(glob, `*?[\`) }

// lackedExclusions are those that the namespaceSelector does not have. The run-level
// guard adds the same to a webhook that is registered after it. The platform's own
// webhooks, and those that opted in, need none.
func (p *Profile) lackedExclusions() []metav1.LabelSelectorRequirement {
	if p.Type == inventory.Conversion || p.Platform || p.Object.Annotations[OptInAnnotation] == "true" {
		return nil
	}
	return slices.DeleteFunc(p.Policy.RunLevelExclusions(p.Snapshot),
		func(requirement metav1.LabelSelectorRequirement) bool {
			return slices.ContainsFunc(p.NamespaceSelector.Raw.MatchExpressions,
				func(have metav1.LabelSelectorRequirement) bool {
					return have.Key == requirement.Key && have.Operator == requirement.Operator &&
						sets.New(have.Values...).HasAll(requirement.Values...)
				})
		})
}
