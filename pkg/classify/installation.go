package classify

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/installer"
)

// installation is an input of manifests, which are applied together.
type installation struct {
	work      *work
	matcher   *admission.Matcher
	manifests []*inventory.Manifest
	// at are the indexes of the manifests; without a namespace where they state none.
	at map[manifestKey]int
	// namespace is that of objects whose manifests state none.
	namespace string
	waiting   []waitingWebhook
	// positions are those of the manifests, by installer.
	positions [][]installer.Position
	classes   []*createdClass
	// refused are the classes that webhooks refuse, by their matchKey, and asked counts
	// how often a webhook was compared with a class.
	refused map[string][]refusedClass
	asked   int
}

type manifestKey struct {
	kind string
	inventory.Key
}

// waitingWebhook is a webhook that cannot answer before its backends run, which are
// installed with it. All are indexes of manifests.
type waitingWebhook struct {
	*Profile
	configuration int
	backends      []int
	workloads     []inventory.Workload
}

// createdClass are objects that differ in nothing that webhooks see.
type createdClass struct {
	admission.Request
	// members are the indexes of their manifests, by installer in its order.
	members [][]int
}

type refusedClass struct {
	*createdClass
	match admission.Match
}

// findRefusedAtInstall finds what webhooks refuse of what they are installed with.
// The errors name inputs that are too large to compare everything in.
func findRefusedAtInstall(w *work, m *admission.Matcher, profiles []Profile) (errs []inventory.Error) {
	all, holding := installations(w, m)
	for i := range profiles {
		p := &profiles[i]
		for _, in := range holding[manifestKey{p.Object.Kind, inventory.Key{Name: p.Configuration}}] {
			if w.step() && failsWithBackend(p.Facts) {
				in.wait(p)
			}
		}
	}
	for _, in := range all {
		if len(in.waiting) > 0 {
			in.classify()
		}
		for i := range in.waiting {
			if waiting := &in.waiting[i]; w.step() {
				waiting.RefusedAtInstall = in.refusedBy(waiting)
			}
		}
		if in.asked > maxAsked {
			errs = append(errs, inventory.Error{
				Source:  inventory.Source{File: in.manifests[0].Input},
				Message: fmt.Sprintf("install-order: %d webhooks with as many kinds of objects as here (%d) are not all compared: audit fewer files at a time", len(in.waiting), len(in.classes)),
			})
		}
	}
	return errs
}

// failsWithBackend reports whether requests are refused while what runs behind a Service
// does not answer.
func failsWithBackend(f *Facts) bool { return f.FailsClosed() && f.State.Service.Name != "" }

// installations are the inputs, and those that hold each object.
func installations(w *work, m *admission.Matcher) (all []*installation, holding map[manifestKey][]*installation) {
	known := map[string]*installation{}
	holding = map[manifestKey][]*installation{}
	for i := range m.Snapshot.Manifests {
		o := &m.Snapshot.Manifests[i]
		in := known[o.Input]
		if in == nil {
			in = &installation{
				work: w, matcher: m, namespace: metav1.NamespaceDefault,
				at: map[manifestKey]int{}, refused: map[string][]refusedClass{},
			}
			known[o.Input], all = in, append(all, in)
		}
		key := manifestKey{o.Kind, o.Key}
		if _, twice := in.at[key]; !twice {
			in.at[key] = len(in.manifests)
			holding[key] = append(holding[key], in)
		}
		in.manifests = append(in.manifests, o)
	}
	return all, holding
}

// find returns the index of an object's manifest.
func (in *installation) find(kind string, key inventory.Key) (int, bool) {
	i, known := in.at[manifestKey{kind, key}]
	if !known && (key.Namespace == in.namespace || key.Namespace == metav1.NamespaceDefault) {
		i, known = in.at[manifestKey{kind, inventory.Key{Name: key.Name}}]
	}
	return i, known
}

// wait adds the webhook, whose configuration the input holds, if it holds what serves it.
func (in *installation) wait(p *Profile) {
	waiting := waitingWebhook{Profile: p, configuration: in.at[manifestKey{p.Object.Kind, inventory.Key{Name: p.Configuration}}]}
	for _, workload := range in.behind(p.State.Service.Key) {
		if i, known := in.find(workload.Kind, workload.Key); known && !workload.Static {
			waiting.backends, waiting.workloads = append(waiting.backends, i), append(waiting.workloads, workload)
		}
	}
	if len(waiting.backends) > 0 {
		in.waiting = append(in.waiting, waiting)
	}
}

// behind are the workloads behind a Service. A webhook that names one whose manifest
// states no namespace shows that of the installation.
func (in *installation) behind(key inventory.Key) []inventory.Workload {
	service, known := in.matcher.Snapshot.Services[key]
	if _, stated := in.at[manifestKey{"Service", inventory.Key{Name: key.Name}}]; stated && !known {
		in.namespace = key.Namespace
		service = in.matcher.Snapshot.Services[inventory.Key{Namespace: metav1.NamespaceDefault, Name: key.Name}]
	}
	return in.matcher.Snapshot.Behind(service)
}

