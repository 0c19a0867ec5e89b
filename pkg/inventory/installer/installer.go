// Package installer says in which order installers apply the objects of an input, and
// uninstallers remove them. The orders are data. It is pure.
package installer

import (
	"cmp"
	_ "embed"
	"slices"
	"strconv"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Installer is a program that applies manifests, or removes them.
type Installer struct {
	Name string
	// kinds are in the order in which it takes them, before all others.
	kinds []string
	hooks []hooks
	// byName says that it takes waves, and in one of them names, after the kinds; Helm
	// takes kinds that it does not sort by their names, and kubectl nothing.
	byName bool
	// awaits are the phases whose objects are ready before what is in a later phase or wave.
	awaits []int
}

// hooks are the phases of an annotation's hooks: 0 is that of objects without any. An
// object that has others alone is left out.
type hooks struct {
	annotation string
	phases     map[string]int
}

// The kinds in the order in which versions 3 and 4 of Helm install them. Helm's own code
// writes the files: see e2e/helm.
var (
	//go:embed helm-3.txt
	helm3 string
	//go:embed helm-4.txt
	helm4 string
)

// Helm waits for no object to be ready, but with --wait for all that are no hooks, before
// the hooks that follow. Source: pkg/action/hooks.go and install.go of helm.sh/helm.
var (
	helmHooks  = []hooks{{inventory.AnnotationHelmHook, map[string]int{"pre-install": -1, "post-install": 1}}}
	helmAwaits = []int{0}
)

// Argo CD waits for each wave. Source: pkg/sync/sync_tasks.go, hook and syncwaves of
// github.com/argoproj/gitops-engine, whose list of kinds is that of Helm 3 without
// PriorityClass.
var argoHooks = []hooks{
	{inventory.AnnotationArgoHook, map[string]int{"presync": -1, "sync": 0, "postsync": 1}},
	{inventory.AnnotationHelmHook, map[string]int{"pre-install": -1, "pre-upgrade": -1, "crd-install": 0, "post-install": 1, "post-upgrade": 1}},
}

// Installers are those that are known.
var Installers = []Installer{
	{Name: "Helm 3", kinds: strings.Fields(helm3), hooks: helmHooks, awaits: helmAwaits},
	{Name: "Helm 4", kinds: strings.Fields(helm4), hooks: helmHooks, awaits: helmAwaits},
	{Name: "kubectl apply"},
	{Name: "Argo CD", kinds: without(helm3, "PriorityClass"), hooks: argoHooks, byName: true, awaits: []int{-1, 0, 1}},
}

// Uninstallers remove the objects of an input again, one after the other: whatever waits
// for another is gone at once. kubectl and Argo CD remove in the order of the command.
var Uninstallers = []Installer{
	{Name: "Helm 3", kinds: removal(helm3), hooks: kept},
	{Name: "Helm 4", kinds: removal(helm4), hooks: kept},
}

// kept have no phase: Helm leaves hooks there, and objects that it is to keep.
var kept = []hooks{{annotation: inventory.AnnotationHelmHook}, {annotation: inventory.AnnotationHelmPolicy}}

func without(list, kind string) []string {
	return slices.DeleteFunc(strings.Fields(list), func(k string) bool { return k == kind })
}

// removal is the order in reverse, but Services before all that runs behind them. Source:
// UninstallOrder in kind_sorter.go of helm.sh/helm.
func removal(list string) []string {
	kinds := without(list, "Service")
	slices.Reverse(kinds)
	return slices.Insert(kinds, slices.Index(kinds, "IngressClass")+1, "Service")
}

// Step is when an installer applies an object: the first difference decides, and equal
// ones are in the order of the input.
type Step struct {
	// Object is the index of the object.
	Object int
	// awaited says that the object is ready before a later stage.
	awaited           bool
	phase, wave, kind int
	hook, name        string
}

// stage compares the phases and waves of two steps.
func (s Step) stage(o Step) int {
	return cmp.Or(cmp.Compare(s.phase, o.phase), cmp.Compare(s.wave, o.wave))
}

func (s Step) compare(o Step) int {
	return cmp.Or(s.stage(o), cmp.Compare(s.hook, o.hook), cmp.Compare(s.kind, o.kind), cmp.Compare(s.name, o.name))
}

// Program is what an installer does with one input, step by step; what it leaves out is
// not in it.
type Program struct {
	Name  string
	Steps []Step
}

// Programs are those of the installers.
func Programs(of []Installer, all []*inventory.Manifest) []Program {
	var out []Program
	for _, i := range of {
		p := Program{Name: i.Name}
		for n, m := range all {
			if phase, applied := i.phase(m); applied {
				p.Steps = append(p.Steps, i.step(n, phase, m))
			}
		}
		if len(i.kinds) > 0 {
			slices.SortStableFunc(p.Steps, Step.compare)
		}
		out = append(out, p)
	}
	return out
}

// First is the step of the first of the objects that the program takes, below 0 for none.
func (p Program) First(objects ...int) int {
	return slices.IndexFunc(p.Steps, func(s Step) bool { return slices.Contains(objects, s.Object) })
}

// Ready is the step before which one of the objects is ready.
func (p Program) Ready(objects ...int) int {
	for i, s := range p.Steps {
		later := slices.IndexFunc(p.Steps[i:], func(o Step) bool { return o.stage(s) > 0 })
		if s.awaited && slices.Contains(objects, s.Object) && later >= 0 {
			return i + later
		}
	}
	return len(p.Steps)
}

// phase is the first of an object's hooks, false where it is left out.
func (i Installer) phase(m *inventory.Manifest) (phase int, applied bool) {
	for _, h := range i.hooks {
		list, isHook := m.Order[h.annotation]
		if !isHook {
			continue
		}
		for hook := range strings.SplitSeq(strings.ToLower(list), ",") {
			if of, known := h.phases[strings.TrimSpace(hook)]; known && (!applied || of < phase) {
				phase, applied = of, true
			}
		}
		return phase, applied
	}
	return 0, true
}

func (i Installer) step(object, phase int, m *inventory.Manifest) Step {
	s := Step{Object: object, awaited: slices.Contains(i.awaits, phase), phase: phase, kind: slices.Index(i.kinds, m.Kind), name: m.Kind}
	if s.kind < 0 {
		s.kind = len(i.kinds)
	}
	switch _, isHook := m.Order[inventory.AnnotationHelmHook]; {
	case i.byName:
		s.wave, s.name = number(m.Order[inventory.AnnotationSyncWave], m.Order[inventory.AnnotationHookWeight]), m.Name
	case isHook:
		s.wave, s.hook = number(m.Order[inventory.AnnotationHookWeight]), m.Name
	}
	return s
}

// number is the first of the texts that is one, else 0, as installers take them.
func number(texts ...string) int {
	for _, text := range texts {
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
	}
	return 0
}
