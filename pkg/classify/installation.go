package classify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/installer"
)

// installation is an input of manifests, which are applied together.
type installation struct {
	matcher   *admission.Matcher
	manifests []*inventory.Manifest
	// at are the indexes of the manifests; without a namespace where they state none.
	at map[manifestKey]int
	// namespace is that of objects whose manifests state none.
	namespace string
	waiting   []waitingWebhook
	// requests are those that write the objects, by operation.
	requests map[admission.Operation][]admission.Request
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
}

// findRefusedAtInstall finds what webhooks refuse of what they are installed with.
// The errors name inputs that are too large to be compared.
func findRefusedAtInstall(w *work, m *admission.Matcher, profiles []Profile) (errs []inventory.Error) {
	all, holding := installations(m)
	for i := range profiles {
		p := &profiles[i]
		for _, in := range holding[manifestKey{p.Object.Kind, inventory.Key{Name: p.Configuration}}] {
			if failsWithBackend(p.Facts) {
				in.wait(p)
			}
		}
	}
	for _, in := range all {
		if len(in.waiting)*len(in.manifests) > maxPairs {
			errs = append(errs, inventory.Error{
				Source:  inventory.Source{File: in.manifests[0].Input},
				Message: fmt.Sprintf("install-order: %d webhooks and %d objects are too many to be compared: audit fewer files at a time", len(in.waiting), len(in.manifests)),
			})
			continue
		}
		installs, uninstalls := in.programs(installer.Installers), in.programs(installer.Uninstallers)
		for i := range in.waiting {
			if waiting := &in.waiting[i]; w.step() {
				waiting.RefusedAtInstall, waiting.RefusedAtUninstall = in.atInstall(waiting, installs), in.atUninstall(waiting, uninstalls)
			}
		}
	}
	return errs
}

// failsWithBackend reports whether requests are refused while what runs behind a Service
// does not answer.
func failsWithBackend(f *Facts) bool { return f.FailsClosed() && f.State.Service.Name != "" }