// classify makes the classes of the objects, in the order of each installer.
func (in *installation) classify() {
	for _, i := range installer.Installers {
		in.positions = append(in.positions, i.Positions(in.manifests))
	}
	byName := slices.ContainsFunc(in.waiting, func(w waitingWebhook) bool { return len(w.MatchConditions) > 0 })
	known := map[string]*createdClass{}
	for n, m := range in.manifests {
		key := []string{m.Group, m.Version, m.Kind, m.Namespace, labels.Set(m.Labels).String()}
		if byName || m.Kind == "Namespace" { // which is its own namespace
			key = append(key, m.Name)
		}
		class := known[strings.Join(key, "\n")]
		if class == nil {
			class = &createdClass{in.matcher.Creation(m, in.namespace), make([][]int, len(in.positions))}
			known[strings.Join(key, "\n")], in.classes = class, append(in.classes, class)
		}
		for i, positions := range in.positions {
			if in.work.step() && positions[n].Applied {
				class.members[i] = append(class.members[i], n)
			}
		}
	}
	for _, class := range in.classes {
		for i, positions := range in.positions {
			slices.SortFunc(class.members[i], func(a, b int) int { return positions[a].Rank - positions[b].Rank })
		}
	}
}

// maxAsked bounds how often the webhooks of an input are compared with classes of its
// objects: a thousand objects that all differ, and as many webhooks, are still compared.
const maxAsked = 1_000_000

// refusedClasses are the classes that the webhook refuses without its backend.
func (in *installation) refusedClasses(w *waitingWebhook) []refusedClass {
	key := w.matchKey
	if w.Type == inventory.Conversion {
		key = w.Configuration
	}
	out, done := in.refused[key]
	for _, class := range in.classes {
		if in.asked++; done || in.asked > maxAsked || !in.work.step() {
			break
		}
		if match := w.refuses(class.Request); match != admission.No {
			out = append(out, refusedClass{class, match})
		}
	}
	in.refused[key] = out
	return out
}

// refuses says whether the webhook refuses the request without its backend: maybe where
// labels of the namespace could exempt it that are not known. A custom resource that is
// written as it is stored needs no conversion.
func (w *waitingWebhook) refuses(r admission.Request) admission.Match {
	if w.Type == inventory.Conversion && r.Resource == w.CRD.Resource && r.Version != w.CRD.StorageVersion {
		return admission.Yes
	}
	if v := r.Match(w.Webhook); v.Match == admission.Yes || v.Presumed() {
		return v.Match
	}
	return admission.No
}

// pods are the Pods of a backend, if the webhook refuses those of all.
func (in *installation) pods(w *waitingWebhook) refusedClass {
	var out refusedClass
	for n, workload := range w.workloads {
		pod := inventory.Manifest{Version: "v1", Kind: "Pod", Key: inventory.Key{Namespace: in.manifests[w.backends[n]].Namespace}, Labels: workload.PodLabels}
		request := in.matcher.Creation(&pod, in.namespace)
		match := w.refuses(request)
		if match == admission.No || workload.Kind == "Pod" {
			return refusedClass{match: admission.No}
		}
		if out.match != admission.Maybe {
			out = refusedClass{&createdClass{Request: request}, match}
		}
	}
	return out
}

// refusedBy is what the webhook refuses; nil for nothing.
func (in *installation) refusedBy(w *waitingWebhook) *RefusedAtInstall {
	backend := in.manifests[w.backends[0]]
	out := &RefusedAtInstall{Backend: backend.String(), Wave: installer.Wave(backend)}
	classes, pods := in.refusedClasses(w), in.pods(w)
	var refused []refusedClass
	for i, program := range installer.Installers {
		first, total := []string(nil), 0
		from, until, podsLater := w.span(in.positions[i])
		podsLater = podsLater && pods.match != admission.No
		if podsLater {
			refused, out.Pods = append(refused, pods), true
		}
		for _, class := range classes {
			members := class.between(i, in.positions[i], from, until)
			if total += len(members); len(members) > 0 {
				refused = append(refused, class)
			}
			for _, n := range members[:min(len(members), maxListed-len(first))] {
				first = append(first, in.manifests[n].String())
			}
		}
		if total > out.Total {
			out.First, out.Total = first, total
		}
		if total > 0 || podsLater {
			out.Fails = append(out.Fails, program.Name)
		} else {
			out.Works = append(out.Works, program.Name)
		}
	}
	if len(out.Fails) == 0 {
		return nil
	}
	if !slices.ContainsFunc(refused, func(c refusedClass) bool { return c.match == admission.Yes }) {
		for _, class := range refused {
			out.Unless = append(out.Unless, class.Namespace)
		}
		out.Unless = text.Distinct(out.Unless)
	}
	return out
}

// span returns from which rank until which stage an installer's objects meet the webhook
// without its backend, and whether its backends come after it.
func (w *waitingWebhook) span(positions []installer.Position) (from, until int, podsLater bool) {
	configuration := positions[w.configuration]
	if !configuration.Applied {
		return math.MaxInt, 0, false
	}
	from, until, podsLater = configuration.Rank, math.MaxInt, true
	if w.Type == inventory.Conversion {
		from = 0 // there are no custom resources before their CRD
	}
	for _, n := range w.backends {
		p := positions[n]
		if podsLater = podsLater && p.Applied && configuration.Rank < p.Rank; p.Applied {
			until = min(until, p.Awaited)
		}
	}
	return from, until, podsLater
}

// between are the members that an installer applies from a rank on until a stage.
func (c *createdClass) between(i int, positions []installer.Position, from, until int) []int {
	members := c.members[i]
	start, _ := slices.BinarySearchFunc(members, from, func(n, rank int) int { return cmp.Compare(positions[n].Rank, rank) })
	end, _ := slices.BinarySearchFunc(members, until, func(n, stage int) int { return cmp.Compare(positions[n].Stage, stage) })
	return members[min(start, end):end]
}
