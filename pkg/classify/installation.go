package classify

import (
	"math"
	"slices"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/installer"
)

// installation is an input of manifests that are applied together.
type installation struct {
	work      *work
	matcher   *admission.Matcher
	manifests []*inventory.Manifest
	at        map[manifestKey]int
	// namespace is that of objects whose manifests state none.
	namespace string
	// waiting are the webhooks whose backend is installed with them.
	waiting []waitingWebhook
	// positions are those of the manifests, by installer.
	positions [][]installer.Position
	// created are the objects by what is created, custom those of kinds that the API
	// server is not known to serve.
	created map[inventory.Resource][]*createdClass
	custom  []*createdClass
	// refused are the classes that webhooks refuse, by their matchKey.
	refused map[string][]refusedClass
}

// manifestKey names an object; of a manifest that states no namespace it has none.
type manifestKey struct {
	kind string
	inventory.Key
}

// waitingWebhook is a webhook that cannot answer before its backend runs.
type waitingWebhook struct {
	*Profile
	configuration int
	backends      []installedBackend
}

type installedBackend struct {
	inventory.Workload
	manifest int
}

// createdClass are objects that no webhook distinguishes.
type createdClass struct {
	admission.Request
	// members are the indexes of their manifests, by installer in its order.
	members [][]int
}

type refusedClass struct {
	*createdClass
	certain bool
}

// findRefusedAtInstall finds what webhooks refuse of the input that they are
// installed with.
func findRefusedAtInstall(w *work, m *admission.Matcher, profiles []Profile) {
	all := installations(w, m)
	for i := range profiles {
		for _, in := range all {
			if p := &profiles[i]; w.step() && failsWithBackend(p.Facts) && in.wait(p) {
				break
			}
		}
	}
	for _, in := range all {
		if len(in.waiting) > 0 {
			in.order()
			in.classify()
		}
		for i := range in.waiting {
			if waiting := &in.waiting[i]; w.step() {
				waiting.RefusedAtInstall = in.refusedBy(waiting)
			}
		}
	}
}

// failsWithBackend reports whether requests are refused while the webhook's backend,
// which runs in the cluster, does not answer.
func failsWithBackend(f *Facts) bool {
	return f.FailsClosed() && f.State.Service.Name != ""
}

// installations are the inputs with a manifest.
func installations(w *work, m *admission.Matcher) []*installation {
	var out []*installation
	known := map[string]*installation{}
	for i := range m.Snapshot.Manifests {
		o := &m.Snapshot.Manifests[i]
		in := known[o.Input]
		if in == nil {
			in = &installation{work: w, matcher: m, namespace: metav1.NamespaceDefault, at: map[manifestKey]int{}, refused: map[string][]refusedClass{}}
			known[o.Input], out = in, append(out, in)
		}
		if key := (manifestKey{o.Kind, o.Key}); !in.has(key) {
			in.at[key] = len(in.manifests)
		}
		in.manifests = append(in.manifests, o)
	}
	return out
}

func (in *installation) has(key manifestKey) bool {
	_, known := in.at[key]
	return known
}

// find returns the index of an object's manifest.
func (in *installation) find(kind string, key inventory.Key) (int, bool) {
	i, known := in.at[manifestKey{kind, key}]
	if !known && (key.Namespace == in.namespace || key.Namespace == metav1.NamespaceDefault) {
		i, known = in.at[manifestKey{kind, inventory.Key{Name: key.Name}}]
	}
	return i, known
}

// wait adds the webhook, if the input holds its configuration and its backend.
func (in *installation) wait(p *Profile) bool {
	configuration, known := in.find(p.Object.Kind, inventory.Key{Name: p.Configuration})
	if !known {
		return false
	}
	waiting := waitingWebhook{Profile: p, configuration: configuration}
	for _, workload := range in.behind(p.State.Service.Key) {
		if i, known := in.find(workload.Kind, workload.Key); known && !workload.Static {
			waiting.backends = append(waiting.backends, installedBackend{workload, i})
		}
	}
	if len(waiting.backends) > 0 {
		in.waiting = append(in.waiting, waiting)
	}
	return true
}

