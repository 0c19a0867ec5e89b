package classify

import (
	"maps"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

type function struct {
	name      string
	resource  inventory.Resource
	operation admission.Operation
	// namespace is "" for cluster-scoped resources, and for any namespace.
	namespace string
	// inNew is the object that is created in each new namespace, where it is about these.
	inNew string
	// user makes the request; nil where it is not one that matchConditions know.
	user *admission.User
}

// allFunctions are functions and what API servers need of the cluster.
func allFunctions() []function {
	var out []function
	for _, w := range admission.ServerWrites {
		if !w.StopsStart() {
			continue
		}
		for _, op := range w.Operations {
			out = append(out, function{"the start of an API server after an upgrade", w.Resource, op, w.Namespace, "", apiServer})
		}
	}
	return slices.Concat(out, functions)
}

// functions are what a cluster does by requests that webhooks may meet. Sources:
// client-go's leaderelection, kubelet, kube-scheduler and the controllers of
// kube-controller-manager.
var functions = []function{
	{"leader election of the scheduler and the controllers", inventory.Resource{Group: "coordination.k8s.io", Name: "leases"}, admission.Update, "kube-system", "", nil},
	{"heartbeats of nodes, which turn NotReady without", inventory.Resource{Group: "coordination.k8s.io", Name: "leases"}, admission.Update, "kube-node-lease", "", nil},
	{"nodes joining the cluster", inventory.Resource{Name: "nodes"}, admission.Create, "", "", nil},
	{"certificates of kubelets, for nodes that join and for rotation", inventory.Resource{Group: "certificates.k8s.io", Name: "certificatesigningrequests"}, admission.Create, "", "", nil},
	{"approval of the certificates of kubelets", inventory.Resource{Group: "certificates.k8s.io", Name: "certificatesigningrequests", Subresource: "approval"}, admission.Update, "", "", nil},
	{"signing of the certificates of kubelets", inventory.Resource{Group: "certificates.k8s.io", Name: "certificatesigningrequests", Subresource: "status"}, admission.Update, "", "", nil},
	{"the status of nodes", inventory.Resource{Name: "nodes", Subresource: "status"}, admission.Update, "", "", nil},
	{"creation of Pods, also those of Deployments, Jobs and nodes", inventory.Resource{Name: "pods"}, admission.Create, "", "", nil},
	{"Pods of new namespaces: they do not start without ConfigMap kube-root-ca.crt", inventory.Resource{Name: "configmaps"}, admission.Create, "", "kube-root-ca.crt", nil},
	{"Pods of new namespaces: they are refused without ServiceAccount default", inventory.Resource{Name: "serviceaccounts"}, admission.Create, "", "default", nil},
	{"rollouts of Deployments", inventory.Resource{Group: "apps", Name: "replicasets"}, admission.Create, "", "", nil},
	{"rollouts of StatefulSets and DaemonSets", inventory.Resource{Group: "apps", Name: "controllerrevisions"}, admission.Create, "", "", nil},
	{"scheduling", inventory.Resource{Name: "pods", Subresource: "binding"}, admission.Create, "", "", nil},
	{"the status of Pods, by which they turn ready", inventory.Resource{Name: "pods", Subresource: "status"}, admission.Update, "", "", nil},
	{"tokens of Pods, without which they do not start", inventory.Resource{Name: "serviceaccounts", Subresource: "token"}, admission.Create, "", "", nil},
	{"new Services: none gets a cluster IP", inventory.Resource{Group: "networking.k8s.io", Name: "ipaddresses"}, admission.Create, "", "", apiServer},
	{"the endpoints of new Services", inventory.Resource{Group: "discovery.k8s.io", Name: "endpointslices"}, admission.Create, "", "", nil},
	{"the endpoints of Services following their Pods", inventory.Resource{Group: "discovery.k8s.io", Name: "endpointslices"}, admission.Update, "", "", nil},
	{"removal of Pods: garbage collection and node drains", inventory.Resource{Name: "pods"}, admission.Delete, "", "", nil},
	{"evictions: node drains", inventory.Resource{Name: "pods", Subresource: "eviction"}, admission.Create, "", "", nil},
	{"deletion of namespaces", inventory.Resource{Name: "namespaces"}, admission.Delete, "", "", nil},
	{"deletion of namespaces: they stay Terminating", inventory.Resource{Name: "namespaces", Subresource: "finalize"}, admission.Update, "", "", nil},
	{"creation of namespaces", inventory.Resource{Name: "namespaces"}, admission.Create, "", "", nil},
	{"quota: usage is not written any more", inventory.Resource{Name: "resourcequotas", Subresource: "status"}, admission.Update, "", "", nil},
	{"installation of CRDs", inventory.Resource{Group: "apiextensions.k8s.io", Name: "customresourcedefinitions"}, admission.Create, "", "", nil},
	{"Events", inventory.Resource{Name: "events"}, admission.Create, "", "", nil},
	{"Events", inventory.Resource{Group: "events.k8s.io", Name: "events"}, admission.Create, "", "", nil},
	{"kubectl exec", inventory.Resource{Name: "pods", Subresource: "exec"}, admission.Connect, "", "", nil},
}

// Functions are the functions of the cluster that need requests for which the webhook is
// called, each with what narrows these. A conversion stops the controllers that read
// everything, where they read another version than is stored.
func (p *Profile) Functions() []string {
	switch {
	case p.Type != inventory.Conversion:
		return stops(p.Matched, func(f function) bool { return f.meets(p.Matcher, p.Webhook) },
			func(m admission.MatchedResource) string { return Scope(p, []admission.MatchedResource{m}) })
	case p.ServesNothing() && p.CRD.Established, // which discovery lists
		p.Matcher.ConversionNeed(p.CRD) == admission.ControllersConvert:
		return withoutReading(p)
	}
	return nil
}

// withoutReading are what controllers of the control plane no longer do, as they cannot read all objects
// in the version that they ask for. Sources: core.go of kube-controller-manager, whose quota
// and deletion of namespaces read what is namespaced, and Run in its garbagecollector.go, which
// waited for all resources until v1.32.
func withoutReading(p *Profile) []string {
	out := []string{"garbage collection of unreadable objects"}
	if v := p.Snapshot.Server; v.Known() && !v.AtLeast(1, 32) {
		out[0] = "garbage collection"
	}
	if p.CRD.Namespaced {
		out = append(out, "deletion of namespaces in the whole cluster", "resource quota")
	}
	return out
}

func (f function) meets(m *admission.Matcher, w *inventory.Webhook) bool {
	v := m.InterceptsSubject(w, f.resource, f.operation, f.subject())
	return v.Match != admission.No && !v.OptIn
}

// subject is the object of the request. What an API server writes by itself has no labels
// but of Kubernetes' own.
func (f function) subject() admission.Subject {
	switch {
	case f.inNew != "":
		return admission.Subject{Namespace: "new-namespace", Name: f.inNew, Labels: admission.Unlabeled}
	case f.user != nil:
		return admission.Subject{Namespace: f.namespace, User: f.user, Labels: admission.Unlabeled}
	}
	return admission.Subject{Namespace: f.namespace}
}

// stops are the functions, each once, that need a request of those covered, each with what
// narrows it. Of a function in whichever namespace, some request may be met.
func stops(covered []admission.MatchedResource, meets func(function) bool,
	scope func(admission.MatchedResource) string,
) []string {
	var out []string
	named := map[string]bool{}
	for _, f := range allFunctions() {
		isOfOne := f.namespace != "" || f.inNew != ""
		for _, m := range covered {
			if m.Resource != f.resource || !m.Operations.Has(f.operation) || named[f.name] ||
				(isOfOne || !m.Namespaced) && !meets(f) {
				continue
			}
			m.Namespaced = m.Namespaced && !isOfOne // no namespaceSelector keeps a part of it
			named[f.name], out = true, append(out, f.name+scope(m))
		}
	}
	return out
}

// RefusedFunctions are the functions of the cluster that need requests which a failure of the
// policy refuses, each with what narrows them.
func (r *Report) RefusedFunctions(p *inventory.AdmissionPolicy) []string {
	refusing := *p
	scope := func(m admission.MatchedResource) string { return r.policyScope(&refusing, m) }
	if r.Matcher.ParamKind(p).Refused { // no binding, action or matchCondition prevents that
		scope = func(m admission.MatchedResource) string {
			return selectedBy(r.Snapshot, &p.MatchResources, []admission.MatchedResource{m})
		}
	} else {
		refusing.Bindings = slices.DeleteFunc(slices.Clone(p.Bindings),
			func(b *inventory.PolicyBinding) bool { return !b.Denies() })
	}
	if !p.FailsClosed() || len(refusing.Bindings) == 0 {
		return nil
	}
	return stops(r.Matcher.PolicyResources(&refusing), func(f function) bool {
		request, err := r.Matcher.OpenRequest(f.operation, f.resource, f.subject())
		return err == nil && slices.ContainsFunc(refusing.Bindings, func(b *inventory.PolicyBinding) bool {
			v := r.Matcher.MatchPolicy(request, &refusing, b)
			return v.Match != admission.No && !v.OptIn
		})
	}, scope)
}

// weigh says of each finding where to look, which alert it raises, and what stops of the cluster, as the webhook fails
// now, and of the Report what that is together.
func (p *Policy) weigh(_ *work, r *Report) {
	profiles := r.ByRef()
	for _, f := range r.Findings {
		f.Look = f.look(profiles[f.Webhook])
		if !f.Acknowledged {
			f.Alert = f.Check.AlertOn(f.Severity, f.Webhook.Type, profiles[f.Webhook].reachesVital())
		}
		failed := f.failed(profiles[f.Webhook])
		if failed == nil {
			continue
		}
		f.Refuses, f.Stops = true, failed.Functions()
		if len(f.Stops) > 0 {
			continue
		}
		for _, m := range failed.Matched {
			resource := Scoped{m.Resource.String(), Scope(failed, []admission.MatchedResource{m})}
			if m.Operations.Has(admission.Create) || m.Operations.Has(admission.Update) {
				f.Writes = append(f.Writes, resource)
			} else {
				f.Deletions = append(f.Deletions, resource)
			}
		}
	}
	r.Stops = StopsOf(r.Findings)
	r.ReleaseNotes = r.releaseNotes()
}

// reachesVital reports whether the webhook is called for what the cluster's stability depends on;
// of a policy, which has no Profile, that is not asked.
func (p *Profile) reachesVital() bool {
	return p != nil && len(p.ByClass[ClassCritical])+len(p.ByClass[ClassVital])+len(p.ByClass[ClassVirtual]) > 0
}

// failed is the Profile with the requests that are refused now; nil where none are.
func (f *Finding) failed(p *Profile) *Profile {
	switch {
	case p == nil || !f.Check.Fails() || !p.FailsClosed():
		return nil
	case f.Check == failingMatchCondition:
		return failing(p)
	}
	return p
}

// StopsOf is what stops now by the critical ones of the findings: functions of the cluster
// first, then writes of resources that no function needs.
func StopsOf(findings []*Finding) []string {
	var functions []string
	var writes, deletions []Scoped
	for _, f := range findings {
		if f.Refuses && !f.Acknowledged && f.Severity == Critical {
			functions = append(functions, f.Stops...)
			writes, deletions = append(writes, f.Writes...), append(deletions, f.Deletions...)
		}
	}
	return slices.Concat(lists.Once(functions), inWords("writes of ", writes), inWords("deletions of ", deletions))
}

// Scoped is a resource, and what narrows its requests.
type Scoped struct{ Resource, Where string }

// inWords are the resources by what narrows their requests: those without a limit first.
func inWords(verb string, all []Scoped) []string {
	resources := map[string][]string{}
	for _, s := range all {
		resources[s.Where] = append(resources[s.Where], s.Resource)
	}
	return lists.Map(slices.Sorted(maps.Keys(resources)),
		func(where string) string { return verb + strings.Join(lists.Distinct(resources[where]), ", ") + where })
}

// failing is the Profile with those requests alone for which a matchCondition always fails,
// which is then no limit.
func failing(p *Profile) *Profile {
	only, webhook := *p, *p.Webhook
	webhook.MatchConditions = nil
	only.Webhook, only.Matched = &webhook, nil
	for _, m := range p.Matched {
		fails := admission.Operations(0)
		for _, f := range p.Matcher.FailingConditions(p.Webhook) {
			if f.Resource == m.Resource {
				fails |= f.Operations
			}
		}
		if m.Operations &= fails; m.Operations != 0 {
			only.Matched = append(only.Matched, m)
		}
	}
	return &only
}
