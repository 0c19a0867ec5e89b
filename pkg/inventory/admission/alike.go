package admission

import (
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Mentions are the labels that selectors ask for, by key and value. Where two sets of
// labels show the same of them, no selector distinguishes the two.
type Mentions map[string]map[string]bool

// MentionsOf are those of the selectors.
func MentionsOf(selectors ...inventory.Selector) Mentions {
	m := Mentions{}
	for _, s := range selectors {
		requirements, _ := s.Parsed.Requirements()
		for _, r := range requirements {
			if m[r.Key()] == nil {
				m[r.Key()] = map[string]bool{}
			}
			for _, value := range r.ValuesUnsorted() {
				m[r.Key()][value] = true
			}
		}
	}
	return m
}

// Seen writes down what the selectors see of the labels. It costs the labels, however
// many selectors there are.
func (m Mentions) Seen(labels map[string]string) string {
	var labelKeys []string
	for key, value := range labels {
		switch values, mentioned := m[key]; {
		case values[value]:
			labelKeys = append(labelKeys, string(appendList(nil, key, value)))
		case mentioned:
			labelKeys = append(labelKeys, string(appendList(nil, key)))
		}
	}
	slices.Sort(labelKeys)
	return strings.Join(labelKeys, "")
}

// NamespaceClass are namespaces that no selector distinguishes, sorted.
type NamespaceClass []string

// Namespaces are the classes of those that the Snapshot has or every cluster has, by the
// first of each. It costs their labels.
func (m Mentions) Namespaces(s *inventory.Snapshot) []NamespaceClass {
	names := map[string]bool{"default": true, "kube-system": true}
	for name := range s.Namespaces {
		names[name] = true
	}
	classes := map[string]NamespaceClass{}
	for name := range names {
		namespaceLabels, _ := s.NamespaceLabels(name)
		key := m.Seen(namespaceLabels)
		classes[key] = append(classes[key], name)
	}
	out := make([]NamespaceClass, 0, len(classes))
	for _, class := range classes {
		slices.Sort(class)
		out = append(out, class)
	}
	slices.SortFunc(out, func(a, b NamespaceClass) int { return strings.Compare(a[0], b[0]) })
	return out
}
