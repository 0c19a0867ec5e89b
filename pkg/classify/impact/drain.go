package impact

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Evicted are the Pods of a workload behind webhooks that leave with nodes.
type Evicted struct {
	Workload  string   `json:"workload" jsonschema:"Workload is what makes the Pods, or a Pod that nothing makes: \"KIND NAMESPACE/NAME\"."`
	Pods      int      `json:"pods" jsonschema:"Pods counts those on the nodes, OfPods all."`
	OfPods    int      `json:"ofPods"`
	BlockedBy string   `json:"blockedBy,omitempty" jsonschema:"BlockedBy says what keeps them from being evicted, so that the drain does not end; absent where nothing does."`
	Risks     []string `json:"risks,omitempty" jsonschema:"Risks say what makes the loss of Pods worse than it has to be."`
}

// evictions returns what leaves with the nodes of the Change, once each, sorted.
func evictions(c Change, r *classify.Report) []Evicted {
	var out []Evicted
	services := map[inventory.Key]bool{}
	for _, p := range r.Profiles {
		key := p.State.Service.Key
		if len(c.Nodes) == 0 {
			break
		}
		if services[key] {
			continue
		}
		services[key] = true
		for _, w := range classify.BehindWebhook(p) {
			guard := r.Snapshot.Guard(w)
			if e := evictedFrom(c.Nodes, w, guard); e.Pods > 0 {
				e.Risks = risks(p, w, guard)
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, func(a, b Evicted) int { return cmp.Compare(a.Workload, b.Workload) })
	return slices.CompactFunc(out, func(a, b Evicted) bool { return a.Workload == b.Workload })
}

// evictedFrom counts the Pods of the workload on the nodes: those that a drain leaves
// alone are not evicted.
func evictedFrom(nodes []string, w *inventory.Workload, guard inventory.Guard) Evicted {
	out := Evicted{Workload: w.String(), OfPods: w.Replicas}
	if w.Daemon || w.Static {
		return out
	}
	for _, node := range w.Nodes {
		if slices.Contains(nodes, node) {
			out.Pods++
		}
	}
	if guard.Blocks() {
		out.BlockedBy = classify.BlockedBy(w, guard)
	}
	return out
}

// drains says of each workload behind the webhook what a drain makes of its Pods.
func drains(p *classify.Profile) []string {
	var out []string
	for _, w := range classify.BehindWebhook(p) {
		if w.Daemon || w.Static || w.Replicas == 0 {
			continue
		}
		guard := p.Snapshot.Guard(w)
		if guard.Blocks() {
			out = append(out, "a drain of a node with its Pods does not end: "+classify.BlockedBy(w, guard))
		}
		for _, risk := range risks(p, w, guard) {
			if !slices.Contains(out, risk) { // of the Service, as it is of each of its workloads
				out = append(out, risk)
			}
		}
	}
	return out
}

// risks say what takes all Pods of a workload behind the webhook away at once, and what
// makes calls fail while one comes or goes.
func risks(p *classify.Profile, w *inventory.Workload, guard inventory.Guard) []string {
	var out []string
	switch {
	case guard.Blocks() || allowedOf(w, guard) < w.Replicas:
	case w.Replicas == 1:
		out = append(out, fmt.Sprintf("%s has no other replica", w))
	default:
		out = append(out, fmt.Sprintf("drains may take away all %d Pods of %s at a time: %s", w.Replicas, w, unguarded(guard)))
	}
	nodes := slices.Compact(slices.Sorted(slices.Values(w.Nodes)))
	if len(nodes) == 1 && len(w.Nodes) > 1 && len(p.Snapshot.Nodes) != 1 {
		out = append(out, fmt.Sprintf("all %d Pods of %s are on node %s", len(w.Nodes), w, nodes[0]))
	} else if zone := classify.SharedByEndpoints(p, func(e *inventory.Endpoint) string { return e.Zone }); zone != "" &&
		p.State.Ready > 1 {
		out = append(out, fmt.Sprintf("all %d ready endpoints of Service %s are in zone %s", p.State.Ready, p.State.Service.Key, zone))
	}
	if w.NoReadiness {
		out = append(out, fmt.Sprintf("no container of %s has a readinessProbe: a new Pod is called before it can answer", w))
	}
	if w.NoPreStop {
		out = append(out, fmt.Sprintf("no container of %s has a preStop hook: unless its process waits by itself, a Pod that leaves is called after it has stopped", w))
	}
	return out
}

// allowedOf counts the Pods of the workload that may be evicted at a time.
func allowedOf(w *inventory.Workload, g inventory.Guard) int {
	if len(g.Budgets) == 0 {
		return w.Replicas
	}
	return min(g.Budgets[0].Allowed(g.Pods), w.Replicas)
}

func unguarded(g inventory.Guard) string {
	if len(g.Budgets) == 0 {
		return "no PodDisruptionBudget of the input selects them"
	}
	return fmt.Sprintf("PodDisruptionBudget %s (%s) lets them go", g.Budgets[0].Key, g.Budgets[0])
}

// AskedOfEviction is a webhook or policy that the evictions of a drain meet, or the deletions that
// kubelets make then, and that may refuse them.
type AskedOfEviction struct {
	inventory.Ref
	Deletion bool     `json:"deletion,omitempty" jsonschema:"Deletion says that it is asked about the deletion of the Pods, which the kubelet makes once they have ended."`
	Pods     []string `json:"pods" jsonschema:"Pods are some of those on the nodes whose eviction it is asked about, OfPods counts all."`
	OfPods   int      `json:"ofPods"`
	Maybe    bool     `json:"maybe,omitempty" jsonschema:"Maybe says that selectors or conditions decide whether it is asked."`
	WhenDown string   `json:"whenDown,omitempty" jsonschema:"WhenDown says what becomes of evictions while a webhook cannot be called."`
}

// maxAsked bounds the Pods that are named.
const maxAsked = 3

// String is it in words, with what kubectl drain prints. An eviction carries the name of
// its Pod and none of its labels. Source: k8s.io/kubectl pkg/drain, which tries again after
// 429 alone.
func (a AskedOfEviction) String() string {
	asks, denied := "is asked", fmt.Sprintf(`admission webhook %q denied the request`, a.Name)
	if a.Maybe {
		asks = "may be asked"
	}
	if a.Type.IsPolicy() {
		denied = fmt.Sprintf("ValidatingAdmissionPolicy '%s' … denied request", a.Name)
	}
	namespace, name, _ := strings.Cut(a.Pods[0], "/")
	pods := some(a.Pods)
	if more := a.OfPods - len(a.Pods); more > 0 {
		pods += fmt.Sprintf(" and %d more", more)
	}
	if a.Deletion {
		return fmt.Sprintf("%s %s about the deletion of %s, which the kubelet makes once it has ended; a refusal leaves it Terminating, and kubectl drain waits for it",
			Named(a.Ref), asks, pods)
	}
	out := fmt.Sprintf("%s %s about the eviction of %s; a refusal ends kubectl drain with `error when evicting pods/%q -n %q: %s`, which tries again after 429 alone",
		Named(a.Ref), asks, pods, name, namespace, denied)
	if a.WhenDown != "" {
		out += "; while it cannot be called, " + a.WhenDown
	}
	return out
}

// maxNamed bounds the Pods of whose names the chain is asked.
const maxNamed = 100

// askedOfEvictions are those that the evictions of the Change's nodes meet, in the order of
// the Snapshot. Pods of one namespace meet the same: an eviction has no labels.
func askedOfEvictions(c Change, r *classify.Report) []AskedOfEviction {
	pods := map[inventory.Key][]string{} // by namespace, and by name where that of the Pod is known
	labels := map[inventory.Key]map[string]string{}
	for i := range r.Snapshot.Workloads {
		w := &r.Snapshot.Workloads[i]
		leaves := slices.ContainsFunc(w.Nodes, func(node string) bool { return slices.Contains(c.Nodes, node) })
		if leaves && !w.Daemon && !w.Static {
			key := inventory.Key{Namespace: w.Namespace}
			if w.Kind == "Pod" && len(pods) < maxNamed {
				key = w.Key
				labels[key] = w.PodLabels
			}
			pods[key] = append(pods[key], w.Key.String())
		}
	}
	out := []AskedOfEviction{}
	add := func(one AskedOfEviction, match admission.Match, key inventory.Key) {
		i := slices.IndexFunc(out,
			func(a AskedOfEviction) bool { return a.Ref == one.Ref && a.Deletion == one.Deletion })
		if i < 0 {
			i, out = len(out), append(out, one)
			out[i].Maybe = true
		}
		a := &out[i]
		a.Maybe = a.Maybe && match == admission.Maybe
		a.OfPods += len(pods[key])
		for _, name := range pods[key] {
			if len(a.Pods) < maxAsked {
				a.Pods = append(a.Pods, name)
			}
		}
	}
	ask := func(op admission.Operation, subresource string, subject admission.Subject) {
		key := inventory.Key{Namespace: subject.Namespace, Name: subject.Name}
		request, err := r.Matcher.OpenRequest(op, inventory.Resource{Name: "pods", Subresource: subresource}, subject)
		if err != nil { // not served
			return
		}
		chain, deletes := r.Matcher.Chain(request), op == admission.Delete
		for _, s := range chain.Policies {
			if s.Policy.Type == inventory.ValidatingPolicy && s.Policy.Denies() {
				add(AskedOfEviction{Ref: s.Policy.Ref, Deletion: deletes}, s.Match, key)
			}
		}
		for _, s := range chain.Steps {
			down := "evictions pass (failurePolicy Ignore)"
			if s.Webhook.FailsClosed() {
				down = "evictions are refused (failurePolicy Fail)"
			}
			if deletes {
				down = ""
			}
			add(AskedOfEviction{Ref: s.Webhook.Ref, Deletion: deletes, WhenDown: down}, s.Match, key)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(pods), inventory.Key.Compare) {
		subject := admission.Subject{Namespace: key.Namespace, Name: key.Name, Labels: admission.Unlabeled}
		ask(admission.Create, "eviction", subject)
		subject.Labels = labels[key]
		ask(admission.Delete, "", subject)
	}
	return out
}
