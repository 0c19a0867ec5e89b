package classify

import (
	"cmp"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// installation is an input of manifests, which are applied together. Objects in it are
// indexes of manifests.
type installation struct {
	matcher   *admission.Matcher
	manifests []*inventory.Manifest
	// at are the objects by kind and name.
	at map[[2]string][]int
	// namespace is that of objects whose manifests state none.
	namespace string
	// requests are those that write the objects, by operation.
	requests map[admission.Operation][]admission.Request
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
func findStuck(w *work, m *admission.Matcher, profiles []*Profile) (errs []inventory.Error) {
	for _, in := range installations(m) {
		var webhooks []installedWebhook
		for _, p := range profiles {
			if hook := in.webhook(p); len(hook.backends) > 0 {
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
		installs, uninstalls := sequences(installers, in.manifests), sequences(uninstallers, in.manifests)
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
			in = &installation{matcher: m, namespace: metav1.NamespaceDefault, at: map[[2]string][]int{}, requests: map[admission.Operation][]admission.Request{}}
			byInput[o.Input], all = in, append(all, in)
		}
		key := [2]string{o.Kind, o.Name}
		in.at[key] = append(in.at[key], len(in.manifests))
		in.manifests = append(in.manifests, o)
	}
	return all
}

// find returns the object, below 0 for none.
func (in *installation) find(kind string, key inventory.Key) int {
	for _, i := range in.at[[2]string{kind, key.Name}] {
		stated := in.manifests[i].Namespace
		if stated == key.Namespace || stated == "" && (key.Namespace == in.namespace || key.Namespace == metav1.NamespaceDefault) {
			return i
		}
	}
	return -1
}

// webhook is one that refuses requests without its backends, of which there are none where
// the input does not hold them or the configuration. One that names a Service whose
// manifest states no namespace shows that of the installation.
func (in *installation) webhook(p *Profile) installedWebhook {
	hook := installedWebhook{Profile: p, configuration: in.find(p.Object.Kind, inventory.Key{Name: p.Configuration})}
	if hook.configuration < 0 || !p.FailsClosed() || p.State.Service.Name == "" {
		return hook
	}
	key := p.State.Service.Key
	service, known := in.matcher.Snapshot.Services[key]
	if !known && in.find("Service", inventory.Key{Name: key.Name}) >= 0 {
		in.namespace = key.Namespace
		service = in.matcher.Snapshot.Services[inventory.Key{Namespace: metav1.NamespaceDefault, Name: key.Name}]
	}
	for _, workload := range in.matcher.Snapshot.Behind(service) {
		if i := in.find(workload.Kind, workload.Key); i >= 0 && !workload.Static {
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

// install finds what the webhook refuses from its registration on: installers wait for no
// backend. There are no custom resources before their CRD, so that a conversion is there
// from the first step on.
func (in *installation) install(w installedWebhook, all []sequence) {
	w.RefusedAtInstall = in.stuck(w, w.backends[0], all, in.refusedBy(w, admission.Create), func(s sequence) (from, until int) {
		if w.Type == inventory.Conversion {
			return 0, len(s.steps)
		}
		return s.first(w.configuration), len(s.steps)
	})
}

// uninstall finds what cannot be deleted between the end of the backend and that of the
// configuration, and what has finalizers that nothing takes away once its controller is gone.
func (in *installation) uninstall(w installedWebhook, all []sequence) {
	backends := w.backends
	if service := in.find("Service", w.State.Service.Key); service >= 0 {
		backends = append([]int{service}, backends...)
	}
	w.RefusedAtUninstall = in.stuck(w, backends[0], all, in.refusedBy(w, admission.Delete), func(s sequence) (from, until int) {
		return s.first(backends...) + 1, s.first(w.configuration)
	})
	finalized := in.refusedBy(w, admission.Update)
	maps.DeleteFunc(finalized, func(n int, _ admission.Match) bool { return len(in.manifests[n].Finalizers) == 0 })
	w.FinalizedAtUninstall = in.stuck(w, w.backends[0], all, finalized, func(s sequence) (from, until int) { return s.first(w.backends...) + 1, len(s.steps) })
}

// stuck are those of the objects that come in the span of steps, nil for none. Where an
// author has ordered the configuration or the backend, nothing is known.
func (in *installation) stuck(w installedWebhook, backend int, all []sequence, of map[int]admission.Match, span func(sequence) (from, until int)) *Stuck {
	out, certain, namespace := &Stuck{Backend: in.manifests[backend].String()}, false, ""
	for _, s := range all {
		if s.first(w.configuration) < 0 || s.first(w.backends...) < 0 {
			continue
		}
		var names []string
		from, until := span(s)
		for _, n := range s.steps[from:max(from, until)] {
			if match, is := of[n]; is {
				m := in.manifests[n]
				certain, namespace = certain || match == admission.Yes, cmp.Or(namespace, m.Namespace, in.namespace)
				names = append(names, m.String())
			}
		}
		if len(names) > 0 {
			out.By = append(out.By, s.by)
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