// installations are the inputs, and those that hold each object.
func installations(m *admission.Matcher) (all []*installation, holding map[manifestKey][]*installation) {
	known := map[string]*installation{}
	holding = map[manifestKey][]*installation{}
	for i := range m.Snapshot.Manifests {
		o := &m.Snapshot.Manifests[i]
		in := known[o.Input]
		if in == nil {
			in = &installation{matcher: m, namespace: metav1.NamespaceDefault, at: map[manifestKey]int{}, requests: map[admission.Operation][]admission.Request{}}
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
// A webhook that names a Service whose manifest states no namespace shows that of the
// installation.
func (in *installation) wait(p *Profile) {
	key := p.State.Service.Key
	service, known := in.matcher.Snapshot.Services[key]
	if _, stated := in.at[manifestKey{"Service", inventory.Key{Name: key.Name}}]; stated && !known {
		in.namespace = key.Namespace
		service = in.matcher.Snapshot.Services[inventory.Key{Namespace: metav1.NamespaceDefault, Name: key.Name}]
	}
	waiting := waitingWebhook{Profile: p, configuration: in.at[manifestKey{p.Object.Kind, inventory.Key{Name: p.Configuration}}]}
	for _, workload := range in.matcher.Snapshot.Behind(service) {
		if i, known := in.find(workload.Kind, workload.Key); known && !workload.Static {
			waiting.backends = append(waiting.backends, i)
		}
	}
	if len(waiting.backends) > 0 {
		in.waiting = append(in.waiting, waiting)
	}
}

// program is what an installer does to the input, step by step.
type program struct {
	name  string
	steps []installer.Step
}

func (in *installation) programs(all []installer.Installer) []program {
	var out []program
	for _, i := range all {
		out = append(out, program{i.Name, i.Steps(in.manifests)})
	}
	return out
}

// first is the step of the first of the objects that the program takes, below 0 for none.
func (p *program) first(objects ...int) int {
	return slices.IndexFunc(p.steps, func(s installer.Step) bool { return slices.Contains(objects, s.Object) })
}

// answering is the step from which on the webhook of the backends answers.
func (p *program) answering(backends []int) int {
	for i, backend := range p.steps {
		if !backend.Awaited || !slices.Contains(backends, backend.Object) {
			continue
		}
		if later := slices.IndexFunc(p.steps[i:], func(s installer.Step) bool { return s.Stage(backend) > 0 }); later >= 0 {
			return i + later
		}
	}
	return len(p.steps)
}

// refusedBy are the objects of which the webhook refuses the operation without its
// backend, by the index of their manifests.
func (in *installation) refusedBy(w *waitingWebhook, op admission.Operation) map[int]admission.Match {
	if in.requests[op] == nil {
		for _, m := range in.manifests {
			in.requests[op] = append(in.requests[op], in.matcher.Writing(op, m, in.namespace))
		}
	}
	out := map[int]admission.Match{}
	for n, request := range in.requests[op] {
		if match := w.refuses(request); match != admission.No {
			out[n] = match
		}
	}
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

// Remaining are objects that a webhook refuses with some programs.
type Remaining struct {
	// Names are those of the program with which most are.
	Names []string
	By    []string
	// certain says that something is refused whatever labels are not known; else those of
	// the namespace may exempt it.
	certain   bool
	namespace string
}

// remaining are those that the programs take in the span of steps; a span that begins
// below 0 is none.
func (in *installation) remaining(programs []program, of map[int]admission.Match, span func(*program) (from, until int)) Remaining {
	var out Remaining
	for i := range programs {
		p := &programs[i]
		var names []string
		from, until := span(p)
		for n := range p.steps {
			match, is := of[p.steps[n].Object]
			if is && from >= 0 && from <= n && n < until {
				m := in.manifests[p.steps[n].Object]
				out.certain = out.certain || match == admission.Yes
				out.namespace = cmp.Or(out.namespace, m.Namespace, in.namespace)
				names = append(names, m.String())
			}
		}
		if len(names) > 0 {
			out.By = append(out.By, p.name)
		}
		if len(names) > len(out.Names) {
			out.Names = names
		}
	}
	return out
}

// unlessExempted is the condition under which labels of namespaces that are not known
// exempt all of it; "" where something is refused for certain.
func unlessExempted(p *Profile, all ...Remaining) string {
	var namespaces []string
	for _, r := range all {
		if r.certain {
			return ""
		}
		if len(r.Names) > 0 {
			namespaces = append(namespaces, r.namespace)
		}
	}
	return unless(p.Webhook, namespaces)
}

// atInstall is what the webhook refuses between its registration and its first answer; nil
// for nothing. There are no custom resources before their CRD, so that a conversion is
// there from the first step on.
func (in *installation) atInstall(w *waitingWebhook, installs []program) *RefusedAtInstall {
	refused := in.remaining(installs, in.refusedBy(w, admission.Create), func(p *program) (from, until int) {
		from = p.first(w.configuration)
		if w.Type == inventory.Conversion {
			from = min(from, 0)
		}
		return from, p.answering(w.backends)
	})
	if len(refused.Names) == 0 {
		return nil
	}
	return &RefusedAtInstall{refused, in.manifests[w.backends[0]].String()}
}

// atUninstall is what the webhook keeps from being removed; nil for nothing.
func (in *installation) atUninstall(w *waitingWebhook, uninstalls []program) *RefusedAtUninstall {
	backends, finalized := w.backends, in.refusedBy(w, admission.Update)
	if service, known := in.find("Service", w.State.Service.Key); known {
		backends = append([]int{service}, backends...)
	}
	maps.DeleteFunc(finalized, func(n int, _ admission.Match) bool { return !in.manifests[n].IsFinalized() })
	removing := slices.DeleteFunc(slices.Clone(uninstalls), func(p program) bool { return p.first(w.configuration) < 0 || p.first(w.backends...) < 0 })
	out := &RefusedAtUninstall{
		Backend: in.manifests[backends[0]].String(), Controller: in.manifests[w.backends[0]].String(),
		Refused: in.remaining(removing, in.refusedBy(w, admission.Delete), func(p *program) (from, until int) {
			return p.first(backends...) + 1, p.first(w.configuration)
		}),
		Finalized: in.remaining(removing, finalized, func(p *program) (from, until int) { return p.first(w.backends...) + 1, len(p.steps) }),
	}
	if len(out.Refused.Names)+len(out.Finalized.Names) == 0 {
		return nil
	}
	return out
}
