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

// installation is an input of manifests, which are applied together. Objects in it are
// indexes of manifests.
type installation struct {
	matcher   *admission.Matcher
	manifests []*inventory.Manifest
	// at are the objects; without a namespace where their manifests state none.
	at map[manifestKey]int
	// namespace is that of objects whose manifests state none.
	namespace string
	// requests are those that write the objects, by operation.
	requests map[admission.Operation][]admission.Request
}

type manifestKey struct {
	kind string
	inventory.Key
}

// installedWebhook is one that cannot answer before its backends run, which are installed
// with it.
type installedWebhook struct {
	*Profile
	configuration int
	backends      []int
}

// Stuck are objects of one input that a webhook of it refuses, with some programs, to let
// come before its backend, or go after it.
type Stuck struct {
	Backend string
	// Names are those of the program with which most are.
	Names, By []string
	// Unless is the condition under which labels that are not known exempt all of them, ""
	// where one is refused for certain.
	Unless string
}

// maxPairs bounds how often the webhooks of an input are compared with its objects.
const maxPairs = 200_000

// findStuck finds what webhooks refuse of what they are installed with, and what stays when
// they are removed. The errors name inputs that are too large to be compared.
func findStuck(w *work, m *admission.Matcher, profiles []Profile) (errs []inventory.Error) {
	for _, in := range installations(m) {
		var webhooks []installedWebhook
		for i := range profiles {
			if hook := in.webhook(&profiles[i]); len(hook.backends) > 0 {
				webhooks = append(webhooks, hook)
			}
		}
		if len(webhooks)*len(in.manifests) > maxPairs {
			errs = append(errs, inventory.Error{
				Source:  inventory.Source{File: in.manifests[0].Input},
				Message: fmt.Sprintf("install-order: %d webhooks and %d objects are too many to be compared: audit fewer files at a time", len(webhooks), len(in.manifests)),
			})
			continue
		}
		installs, uninstalls := installer.Programs(installer.Installers, in.manifests), installer.Programs(installer.Uninstallers, in.manifests)
		for _, hook := range webhooks {
			if w.step() {
				in.install(hook, installs)
				in.uninstall(hook, uninstalls)
			}
		}
	}
	return errs
}

func installations(m *admission.Matcher) (all []*installation) {
	byInput := map[string]*installation{}
	for i := range m.Snapshot.Manifests {
		o := &m.Snapshot.Manifests[i]
		in := byInput[o.Input]
		if in == nil {
			in = &installation{matcher: m, namespace: metav1.NamespaceDefault, at: map[manifestKey]int{}, requests: map[admission.Operation][]admission.Request{}}
			byInput[o.Input], all = in, append(all, in)
		}
		if key := (manifestKey{o.Kind, o.Key}); in.find(key) < 0 {
			in.at[key] = len(in.manifests)
		}
		in.manifests = append(in.manifests, o)
	}
	return all
}

// find returns the object, below 0 for none.
func (in *installation) find(key manifestKey) int {
	if i, stated := in.at[key]; stated {
		return i
	}
	i, unstated := in.at[manifestKey{key.kind, inventory.Key{Name: key.Name}}]
	if unstated && (key.Namespace == in.namespace || key.Namespace == metav1.NamespaceDefault) {
		return i
	}
	return -1
}

// webhook is one that refuses requests without its backends, of which there are none where
// the input does not hold them or the configuration. One that names a Service whose
// manifest states no namespace shows that of the installation.
func (in *installation) webhook(p *Profile) installedWebhook {
	configuration, held := in.at[manifestKey{p.Object.Kind, inventory.Key{Name: p.Configuration}}]
	hook := installedWebhook{Profile: p, configuration: configuration}
	if !held || !p.FailsClosed() || p.State.Service.Name == "" {
		return hook
	}
	key := p.State.Service.Key
	service, known := in.matcher.Snapshot.Services[key]
	if _, unstated := in.at[manifestKey{"Service", inventory.Key{Name: key.Name}}]; unstated && !known {
		in.namespace = key.Namespace
		service = in.matcher.Snapshot.Services[inventory.Key{Namespace: metav1.NamespaceDefault, Name: key.Name}]
	}
	for _, workload := range in.matcher.Snapshot.Behind(service) {
		if i := in.find(manifestKey{workload.Kind, workload.Key}); i >= 0 && !workload.Static {
			hook.backends = append(hook.backends, i)
		}
	}
	return hook
}

