package inventory

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Checks print a selector for each request that they ask about, and one of
// thousands of values is long.
func TestSelectorIsPrintedOnce(t *testing.T) {
	raw := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"b", "a"},
	}}}
	s := newSelector(raw)
	if got, want := s.String(), "team notin (a,b)"; got != want {
		t.Errorf("the selector reads %q, want %q", got, want)
	}
	if n := testing.AllocsPerRun(10, func() { _ = s.String() }); n > 0 {
		t.Errorf("printing a parsed selector again takes %v allocations, want none", n)
	}
}
