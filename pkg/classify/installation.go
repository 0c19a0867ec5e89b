package classify

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// installation is an input of manifests, which are applied together. Objects in it are
// indexes of manifests.
type installation struct {
	matcher   *admission.Matcher
	manifests []*inventory.Manifest
	// named are the manifests by kind and name.
	named map[string][]int
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
func findStuck(w *work, r *Report) {
	m := r.Matcher
	inputs := map[string][]*inventory.Manifest{}
	for i := range m.Snapshot.Manifests {
		o := &m.Snapshot.Manifests[i]
		inputs[o.Input] = append(inputs[o.Input], o)
	}
	for _, input := range slices.Sorted(maps.Keys(inputs)) {
		set := &installation{
			matcher: m, manifests: inputs[input], namespace: metav1.NamespaceDefault,
			named: map[string][]int{}, requests: map[admission.Operation][]admission.Request{},
		}
		for i, o := range set.manifests {
			set.named[o.Kind+"/"+o.Name] = append(set.named[o.Kind+"/"+o.Name], i)
		}
		var webhooks []installedWebhook
		for _, p := range r.Profiles {
			if hook := set.webhook(p); len(hook.workloads) > 0 {
				webhooks = append(webhooks, hook)
			}
		}
		if len(webhooks)*len(set.manifests) > maxPairs {
			r.Errors = append(r.Errors, inventory.Error{
				Source: inventory.Source{File: input}, Uncompared: true,
				Message: fmt.Sprintf("install-order: %d webhooks and %d objects are too many to be compared: audit fewer files at a time", len(webhooks), len(set.manifests)),
			})
			continue
		}
		removals := sequences(uninstallers, set.manifests)
		set.orders = map[admission.Operation][]sequence{
			admission.Create: sequences(installers, set.manifests), admission.Delete: removals,
			admission.Update: removals,
		}
		for _, hook := range webhooks {
			if !w.step() {
				break
			}
			// Installers wait for no backend. Nothing takes finalizers away once their controller is gone.
			hook.RefusedAtInstall = set.stuckWebhook(hook, hook.workloads[0], admission.Create,
				span{after: hook.configuration})
			hook.RefusedAtUninstall = set.stuckWebhook(hook, hook.backends[0], admission.Delete,
				span{after: hook.backends, before: hook.configuration})
			hook.FinalizedAtUninstall = set.stuckWebhook(hook, hook.workloads[0], admission.Update,
				span{after: hook.workloads})
		}
	}
}

// find returns the object, none where the input does not hold it.
func (in *installation) find(kind string, key inventory.Key) []int {
	isIn := func(i int) bool {
		namespace := in.manifests[i].Namespace
		return namespace == key.Namespace ||
			namespace == "" && (key.Namespace == in.namespace || key.Namespace == metav1.NamespaceDefault)
	}
	same := in.named[kind+"/"+key.Name]
	if i := slices.IndexFunc(same, isIn); i >= 0 {
		return same[i : i+1]
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

var installOrder = &Check{
	Name:     "install-order",
	Summary:  "A webhook refuses objects that are installed with it, because its backend cannot serve yet.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		o := p.RefusedAtInstall
		if len(o.Names) == 0 {
			return nil
		}
		verb := "refuses"
		if o.Unless != "" {
			verb = "may refuse"
		}
		return []Problem{{
			Severity: warningIf(o.Unless == ""),
			Message:  verb + o.inWords(" what is installed with it before %[2]s can serve%[4]s: %[3]s; fails with %[1]s")[0],
			Fix:      afterBackend(p, o),
		}}
	},
}

// afterBackend has the objects come once the backend is ready.
func afterBackend(p *Profile, o Stuck) string {
	later := fmt.Sprintf("have %s applied once %s is ready: annotated with %s: post-install,post-upgrade (helm install --wait; Argo CD) or in a later %s (Argo CD), or from a file that is applied later",
		JoinBounded(quotedAll(o.Names)), quoted(o.Backend), inventory.AnnotationHelmHook, inventory.AnnotationSyncWave)
	if p.Type == inventory.Conversion {
		return fmt.Sprintf("write it in version %s, which needs no conversion; or %s", quoted(p.CRD.StorageVersion), later)
	}
	return later + "; or let requests pass while there is no answer: " + patch(p, set(p, "failurePolicy", admissionv1.Ignore))
}

// inWords fills in programs, backend, objects and condition; it is nothing where nothing is
// stuck.
func (s Stuck) inWords(format string) []string {
	if len(s.Names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf(format, sentence(s.By, 0), s.Backend, JoinBounded(s.Names), s.Unless)}
}

var uninstallOrder = &Check{
	Name:     "uninstall-order",
	Summary:  "Objects that are uninstalled with a webhook stay: the webhook refuses their deletion, or nothing removes their finalizers.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		refused, finalized := p.RefusedAtUninstall, p.FinalizedAtUninstall
		names := slices.Concat(refused.Names, finalized.Names)
		if len(names) == 0 {
			return nil
		}
		// What stays can be removed before, and by force after that.
		return []Problem{{
			Message: "is uninstalled together with what it is called for: " + strings.Join(slices.Concat(
				refused.inWords("with %[1]s %[2]s goes first, and the deletion of %[3]s is refused%[4]s"),
				finalized.inWords("with %[1]s %[2]s goes before %[3]s, whose finalizers nothing removes then%[4]s"),
			), "; "),
			Brief: slices.Concat(
				refused.inWords("with %[1]s, %[3]s cannot be deleted: %[2]s goes first"),
				finalized.inWords("with %[1]s, the finalizers of %[3]s stay: %[2]s goes first"),
			)[0],
			Fix: fmt.Sprintf("before you uninstall it, delete %s and wait until they are gone, or have a hook of the chart do so (%s: pre-delete); once it is too late, remove the finalizers by hand, after %s",
				JoinBounded(lists.Distinct(quotedAll(names))), inventory.AnnotationHelmHook, DisableCommand(p)),
		}}
	},
}

// installer is a program that applies the objects of an input in an order, or removes them.
type installer struct {
	name string
	// kinds are in the order in which it takes them, before all others.
	kinds []string
	// orderName is the name by which it sorts after that; nil where it takes all in the order of
	// the input.
	orderName func(*inventory.Manifest) string
	// exceptions are the annotations by which an author has it take an object at another time, or
	// not at all: such objects are not compared.
	exceptions []string
}

// The kinds in the order in which versions 3 and 4 of Helm install them, and remove them.
// Helm's own code writes the files: see e2e/helm.
var (
	//go:embed installers/helm-3.txt
	helm3 string
	//go:embed installers/helm-4.txt
	helm4 string
	//go:embed installers/helm-3-removes.txt
	helm3Removes string
	//go:embed installers/helm-4-removes.txt
	helm4Removes string
)

// installers are those that are compared. The list of Argo CD is that of Helm 3 without
// PriorityClass. Source: pkg/sync/sync_tasks.go of github.com/argoproj/gitops-engine.
var installers = []installer{
	{name: "Helm 3", kinds: strings.Fields(helm3), orderName: manifestKind, exceptions: []string{inventory.AnnotationHelmHook}},
	{name: "Helm 4", kinds: strings.Fields(helm4), orderName: manifestKind, exceptions: []string{inventory.AnnotationHelmHook}},
	{name: "kubectl apply"},
	{
		name: "Argo CD", kinds: strings.Fields(strings.Replace(helm3, "PriorityClass", "", 1)), orderName: manifestName,
		exceptions: []string{inventory.AnnotationHelmHook, inventory.AnnotationArgoHook, inventory.AnnotationSyncWave},
	},
}

// uninstallers remove the objects of an input again, one after the other: whatever waits
// for another is gone at once. Helm leaves hooks there, and objects that it is to keep.
// kubectl and Argo CD remove in the order of the command.
var uninstallers = []installer{
	{
		name: "Helm 3", kinds: strings.Fields(helm3Removes), orderName: manifestKind,
		exceptions: []string{inventory.AnnotationHelmHook, inventory.AnnotationHelmPolicy},
	},
	{
		name: "Helm 4", kinds: strings.Fields(helm4Removes), orderName: manifestKind,
		exceptions: []string{inventory.AnnotationHelmHook, inventory.AnnotationHelmPolicy},
	},
}

// sequence is the order in which an installer takes objects, by their indexes in the input.
type sequence struct {
	writer string
	steps  []int
}

func sequences(installers []installer, all []*inventory.Manifest) []sequence {
	var out []sequence
	for _, i := range installers {
		s := sequence{writer: i.name}
		for n, m := range all {
			if !slices.ContainsFunc(i.exceptions, func(key string) bool { return slices.Contains(m.Order, key) }) {
				s.steps = append(s.steps, n)
			}
		}
		if i.orderName != nil {
			slices.SortStableFunc(s.steps, func(a, b int) int { return i.compare(all[a], all[b]) })
		}
		out = append(out, s)
	}
	return out
}

func (i installer) compare(a, b *inventory.Manifest) int {
	rank := func(m *inventory.Manifest) uint { return uint(slices.Index(i.kinds, m.Kind)) } // -1 is the greatest
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(i.orderName(a), i.orderName(b)))
}

func manifestKind(m *inventory.Manifest) string { return m.Kind }
func manifestName(m *inventory.Manifest) string { return m.Name }

// span is a part of each order: after the first of some objects, and before the first of
// others, if any.
type span struct{ after, before []int }

// indexesIn are the objects of the span.
func (s sequence) indexesIn(span span) []int {
	begin, until := s.first(span.after)+1, s.first(span.before)
	if until < 0 {
		until = len(s.steps)
	}
	return s.steps[begin:max(begin, until)]
}

// first is the step of the first of the objects, below 0 where none is compared.
func (s sequence) first(objects []int) int {
	return slices.IndexFunc(s.steps, func(n int) bool { return slices.Contains(objects, n) })
}
