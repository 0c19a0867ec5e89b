package inventory

import (
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Selector is a label selector with its parsed form. One that cannot be parsed
// has Err set; it excludes nothing, for the API server refuses what meets it.
type Selector struct {
	Raw    *metav1.LabelSelector
	Parsed labels.Selector
	Err    error
	// Key is the same for selectors that say the same; "" selects everything.
	Key string
	// text is what String returns: checks print a selector for each request.
	text string
}

// Empty reports whether the selector selects everything.
func (s Selector) Empty() bool {
	return s.Raw == nil || len(s.Raw.MatchLabels)+len(s.Raw.MatchExpressions) == 0
}

func (s Selector) reads(key string) bool {
	return s.Raw != nil && slices.ContainsFunc(s.Raw.MatchExpressions,
		func(r metav1.LabelSelectorRequirement) bool { return r.Key == key })
}

func (s Selector) and(o Selector) Selector {
	switch {
	case s.Empty():
		return o
	case o.Empty():
		return s
	}
	both := s.Raw.DeepCopy()
	both.MatchExpressions = append(both.MatchExpressions, o.Raw.MatchExpressions...)
	for _, key := range slices.Sorted(maps.Keys(o.Raw.MatchLabels)) {
		if value := o.Raw.MatchLabels[key]; both.MatchLabels[key] != value { // s may want another one
			both.MatchExpressions = append(both.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
		}
	}
	return newSelector(both)
}

// String returns what the selector wants, as kubectl writes it.
func (s Selector) String() string {
	if s.text == "" {
		return metav1.FormatLabelSelector(s.Raw)
	}
	return s.text
}

// newSelector parses a label selector; nil selects everything, as the API server's
// defaulting makes it.
func newSelector(raw *metav1.LabelSelector) Selector {
	if raw == nil {
		raw = &metav1.LabelSelector{}
	}
	key, written := selectorKey(raw), metav1.FormatLabelSelector(raw)
	parsed, err := metav1.LabelSelectorAsSelector(raw)
	if err != nil {
		parsed, written = labels.Everything(), key
	}
	return Selector{Raw: raw, Parsed: parsed, Err: err, Key: key, text: written}
}

// selectorKey writes a selector down: equal selectors have equal keys, and only they do.
func selectorKey(raw *metav1.LabelSelector) string {
	if (Selector{Raw: raw}).Empty() {
		return ""
	}
	key, _ := json.Marshal(raw) // strings alone: it has no error
	return string(key)
}
