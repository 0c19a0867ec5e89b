package admission

import (
	"encoding/binary"
	"slices"

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
