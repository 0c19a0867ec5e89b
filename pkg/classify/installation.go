package classify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// installation is an input of manifests, which are applied together. Objects in it are
// indexes of manifests.
type installation struct {
	matcher   *admission.Matcher
	manifests []*inventory.Manifest
	// namespace is that of objects whose manifests state none.
	namespace string
	// orders are those in which programs do the operation.
	orders map[admission.Operation][]sequence
	// requests are those that write the objects, by operation.
	requests map[admission.Operation][]admission.Request
}

// installedWebhook is one that cannot answer before the workloads behind it run, which are
// installed with it. Its backends are these, and before them the Service if that is, too.
type installedWebhook struct {
	*Profile
	configuration, workloads, backends []int
}

// Stuck are objects of one input that a webhook of it refuses, with some programs, to let
// come before its backend, or go after it.
type Stuck struct {
	Backend string
	// Names are those of the program with which most are; none where nothing is stuck.
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
	inputs := map[string][]*inventory.Manifest{}
	for i := range m.Snapshot.Manifests {
		o := &m.Snapshot.Manifests[i]
		inputs[o.Input] = append(inputs[o.Input], o)
	}
	for _, input := range slices.Sorted(maps.Keys(inputs)) {
		in := &installation{
			matcher: m, manifests: inputs[input], namespace: metav1.NamespaceDefault,
			requests: map[admission.Operation][]admission.Request{},
		}
		var webhooks []installedWebhook
		for _, p := range profiles {
			if hook := in.webhook(p); len(hook.workloads) > 0 {
				webhooks = append(webhooks, hook)
			}
		}
		if len(webhooks)*len(in.manifests) > maxPairs {
			errs = append(errs, inventory.Error{
				Source:  inventory.Source{File: input},
				Message: fmt.Sprintf("install-order: %d webhooks and %d objects are too many to be compared: audit fewer files at a time", len(webhooks), len(in.manifests)),
			})
			continue
		}
		removals := sequences(uninstallers, in.manifests)
		in.orders = map[admission.Operation][]sequence{
			admission.Create: sequences(installers, in.manifests), admission.Delete: removals,
			admission.Update: removals,
		}
		for _, hook := range webhooks {
			if !w.step() {
				break
			}
			// Installers wait for no backend. Nothing takes finalizers away once their controller is gone.
			hook.RefusedAtInstall = in.stuckWebhook(hook, hook.workloads[0], admission.Create,
				span{after: hook.configuration})
			hook.RefusedAtUninstall = in.stuckWebhook(hook, hook.backends[0], admission.Delete,
				span{after: hook.backends, before: hook.configuration})
			hook.FinalizedAtUninstall = in.stuckWebhook(hook, hook.workloads[0], admission.Update,
				span{after: hook.workloads})
		}
	}
	return errs
}

// find returns the object, none where the input does not hold it.
func (in *installation) find(kind string, key inventory.Key) []int {
	for i, m := range in.manifests {
		if m.Kind == kind && m.Name == key.Name && (m.Namespace == key.Namespace ||
			m.Namespace == "" && (key.Namespace == in.namespace || key.Namespace == metav1.NamespaceDefault)) {
			return []int{i}
		}
	}
	return nil
}

// webhook is one that refuses requests without its workloads, of which there are none where
// the input does not hold them or the configuration. One that names a Service whose
// manifest states no namespace shows that of the installation.
func (in *installation) webhook(p *Profile) installedWebhook {
	hook := installedWebhook{Profile: p, configuration: in.find(p.Object.Kind, inventory.Key{Name: p.Configuration})}
	if hook.configuration == nil || p.Platform || !p.FailsClosed() || p.State.Service.Name == "" {
		return hook
	}
	key := p.State.Service.Key
	service, ok := in.matcher.Snapshot.Services[key]
	if !ok && in.find("Service", inventory.Key{Name: key.Name}) != nil {
		in.namespace = key.Namespace
		service = in.matcher.Snapshot.Services[inventory.Key{Namespace: metav1.NamespaceDefault, Name: key.Name}]
	}
	for _, workload := range in.matcher.Snapshot.Behind(service) {
		if !workload.Static {
			hook.workloads = append(hook.workloads, in.find(workload.Kind, workload.Key)...)
		}
	}
	hook.backends = slices.Concat(in.find("Service", key), hook.workloads)
	return hook
}

// stuckWebhook are the objects in the span of which the webhook refuses the operation without its
// backend. Where an author has ordered the configuration or the backend, nothing is known.
func (in *installation) stuckWebhook(w installedWebhook, backend int, op admission.Operation, span span) Stuck {
	out, certain, namespace := Stuck{Backend: in.manifests[backend].String()}, false, ""
	refused := in.refusedBy(w, op)
	for _, s := range in.orders[op] {
		if s.first(w.configuration) < 0 || s.first(w.workloads) < 0 {
			continue
		}
		var names []string
		for _, n := range s.indexesIn(span) {
			if match, is := refused[n]; is {
				m := in.manifests[n]
				certain, namespace = certain || match == admission.Yes, cmp.Or(namespace, m.Namespace, in.namespace)
				names = append(names, m.String())
			}
		}
		if len(names) > 0 {
			out.By = append(out.By, s.writer)
		}
		if len(names) > len(out.Names) {
			out.Names = names
		}
	}
	if len(out.Names) > 0 && !certain {
		out.Unless = unless(w.Webhook, []string{namespace})
	}
	return out
}

// refusedBy are the objects of which the webhook refuses the operation without its
// backend: maybe where labels of the namespace could exempt them that are unknown. A
// custom resource that is written as it is stored needs no conversion, and only one with
// finalizers an update that takes them away.
func (in *installation) refusedBy(w installedWebhook, op admission.Operation) map[int]admission.Match {
	if in.requests[op] == nil {
		for _, m := range in.manifests {
			in.requests[op] = append(in.requests[op], in.matcher.Writing(op, m, in.namespace))
		}
	}
	out := map[int]admission.Match{}
	for n, r := range in.requests[op] {
		v := r.Match(w.Webhook)
		switch {
		case op == admission.Update && len(in.manifests[n].Finalizers) == 0:
		case w.Type == inventory.Conversion && r.Resource == w.CRD.Resource && r.Version != w.CRD.StorageVersion:
			out[n] = admission.Yes
		case v.Match == admission.Yes || v.Presumed():
			out[n] = v.Match
		}
	}
	return out
}
