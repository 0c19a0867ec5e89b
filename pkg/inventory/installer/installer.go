// Package installer computes in which order installers apply the objects of an input,
// and what they wait for before they go on. It is pure.
package installer

import (
	"cmp"
	_ "embed"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Installer is a program that applies manifests.
type Installer struct {
	Name string
	// step is where an object is applied, false where an installation leaves it out.
	step func(m *inventory.Manifest) (step, bool)
	// awaits says whether objects are ready before what is in a later phase or wave.
	awaits func(step) bool
}

// Position is where an installer applies an object.
type Position struct {
	// Applied is false where an installation leaves the object out.
	Applied bool
	// Rank grows with the order. Objects of one rank are applied in any order.
	Rank int
	// Stage counts the phases and waves before it; in the stage Awaited the installer
	// has waited for the object to be ready.
	Stage, Awaited int
}

// Installers are those that are known.
var Installers = []Installer{
	{"Helm 3", helm(ranks(helm3)), func(s step) bool { return s.phase == install }},
	{"Helm 4", helm(ranks(helm4)), func(s step) bool { return s.phase == install }},
	{"kubectl apply", func(*inventory.Manifest) (step, bool) { return step{}, true }, func(step) bool { return false }},
	{"Argo CD", argo(ranks(helm3)), func(step) bool { return true }},
}

// Uninstallers remove the objects of an input again, one after the other: whatever waits
// for another is gone at once. kubectl and Argo CD remove in the order of the command.
var Uninstallers = []Installer{
	{"Helm 3", helmRemoval(helm3), func(step) bool { return false }},
	{"Helm 4", helmRemoval(helm4), func(step) bool { return false }},
}

// step is where an installer applies an object: the first difference decides, and
// equal ones are in the order of the input, or in any where open is set.
type step struct {
	phase, wave int
	hook        string
	kind        int
	name        string
	open        bool
}

// The phases of the hooks of Helm and Argo CD.
const (
	preInstall = iota - 1
	install
)

func (s step) stage(o step) int {
	return cmp.Or(cmp.Compare(s.phase, o.phase), cmp.Compare(s.wave, o.wave))
}

func (s step) compare(o step) int {
	return cmp.Or(s.stage(o), cmp.Compare(s.hook, o.hook), cmp.Compare(s.kind, o.kind), cmp.Compare(s.name, o.name))
}

// Positions returns where the installer applies each of the objects of one input.
func (i Installer) Positions(all []*inventory.Manifest) []Position {
	out, steps, order := make([]Position, len(all)), make([]step, len(all)), make([]int, 0, len(all))
	for n, m := range all {
		if steps[n], out[n].Applied = i.step(m); out[n].Applied {
			order = append(order, n)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return steps[a].compare(steps[b]) })
	for place, n := range order {
		p := &out[n]
		p.Rank, p.Awaited = place, math.MaxInt
		if place > 0 {
			last := order[place-1]
			p.Stage = out[last].Stage + steps[n].stage(steps[last])
			if steps[n].open && steps[n].compare(steps[last]) == 0 {
				p.Rank = out[last].Rank
			}
		}
		if i.awaits(steps[n]) {
			p.Awaited = p.Stage + 1
		}
	}
	return out
}

// The kinds in the order in which versions 3 and 4 of Helm install them. Helm's own code
// writes the files: see e2e/helm.
var (
	//go:embed helm-3.txt
	helm3 string
	//go:embed helm-4.txt
	helm4 string
)

// ranks are the places of the kinds in a list, below 0: that of all others is 0.
func ranks(list string) map[string]int {
	kinds := strings.Fields(list)
	out := make(map[string]int, len(kinds))
	for i, kind := range kinds {
		out[kind] = i - len(kinds)
	}
	return out
}

// helm applies hooks by their weight and name, all else by its kind, and kinds that it
// does not sort by their names. It waits for no object to be ready, but with --wait for
// all that are no hooks, before the hooks that follow. Source: pkg/action/hooks.go and
// install.go of helm.sh/helm.
func helm(ranks map[string]int) func(m *inventory.Manifest) (step, bool) {
	return func(m *inventory.Manifest) (step, bool) {
		s := step{kind: ranks[m.Kind]}
		if s.kind == 0 {
			s.name = m.Kind
		}
		hooks, isHook := m.Order[inventory.AnnotationHelmHook]
		if !isHook {
			return s, true
		}
		applied := false
		s.wave, s.hook = number(m.Order[inventory.AnnotationHookWeight]), m.Name
		s.phase, applied = phase(strings.ToLower(hooks), "pre-install", "", "post-install")
		return s, applied
	}
}

// helmRemoval takes kinds in reverse, but Services before all that runs behind them, and
// kinds that it does not sort last, by their names. It leaves hooks there. Source:
// UninstallOrder in kind_sorter.go of helm.sh/helm.
func helmRemoval(list string) func(m *inventory.Manifest) (step, bool) {
	var kinds []string
	for _, kind := range slices.Backward(strings.Fields(list)) {
		if kind == "Service" {
			continue
		}
		if kinds = append(kinds, kind); kind == "IngressClass" {
			kinds = append(kinds, "Service")
		}
	}
	ranks := ranks(strings.Join(kinds, " "))
	return func(m *inventory.Manifest) (step, bool) {
		s := step{kind: ranks[m.Kind]}
		if s.kind == 0 {
			s.name = m.Kind
		}
		_, isHook := m.Order[inventory.AnnotationHelmHook]
		return s, !isHook
	}
}

// argo applies objects by the phase of their hook, wave, kind and name, and kinds that it
// does not sort as one, the last. It waits for each wave. Source: pkg/sync/sync_tasks.go,
// hook and syncwaves of github.com/argoproj/gitops-engine, whose list of kinds is that of
// Helm 3 without PriorityClass.
func argo(ranks map[string]int) func(m *inventory.Manifest) (step, bool) {
	delete(ranks, "PriorityClass")
	return func(m *inventory.Manifest) (step, bool) {
		s := step{wave: Wave(m), kind: ranks[m.Kind], name: m.Name, open: true}
		hooks, isHook := m.Order[inventory.AnnotationArgoHook]
		helmHooks, isHelmHook := m.Order[inventory.AnnotationHelmHook]
		known := false
		if s.phase, known = phase(hooks, "PreSync", "Sync", "PostSync"); known {
			return s, true
		}
		if isHelmHook && helmHooks != "crd-install" && strings.TrimSpace(hooks) != "Skip" {
			s.phase, known = phase(helmHooks, "pre-install,pre-upgrade", "", "post-install,post-upgrade")
			return s, known
		}
		return s, !isHook
	}
}

// Wave is that in which Argo CD applies an object.
func Wave(m *inventory.Manifest) int {
	if wave, err := strconv.Atoi(m.Order[inventory.AnnotationSyncWave]); err == nil {
		return wave
	}
	return number(m.Order[inventory.AnnotationHookWeight])
}

// phase is the first phase of a list of hooks, given the names of the hooks of each;
// false where the list has none of them.
func phase(list string, names ...string) (phase int, known bool) {
	for i, of := range names {
		for hook := range strings.SplitSeq(list, ",") {
			if hook = strings.TrimSpace(hook); hook != "" && slices.Contains(strings.Split(of, ","), hook) {
				return i + preInstall, true
			}
		}
	}
	return install, false
}

// number is 0 where the text is none, as installers take it.
func number(text string) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return 0
}