// behind are the workloads behind a Service. One whose manifest states no namespace
// shows that of the installation by the webhooks that name it.
func (in *installation) behind(key inventory.Key) []inventory.Workload {
	service, known := in.matcher.Snapshot.Services[key]
	if !known && in.has(manifestKey{"Service", inventory.Key{Name: key.Name}}) {
		in.namespace = key.Namespace
		service = in.matcher.Snapshot.Services[inventory.Key{Namespace: metav1.NamespaceDefault, Name: key.Name}]
	}
	return in.matcher.Snapshot.Behind(service)
}

// order computes where each installer applies the manifests.
func (in *installation) order() {
	for _, i := range installer.Installers {
		in.positions = append(in.positions, i.Positions(in.manifests))
	}
}

// classify makes the classes of the objects.
func (in *installation) classify() {
	seen := in.seenBySelectors()
	known := map[string]*createdClass{}
	in.created = map[inventory.Resource][]*createdClass{}
	for n, m := range in.manifests {
		if !in.work.step() {
			return
		}
		key := seen.key(m)
		class := known[key]
		if class == nil {
			class = &createdClass{Request: in.matcher.Creation(m, in.namespace), members: make([][]int, len(in.positions))}
			known[key] = class
			if in.matcher.Serves(class.Resource) {
				in.created[class.Resource] = append(in.created[class.Resource], class)
			} else {
				in.custom = append(in.custom, class)
			}
		}
		for i, positions := range in.positions {
			if positions[n].Applied {
				class.members[i] = append(class.members[i], n)
			}
		}
	}
	for _, class := range known {
		for i, positions := range in.positions {
			slices.SortFunc(class.members[i], func(a, b int) int { return positions[a].Rank - positions[b].Rank })
		}
	}
}

// seenOf is what webhooks see of an object: the labels that their objectSelectors ask
// for, and all where they have matchConditions.
type seenOf struct {
	labels map[string]bool
	all    bool
}

func (in *installation) seenBySelectors() seenOf {
	out := seenOf{labels: map[string]bool{}}
	for _, w := range in.waiting {
		if w.Type == inventory.Conversion {
			continue
		}
		out.all = out.all || len(w.MatchConditions) > 0
		requirements, _ := w.ObjectSelector.Parsed.Requirements()
		for _, r := range requirements {
			out.labels[r.Key()] = true
		}
	}
	return out
}

// key is the same for objects that look the same.
func (s seenOf) key(m *inventory.Manifest) string {
	key := []string{m.Group, m.Version, m.Kind, m.Namespace}
	all := s.all || m.Kind == "Namespace" // whose namespace it is itself
	if all {
		key = append(key, m.Name)
	}
	fixed := len(key)
	for label, value := range m.Labels {
		if all || s.labels[label] {
			key = append(key, label+"="+value)
		}
	}
	sort.Strings(key[fixed:])
	return strings.Join(key, "\x00")
}

// maxAsked bounds the classes that a webhook is asked about: an input has a few.
const maxAsked = 500

// refusedClasses are the classes that the webhook refuses without its backend.
func (in *installation) refusedClasses(w *waitingWebhook) []refusedClass {
	if w.Type == inventory.Conversion {
		return in.converted(w.CRD)
	}
	out, done := in.refused[w.matchKey]
	if done {
		return out
	}
	asked := slices.Clone(in.custom)
	for _, r := range w.Matched {
		asked = append(asked, in.created[r.Resource]...)
	}
	for _, class := range asked[:min(len(asked), maxAsked)] {
		if !in.work.step() {
			return nil
		}
		if v := class.Match(w.Webhook); !v.Refused && (v.Match == admission.Yes || v.Presumed()) {
			out = append(out, refusedClass{class, v.Match == admission.Yes})
		}
	}
	in.refused[w.matchKey] = out
	return out
}

