package admission

import (
	"encoding/binary"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// labelSet is what the input has of an object's labels.
type labelSet struct {
	values map[string]string
	// complete says that the object carries no others.
	complete bool
	// present is a key that the object carries with a value that is unknown.
	present string
}

var (
	// anyLabels are those of an object of which the input has nothing.
	anyLabels = labelSet{}
	// anyNamespaceLabels are those of a namespace of which nothing is known: the
	// API server gives the name's label to all.
	anyNamespaceLabels = labelSet{present: corev1.LabelMetadataName}
)

// match says whether the selector selects an object with the labels: maybe
// where the labels that are unknown decide.
func (l labelSet) match(s inventory.Selector) Match {
	switch {
	case s.Empty():
		return Yes
	case l.complete:
		return certain(s.Parsed.Matches(labels.Set(l.values)))
	}
	all, _ := s.Parsed.Requirements()
	if len(all) == 1 { // as nearly all selectors have
		return l.matchKey(all)
	}
	answer := Yes
	for _, requirements := range byKey(all) {
		switch l.matchKey(requirements) {
		case No:
			return No
		case Maybe:
			answer = Maybe
		}
	}
	return answer
}

// OneObject reports whether an object may have labels that all of the selectors select.
func OneObject(selectors ...inventory.Selector) bool { return anyLabels.mayMeet(selectors) }

// OneNamespace is OneObject of a namespace.
func OneNamespace(selectors ...inventory.Selector) bool { return anyNamespaceLabels.mayMeet(selectors) }

func (l labelSet) mayMeet(selectors []inventory.Selector) bool {
	var all labels.Requirements
	for _, s := range selectors {
		requirements, _ := s.Parsed.Requirements()
		all = append(all, requirements...)
	}
	for _, requirements := range byKey(all) {
		if l.matchKey(requirements) == No {
			return false
		}
	}
	return true
}

func certain(yes bool) Match {
	if yes {
		return Yes
	}
	return No
}

// byKey groups the requirements: those on different keys never contradict each
// other.
func byKey(all labels.Requirements) [][]labels.Requirement {
	return lists.Group(all, func(r labels.Requirement) string { return r.Key() })
}

func (l labelSet) matchKey(requirements []labels.Requirement) Match {
	key := requirements[0].Key()
	if value, ok := l.values[key]; ok {
		return certain(allMatch(requirements, labels.Set{key: value}))
	}
	if key != l.present && allMatch(requirements, labels.Set{}) || someValue(requirements) {
		return Maybe
	}
	return No
}

func allMatch(requirements []labels.Requirement, set labels.Set) bool {
	for i := range requirements {
		if !requirements[i].Matches(set) {
			return false
		}
	}
	return true
}

// someValue reports whether a label with the key can fulfill the requirements,
// whatever its value. It takes sets, for lists of values may be long.
func someValue(requirements []labels.Requirement) bool {
	if len(requirements) == 1 {
		return requirements[0].Operator() != selection.DoesNotExist
	}
	var allowed, forbidden []sets.Set[string]
	for i := range requirements {
		values := sets.New(requirements[i].ValuesUnsorted()...)
		switch requirements[i].Operator() {
		case selection.DoesNotExist:
			return false
		case selection.In, selection.Equals, selection.DoubleEquals:
			allowed = append(allowed, values)
		case selection.NotIn, selection.NotEquals:
			forbidden = append(forbidden, values)
		}
	}
	if len(allowed) == 0 {
		return true // no list holds all values
	}
	for value := range allowed[0] {
		lacks := func(s sets.Set[string]) bool { return !s.Has(value) }
		has := func(s sets.Set[string]) bool { return s.Has(value) }
		if !slices.ContainsFunc(allowed, lacks) && !slices.ContainsFunc(forbidden, has) {
			return true
		}
	}
	return false
}

// appendList appends the strings, each with its length, so that no two lists
// give the same bytes.
func appendList(key []byte, all ...string) []byte {
	key = binary.AppendUvarint(key, uint64(len(all)))
	for _, s := range all {
		key = binary.AppendUvarint(key, uint64(len(s)))
		key = append(key, s...)
	}
	return key
}

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

// Seen writes down what the selectors see of all labels. It costs the labels, however
// many selectors there are.
func (m Mentions) Seen(all map[string]string) string {
	var labelKeys []string
	for key, value := range all {
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
