package classify

import (
	"cmp"
	_ "embed"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// The kinds in the order in which versions 3 and 4 of Helm remove them. Helm's own code
// writes the files: see e2e/helm.
var (
	//go:embed installers/helm-3-removes.txt
	helm3Removes string
	//go:embed installers/helm-4-removes.txt
	helm4Removes string
)

// uninstallers remove the objects of an input one after the other: first the kinds that they
// list, then the others by name of the kind. Whatever waits for another is gone at once.
// kubectl and Argo CD remove in the order of the command.
var uninstallers = []struct {
	name  string
	kinds []string
}{
	{"Helm 3", strings.Fields(helm3Removes)},
	{"Helm 4", strings.Fields(helm4Removes)},
}

// sequence is the order in which an uninstaller takes objects, by their indexes in the input.
type sequence struct {
	writer string
	steps  []int
}

func sequences(all []*inventory.Manifest) []sequence {
	var out []sequence
	for _, u := range uninstallers {
		s := sequence{writer: u.name}
		for n, m := range all {
			if !m.Kept {
				s.steps = append(s.steps, n)
			}
		}
		rank := func(m *inventory.Manifest) uint { return uint(slices.Index(u.kinds, m.Kind)) } // -1 is the greatest
		slices.SortStableFunc(s.steps, func(a, b int) int {
			return cmp.Or(cmp.Compare(rank(all[a]), rank(all[b])), cmp.Compare(all[a].Kind, all[b].Kind))
		})
		out = append(out, s)
	}
	return out
}

// span is a part of each order: after the first of some objects, and before the first of
// others, if any.
type span struct{ after, before []int }

// indexesIn are the objects of the span.
func (s sequence) indexesIn(span span) []int {
	from, until := s.first(span.after)+1, s.first(span.before)
	if until < 0 {
		until = len(s.steps)
	}
	return s.steps[from:max(from, until)]
}

// first is the step of the first of the objects, below 0 where none is compared.
func (s sequence) first(objects []int) int {
	return slices.IndexFunc(s.steps, func(n int) bool { return slices.Contains(objects, n) })
}