// converted are the classes of custom resources that are written in another version
// than they are stored in.
func (in *installation) converted(c *inventory.CRD) []refusedClass {
	var out []refusedClass
	for _, class := range in.created[c.Resource] {
		if class.Version != c.StorageVersion {
			out = append(out, refusedClass{class, true})
		}
	}
	return out
}

// refusedPods says whether the webhook refuses the Pods of its backends, if they start
// after it: maybe where labels of their namespace decide that are not known.
func (in *installation) refusedPods(w *waitingWebhook) admission.Verdict {
	var out admission.Verdict
	for _, b := range w.backends {
		pod := inventory.Manifest{Version: "v1", Kind: "Pod", Key: inventory.Key{Namespace: in.manifests[b.manifest].Namespace}, Labels: b.PodLabels}
		v := in.matcher.Creation(&pod, in.namespace).Match(w.Webhook)
		if b.Kind == "Pod" || v.Refused || v.Match != admission.Yes && !v.Presumed() {
			return admission.Verdict{Match: admission.No}
		}
		if out.Match != admission.Maybe {
			out = v
		}
	}
	return out
}

// refusedBy is what the webhook refuses; nil for nothing.
func (in *installation) refusedBy(w *waitingWebhook) *RefusedAtInstall {
	first := w.backends[0]
	out := &RefusedAtInstall{Backend: first.String(), Wave: installer.Wave(in.manifests[first.manifest])}
	classes, pods := in.refusedClasses(w), in.refusedPods(w)
	certain, namespaces := false, []string(nil)
	for i, program := range installer.Installers {
		one := RefusedAtInstall{}
		positions := in.positions[i]
		from, until, podsLater := w.span(positions)
		if one.Pods = podsLater && pods.Match != admission.No; one.Pods {
			certain = certain || pods.Match == admission.Yes
			namespaces = append(namespaces, first.Namespace)
		}
		for _, class := range classes {
			refused := class.between(i, positions, from, until)
			if len(refused) == 0 {
				continue
			}
			one.Total += len(refused)
			for _, n := range refused[:min(len(refused), maxListed-len(one.First))] {
				one.First = append(one.First, in.manifests[n].String())
			}
			certain = certain || class.certain
			namespaces = append(namespaces, class.Namespace)
		}
		out.add(&one, program.Name)
	}
	if len(out.Fails) == 0 {
		return nil
	}
	if !certain {
		out.Unless = distinct(namespaces)
	}
	return out
}

// between are the members that the installer applies from a rank on until a stage.
func (c *createdClass) between(i int, positions []installer.Position, from, until int) []int {
	members := c.members[i]
	start, _ := slices.BinarySearchFunc(members, from, func(n, rank int) int { return positions[n].Rank - rank })
	end, _ := slices.BinarySearchFunc(members, until, func(n, stage int) int { return positions[n].Stage - stage })
	return members[min(start, end):end]
}

// add joins what the installer refuses.
func (o *RefusedAtInstall) add(one *RefusedAtInstall, installer string) {
	if one.Total == 0 && !one.Pods {
		o.Works = append(o.Works, installer)
		return
	}
	o.Fails = append(o.Fails, installer)
	o.Pods = o.Pods || one.Pods
	if one.Total > o.Total {
		o.First, o.Total = one.First, one.Total
	}
}

// span returns from which rank until which stage the installer's objects meet the
// webhook without its backend, and whether all of its backends come after it.
func (w *waitingWebhook) span(positions []installer.Position) (from, until int, podsLater bool) {
	configuration := positions[w.configuration]
	if !configuration.Applied {
		return math.MaxInt, 0, false
	}
	from, until, podsLater = configuration.Rank, math.MaxInt, true
	if w.Type == inventory.Conversion {
		from = 0 // there are no custom resources before their CRD
	}
	for _, b := range w.backends {
		if p := positions[b.manifest]; p.Applied {
			until = min(until, p.Awaited)
			podsLater = podsLater && configuration.Rank < p.Rank
		}
	}
	return from, until, podsLater
}
