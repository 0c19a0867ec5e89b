// Package installer computes in which order installers apply the objects of an input,
// and what each of them waits for before it goes on. It is pure.
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
	// step returns where the object is applied, false where an installation leaves it
	// out.
	step func(m *inventory.Manifest) (step, bool)
	// awaits says what a phase and wave has to be for the next one to wait until its
	// objects are ready.
	awaits func(step) bool
}

// Position is where an installer applies an object.
type Position struct {
	// Applied is false where an installation leaves the object out.
	Applied bool
	// Rank grows with the order. Objects of one rank are applied in any order.
	Rank int
	// Stage counts what the installer sends before it may wait.
	Stage int
	// Awaited is the first stage that begins once the object is ready.
	Awaited int
}

// Installers are those that are known.
var Installers = []Installer{
	{"Helm 3", helmStep(ranks(helm3)), isInstall},
	{"Helm 4", helmStep(ranks(helm4)), isInstall},
	{"kubectl apply", inOrder, never},
	{"Argo CD", argoStep(ranks(helm3)), always},
}

// step is where an installer applies an object: the first difference decides, and
// equal ones are in the order of the input.
type step struct {
	phase, wave int
	hook        string
	kind        int
	name        string
	// open says that equal ones are in any order.
	open bool
}

func (s step) compare(o step) int {
	return cmp.Or(s.stage(o), cmp.Compare(s.hook, o.hook), cmp.Compare(s.kind, o.kind), cmp.Compare(s.name, o.name))
}

func (s step) stage(o step) int {
	return cmp.Or(cmp.Compare(s.phase, o.phase), cmp.Compare(s.wave, o.wave))
}

// The phases of Helm's hooks and Argo CD's.
const (
	preInstall = iota - 1
	install
	postInstall
)

func isInstall(s step) bool { return s.phase == install }
func always(step) bool      { return true }
func never(step) bool       { return false }

// inOrder is where kubectl applies an object: its files have no other order.
func inOrder(*inventory.Manifest) (step, bool) { return step{}, true }

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
			p.Stage = out[last].Stage + min(1, steps[n].stage(steps[last]))
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

// The kinds in the order in which Helm installs them, in its versions 3 and 4; all
// others follow by name. Helm's own code writes the files: see e2e/helm.
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

// helmStep is where Helm applies an object: hooks by their weight and name, all else
// by its kind. It waits for no object to be ready, but with --wait for all that are no
// hooks, before those that follow the installation. Source: pkg/action/hooks.go and
// install.go of helm.sh/helm.
func helmStep(ranks map[string]int) func(m *inventory.Manifest) (step, bool) {
	return func(m *inventory.Manifest) (step, bool) {
		s := step{phase: install, kind: ranks[m.Kind]}
		if s.kind == 0 {
			s.name = m.Kind
		}
		hooks, isHook := m.Order[inventory.AnnotationHelmHook]
		if !isHook {
			return s, true
		}
		s.wave, s.hook = number(m.Order[inventory.AnnotationHookWeight]), m.Name
		var applied bool
		s.phase, applied = earliest(strings.ToLower(hooks), "pre-install", "", "post-install")
		return s, applied
	}
}

// argoStep is where Argo CD applies an object: by its hook, wave, kind and name, of
// which all that Helm 3 does not sort come last. It waits for each wave. Source: pkg/sync/sync_tasks.go,
// hook and syncwaves of github.com/argoproj/gitops-engine.
func argoStep(ranks map[string]int) func(m *inventory.Manifest) (step, bool) {
	return func(m *inventory.Manifest) (step, bool) {
		s := step{phase: install, wave: Wave(m), kind: ranks[m.Kind], name: m.Name, open: true}
		if m.Kind == "PriorityClass" {
			s.kind = 0
		}
		hooks, isHook := m.Order[inventory.AnnotationArgoHook]
		helmHooks, isHelmHook := m.Order[inventory.AnnotationHelmHook]
		applied := true
		switch phase, known := earliest(hooks, "PreSync", "Sync", "PostSync"); {
		case known:
			s.phase = phase
		case isHook && strings.TrimSpace(hooks) == "Skip":
			applied = false
		case isHelmHook && helmHooks != "crd-install":
			s.phase, applied = earliest(helmHooks, "pre-install,pre-upgrade", "", "post-install,post-upgrade")
		case isHook:
			applied = false
		}
		return s, applied
	}
}

// Wave is that in which Argo CD applies an object.
func Wave(m *inventory.Manifest) int {
	if wave, err := strconv.Atoi(m.Order[inventory.AnnotationSyncWave]); err == nil {
		return wave
	}
	return number(m.Order[inventory.AnnotationHookWeight])
}

// earliest is the first phase of a list of hooks, given the names of the hooks of each
// phase; false where the list has none of them.
func earliest(list string, phases ...string) (phase int, known bool) {
	for i, names := range phases {
		for hook := range strings.SplitSeq(list, ",") {
			if slices.Contains(strings.Split(names, ","), strings.TrimSpace(hook)) && names != "" {
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
