package classify

import (
	"cmp"
	_ "embed"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// installer is a program that applies the objects of an input in an order, or removes them.
type installer struct {
	name string
	// kinds are in the order in which it takes them, before all others.
	kinds []string
	// then is the name by which it sorts after that; nil where it takes all in the order of
	// the input.
	then func(*inventory.Manifest) string
	// apart are the annotations by which an author has it take an object at another time, or
	// not at all: such objects are not compared.
	apart []string
}

// The kinds in the order in which versions 3 and 4 of Helm install them, and remove them.
// Helm's own code writes the files: see e2e/helm.
var (
	//go:embed installers/helm-3.txt
	helm3 string
	//go:embed installers/helm-4.txt
	helm4 string
	//go:embed installers/helm-3-removes.txt
	helm3Removes string
	//go:embed installers/helm-4-removes.txt
	helm4Removes string
)

// installers are those that are compared. The list of Argo CD is that of Helm 3 without
// PriorityClass. Source: pkg/sync/sync_tasks.go of github.com/argoproj/gitops-engine.
var installers = []installer{
	{name: "Helm 3", kinds: strings.Fields(helm3), then: manifestKind, apart: []string{inventory.AnnotationHelmHook}},
	{name: "Helm 4", kinds: strings.Fields(helm4), then: manifestKind, apart: []string{inventory.AnnotationHelmHook}},
	{name: "kubectl apply"},
	{
		name: "Argo CD", kinds: strings.Fields(strings.Replace(helm3, "PriorityClass", "", 1)), then: manifestName,
		apart: []string{inventory.AnnotationHelmHook, inventory.AnnotationArgoHook, inventory.AnnotationSyncWave},
	},
}

// uninstallers remove the objects of an input again, one after the other: whatever waits
// for another is gone at once. Helm leaves hooks there, and objects that it is to keep.
// kubectl and Argo CD remove in the order of the command.
var uninstallers = []installer{
	{
		name: "Helm 3", kinds: strings.Fields(helm3Removes), then: manifestKind,
		apart: []string{inventory.AnnotationHelmHook, inventory.AnnotationHelmPolicy},
	},
	{
		name: "Helm 4", kinds: strings.Fields(helm4Removes), then: manifestKind,
		apart: []string{inventory.AnnotationHelmHook, inventory.AnnotationHelmPolicy},
	},
}

// sequence is the order in which an installer takes objects, by their indexes in the input.
type sequence struct {
	writer string
	steps  []int
}

func sequences(installers []installer, all []*inventory.Manifest) []sequence {
	var out []sequence
	for _, i := range installers {
		s := sequence{writer: i.name}
		for n, m := range all {
			if !slices.ContainsFunc(i.apart, func(key string) bool { return slices.Contains(m.Order, key) }) {
				s.steps = append(s.steps, n)
			}
		}
		if i.then != nil {
			slices.SortStableFunc(s.steps, func(a, b int) int { return i.compare(all[a], all[b]) })
		}
		out = append(out, s)
	}
	return out
}

func (i installer) compare(a, b *inventory.Manifest) int {
	rank := func(m *inventory.Manifest) uint { return uint(slices.Index(i.kinds, m.Kind)) } // -1 is the greatest
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(i.then(a), i.then(b)))
}

func manifestKind(m *inventory.Manifest) string { return m.Kind }
func manifestName(m *inventory.Manifest) string { return m.Name }

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
