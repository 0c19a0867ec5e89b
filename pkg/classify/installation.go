package classify

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	// requests are those that write the objects, by operation.
	requests map[admission.Operation][]admission.Request
	// installs and uninstalls are the programs, and asked counts how often a webhook was
	// compared with an object.
	installs, uninstalls []program
	asked                int
}

// program installs or uninstalls the objects: positions are those of the manifests.
type program struct {
	installer.Installer
	positions []installer.Position
}

// maxPairs bounds how often the webhooks of an input are compared with its objects.
const maxPairs = 200_000

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
			in.installs, in.uninstalls = in.programs(installer.Installers), in.programs(installer.Uninstallers)
		}
		for i := range in.waiting {
			if waiting := &in.waiting[i]; w.step() {
				waiting.RefusedAtInstall, waiting.RefusedAtUninstall = in.atInstall(waiting), in.atUninstall(waiting)
			}
		}
		if in.asked > maxPairs {
			errs = append(errs, inventory.Error{
				Source:  inventory.Source{File: in.manifests[0].Input},
				Message: fmt.Sprintf("install-order: %d webhooks with as many objects as here (%d) are not all compared: audit fewer files at a time", len(in.waiting), len(in.manifests)),
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
				at: map[manifestKey]int{}, requests: map[admission.Operation][]admission.Request{},
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

// programs orders the manifests as each of the installers does.
func (in *installation) programs(all []installer.Installer) []program {
	var out []program
	for _, i := range all {
		out = append(out, program{i, i.Positions(in.manifests)})
	}
	return out
}

// refusedBy are the objects of which the webhook refuses the operation without its
// backend, by the index of their manifests.
func (in *installation) refusedBy(w *waitingWebhook, op admission.Operation) map[int]admission.Match {
	if !w.asksFor(op) {
		return nil
	}
	if in.requests[op] == nil {
		for _, m := range in.manifests {
			in.requests[op] = append(in.requests[op], in.matcher.Writing(op, m, in.namespace))
		}
	}
	out := map[int]admission.Match{}
	for n, request := range in.requests[op] {
		if in.asked++; in.asked > maxPairs || !in.work.step() {
			break
		}
		if match := w.refuses(request); match != admission.No {
			out[n] = match
		}
	}
	return out
}

// asksFor reports whether the webhook may be called for the operation.
func (w *waitingWebhook) asksFor(op admission.Operation) bool {
	asks := func(r admissionv1.RuleWithOperations) bool { return admission.RuleOperations(&r).Has(op) }
	return w.Type == inventory.Conversion || slices.ContainsFunc(w.Rules, asks)
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

// pods says whether the webhook refuses the Pods of all of its backends.
func (in *installation) pods(w *waitingWebhook) admission.Match {
	out := admission.Maybe
	for n, workload := range w.workloads {
		pod := inventory.Manifest{Version: "v1", Kind: "Pod", Key: inventory.Key{Namespace: in.manifests[w.backends[n]].Namespace}, Labels: workload.PodLabels}
		switch match := w.refuses(in.matcher.Writing(admission.Create, &pod, in.namespace)); {
		case match == admission.No || workload.Kind == "Pod":
			return admission.No
		case match == admission.Yes:
			out = admission.Yes
		}
	}
	return out
}

// Remaining are objects that a webhook refuses with some programs, where most are.
type Remaining struct {
	// First are the first of them, Total counts all.
	First []string
	Total int
	By    []string
	// certain says that something is refused whatever labels are not known, unless are the
	// namespaces that those may exempt.
	certain bool
	unless  []string
}

// collect adds those that the program takes from a rank on until another one.
func (in *installation) collect(out *Remaining, p *program, of map[int]admission.Match, span [2]int) {
	var first []string
	total := 0
	for n, position := range p.positions {
		match, is := of[n]
		if !is || !position.Applied || position.Rank < span[0] || position.Rank >= span[1] {
			continue
		}
		out.add(match, cmp.Or(in.manifests[n].Namespace, in.namespace))
		if total++; len(first) < maxListed {
			first = append(first, in.manifests[n].String())
		}
	}
	if total > 0 {
		out.By = append(out.By, p.Name)
	}
	if total > out.Total {
		out.First, out.Total = first, total
	}
}

func (r *Remaining) add(match admission.Match, namespace string) {
	r.certain = r.certain || match == admission.Yes
	r.unless = append(r.unless, namespace)
}

// String names the objects.
func (r *Remaining) String() string { return sentence(slices.Clone(r.First), r.Total-len(r.First)) }

// unlessExempted are the namespaces whose labels, which are not known, may exempt all
// that is refused; none where something is for certain.
func unlessExempted(all ...*Remaining) []string {
	var out []string
	for _, r := range all {
		if r.certain {
			return nil
		}
		out = append(out, r.unless...)
	}
	return text.Distinct(out)
}

// atInstall is what the webhook refuses; nil for nothing.
func (in *installation) atInstall(w *waitingWebhook) *RefusedAtInstall {
	backend := in.manifests[w.backends[0]]
	out := &RefusedAtInstall{Backend: backend.String(), Wave: installer.Wave(backend)}
	objects, pods := in.refusedBy(w, admission.Create), in.pods(w)
	for i := range in.installs {
		p := &in.installs[i]
		span, podsLater := w.span(p)
		before := len(out.By)
		in.collect(&out.Remaining, p, objects, span)
		switch {
		case podsLater && pods != admission.No:
			out.Pods = true
			out.add(pods, cmp.Or(backend.Namespace, in.namespace))
			out.Fails = append(out.Fails, p.Name)
		case len(out.By) > before:
			out.Fails = append(out.Fails, p.Name)
		default:
			out.Works = append(out.Works, p.Name)
		}
	}
	if len(out.Fails) == 0 {
		return nil
	}
	out.Unless = unlessExempted(&out.Remaining)
	return out
}

// span returns from which rank until which an installer's objects meet the webhook
// without its backend, and whether its backends come after it.
func (w *waitingWebhook) span(p *program) (span [2]int, podsLater bool) {
	configuration := p.positions[w.configuration]
	if !configuration.Applied {
		return span, false
	}
	awaited, podsLater := math.MaxInt, true
	for _, n := range w.backends {
		b := p.positions[n]
		if podsLater = podsLater && b.Applied && configuration.Rank < b.Rank; b.Applied {
			awaited = min(awaited, b.Awaited)
		}
	}
	if w.Type != inventory.Conversion { // there are no custom resources before their CRD
		span[0] = configuration.Rank
	}
	span[1] = math.MaxInt
	for _, o := range p.positions {
		if o.Applied && o.Stage >= awaited {
			span[1] = min(span[1], o.Rank)
		}
	}
	return span, podsLater
}

// atUninstall is what the webhook keeps from being removed; nil for nothing.
func (in *installation) atUninstall(w *waitingWebhook) *RefusedAtUninstall {
	out := &RefusedAtUninstall{}
	backends := w.backends
	if service, known := in.find("Service", w.State.Service.Key); known {
		backends = append([]int{service}, backends...)
	}
	deleted, finalized := in.refusedBy(w, admission.Delete), map[int]admission.Match{}
	if slices.ContainsFunc(in.manifests, (*inventory.Manifest).IsFinalized) {
		finalized = in.refusedBy(w, admission.Update)
		maps.DeleteFunc(finalized, func(n int, _ admission.Match) bool { return !in.manifests[n].IsFinalized() })
	}
	for i := range in.uninstalls {
		p := &in.uninstalls[i]
		gone, controller := p.first(backends), p.first(w.backends)
		if !p.positions[w.configuration].Applied || controller < 0 {
			continue
		}
		out.Backend, out.Controller = in.manifests[gone].String(), in.manifests[controller].String()
		from, until := p.positions[gone].Rank, p.positions[w.configuration].Rank
		if from < until {
			out.BackendFirst = append(out.BackendFirst, p.Name)
		} else {
			out.WebhookFirst = append(out.WebhookFirst, p.Name)
		}
		in.collect(&out.Refused, p, deleted, [2]int{from + 1, until})
		in.collect(&out.Finalized, p, finalized, [2]int{p.positions[controller].Rank + 1, math.MaxInt})
	}
	if out.Refused.Total+out.Finalized.Total == 0 {
		return nil
	}
	out.Unless = unlessExempted(&out.Refused, &out.Finalized)
	return out
}

// first is the one of the manifests that the program takes before the others, below 0
// where it takes none.
func (p *program) first(all []int) int {
	first := -1
	for _, n := range all {
		if at := p.positions[n]; at.Applied && (first < 0 || at.Rank < p.positions[first].Rank) {
			first = n
		}
	}
	return first
}