// refusedBy are the objects of which the webhook refuses the operation without its
// backend: maybe where labels of the namespace could exempt them that are not known. A
// custom resource that is written as it is stored needs no conversion.
func (in *installation) refusedBy(w installedWebhook, op admission.Operation) map[int]admission.Match {
	if in.requests[op] == nil {
		for _, m := range in.manifests {
			in.requests[op] = append(in.requests[op], in.matcher.Writing(op, m, in.namespace))
		}
	}
	out := map[int]admission.Match{}
	for n, r := range in.requests[op] {
		if v := r.Match(w.Webhook); v.Match == admission.Yes || v.Presumed() {
			out[n] = v.Match
		}
		if w.Type == inventory.Conversion && r.Resource == w.CRD.Resource && r.Version != w.CRD.StorageVersion {
			out[n] = admission.Yes
		}
	}
	return out
}

// install finds what the webhook refuses between its registration and its first answer.
// There are no custom resources before their CRD, so that a conversion is there from the
// first step on.
func (in *installation) install(w installedWebhook, programs []installer.Program) {
	w.RefusedAtInstall = in.stuck(w, w.backends[0], programs, in.refusedBy(w, admission.Create), func(p installer.Program) (from, until int) {
		if from = p.First(w.configuration); w.Type == inventory.Conversion {
			from = min(from, 0)
		}
		return from, p.Ready(w.backends...)
	})
}

// uninstall finds what cannot be deleted between the end of the backend and that of the
// configuration, and what has finalizers that nothing takes away once its controller is gone.
func (in *installation) uninstall(w installedWebhook, programs []installer.Program) {
	programs = slices.DeleteFunc(slices.Clone(programs), func(p installer.Program) bool { return p.First(w.configuration) < 0 || p.First(w.backends...) < 0 })
	backends := w.backends
	if service := in.find(manifestKey{"Service", w.State.Service.Key}); service >= 0 {
		backends = append([]int{service}, backends...)
	}
	w.RefusedAtUninstall = in.stuck(w, backends[0], programs, in.refusedBy(w, admission.Delete), func(p installer.Program) (from, until int) {
		return p.First(backends...) + 1, p.First(w.configuration)
	})
	finalized := in.refusedBy(w, admission.Update)
	maps.DeleteFunc(finalized, func(n int, _ admission.Match) bool { return len(in.manifests[n].Finalizers) == 0 })
	w.FinalizedAtUninstall = in.stuck(w, w.backends[0], programs, finalized, func(p installer.Program) (from, until int) { return p.First(w.backends...) + 1, len(p.Steps) })
}

// stuck are those of the objects that the programs take in the span of steps, nil for none; a
// span that begins below 0 has none.
func (in *installation) stuck(w installedWebhook, backend int, programs []installer.Program, of map[int]admission.Match, span func(installer.Program) (from, until int)) *Stuck {
	out, certain, namespace := &Stuck{Backend: in.manifests[backend].String()}, false, ""
	for _, p := range programs {
		var names []string
		from, until := span(p)
		for _, s := range p.Steps[max(from, 0):max(from, until, 0)] {
			if match, is := of[s.Object]; is && from >= 0 {
				m := in.manifests[s.Object]
				certain, namespace = certain || match == admission.Yes, cmp.Or(namespace, m.Namespace, in.namespace)
				names = append(names, m.String())
			}
		}
		if len(names) > 0 {
			out.By = append(out.By, p.Name)
		}
		if len(names) > len(out.Names) {
			out.Names = names
		}
	}
	if len(out.Names) == 0 {
		return nil
	}
	if !certain {
		out.Unless = unless(w.Webhook, []string{namespace})
	}
	return out
}
