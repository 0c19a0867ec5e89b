package admission

import (
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// written reads "key operator value,value; …" as a selector and "key=value; …"
// as labels: nothing has to be valid.
func written(selector, object string) (*metav1.LabelSelector, map[string]string) {
	s, l := &metav1.LabelSelector{}, map[string]string{}
	for part := range strings.SplitSeq(selector, ";") {
		words := strings.SplitN(part, " ", 3)
		if len(words) < 2 {
			continue
		}
		e := metav1.LabelSelectorRequirement{Key: words[0], Operator: metav1.LabelSelectorOperator(words[1])}
		if len(words) == 3 {
			e.Values = strings.Split(words[2], ",")
		}
		s.MatchExpressions = append(s.MatchExpressions, e)
	}
	for part := range strings.SplitSeq(object, ";") {
		if key, value, ok := strings.Cut(part, "="); ok {
			l[key] = value
		}
	}
	return s, l
}

// FuzzSelectors holds the answers of selectors against those of the API's own:
// on all labels of an object, and on what is known of them.
func FuzzSelectors(f *testing.F) {
	for _, s := range []string{
		"", "a In b", "a NotIn b,c", "a Exists", "a DoesNotExist", "a In b,c;a NotIn b", "a In b;b Exists;c NotIn d",
		"a Like b", "a In", "a Exists b", "\xff In b", "a In \xff", "-a In b", "example.com/a In b;a NotIn ,x",
	} {
		f.Add(s, "a=b;b=c;c=x", "a=b")
		f.Add(s, "", "")
	}
	f.Fuzz(func(t *testing.T, selector, object, part string) {
		raw, all := written(selector, object)
		_, partLabels := written("", part)
		maps.DeleteFunc(partLabels, func(key, value string) bool { return all[key] != value })
		s := selectorOf(raw)
		want, err := metav1.LabelSelectorAsSelector(raw)
		if (err == nil) != (s.Err == nil) {
			t.Fatalf("error %v, want %v", s.Err, err)
		}
		if err != nil {
			return // nothing is excluded, and the webhook is in Snapshot.Errors
		}
		matches := want.Matches(labels.Set(all))
		if got := (labelSet{values: all, complete: true}).match(s); got != certain(matches) {
			t.Errorf("%q on %v: %s, want %t", selector, all, got, matches)
		}
		if got := (labelSet{values: partLabels}).match(s); got != Maybe && got != certain(matches) {
			t.Errorf("%q on %v, of which %v is known: %s, want %t", selector, all, partLabels, got, matches)
		}
	})
}
