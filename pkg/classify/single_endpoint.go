package classify

import (
	"fmt"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var singleEndpoint = &Check{
	Name:     "single-endpoint",
	Summary:  "A webhook that critical resources wait for has a single ready endpoint, or all on one node.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if !p.FailsClosed() || len(p.ByClass[ClassCritical]) == 0 || !p.State.Known ||
			p.State.Fault != inventory.Sound || len(p.Snapshot.Nodes) == 1 {
			return nil
		}
		where := aloneAt(p)
		if where == "" {
			return nil
		}
		return []Problem{{
			Message: fmt.Sprintf("is called for %s%s with failurePolicy Fail, but its Service %s has %s: when that goes, they are refused",
				listed(p.ByClass[ClassCritical]), scopeOf(p, p.ByClass[ClassCritical]), p.State.Service.Key, where),
			Brief: fmt.Sprintf("requests for %s%s need Service %s, which has %s",
				listed(p.ByClass[ClassCritical]), scopeOf(p, p.ByClass[ClassCritical]), p.State.Service.Key, where),
			Fix: fmt.Sprintf("run two replicas on different nodes, with a PodDisruptionBudget of maxUnavailable 1: kubectl scale %s %s --replicas=2%s", ShellFlag("-n", p.State.Service.Namespace), scaled(p), byOwner(p)),
		}}
	},
}

// scaled is the workload behind the webhook whose replicas a user can set.
func scaled(p *Profile) string {
	for _, w := range BehindWebhook(p) {
		if maker := w.Maker(); maker.Kind == "Deployment" || maker.Kind == "StatefulSet" {
			return quoted(strings.ToLower(maker.Kind) + "/" + maker.Name)
		}
	}
	return "deployment/NAME"
}

// aloneAt says where all ready endpoints are if one fault takes them away.
func aloneAt(p *Profile) string {
	if p.State.Ready == 1 {
		return "a single ready endpoint"
	}
	if node := SharedByEndpoints(p, func(e *inventory.Endpoint) string { return e.Node }); node != "" {
		return fmt.Sprintf("all %d ready endpoints on node %s", p.State.Ready, node)
	}
	return ""
}

// SharedByEndpoints returns what all ready endpoints of the webhook's Service have in
// common, "" where they differ, or that of one is not known.
func SharedByEndpoints(p *Profile, domain func(*inventory.Endpoint) string) string {
	shared := ""
	endpoints := p.Snapshot.Services[p.State.Service.Key].Endpoints
	for i := range endpoints {
		e := &endpoints[i]
		if !e.Ready {
			continue
		}
		if domain(e) == "" || shared != "" && domain(e) != shared {
			return ""
		}
		shared = domain(e)
	}
	return shared
}

var evictionBlocked = &Check{
	Name:     "eviction-blocked",
	Summary:  "A PodDisruptionBudget never allows to evict the Pods behind a webhook that refuses requests without them.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if p.Platform || !p.FailsClosed() {
			return nil
		}
		for _, w := range BehindWebhook(p) {
			if guard := p.Snapshot.Guard(w); guard.Blocks() {
				return []Problem{{
					Message: fmt.Sprintf("calls %s, whose Pods are never evicted: %s; a drain of their node, as for an upgrade, waits until it is given up", BackendName(p), BlockedBy(w, guard)),
					Brief:   fmt.Sprintf("drains of its node wait: PodDisruptionBudget %s lets no Pod of %s go", guard.Budgets[0].Key, w),
					Fix:     allowEvictions(w, guard),
				}}
			}
		}
		return nil
	},
}

// BehindWebhook returns the workloads behind the Service that the webhook calls, as
// far as the input has them. No caller may write to the list.
func BehindWebhook(p *Profile) []*inventory.Workload {
	if p.Webhook.Backend.Kind == inventory.BackendURL {
		return nil
	}
	return p.Snapshot.Behind(p.Snapshot.Services[p.State.Service.Key])
}

// BlockedBy says which PodDisruptionBudgets keep the Pods of the workload from being
// evicted, and why.
func BlockedBy(w *inventory.Workload, g inventory.Guard) string {
	first := g.Budgets[0]
	if len(g.Budgets) > 1 {
		return fmt.Sprintf("both PodDisruptionBudgets %s and %s select those of %s, and the API server evicts no Pod that two select", first.Key, g.Budgets[1].Key, w)
	}
	return fmt.Sprintf("PodDisruptionBudget %s (%s) selects %s, %s in all, and lets none go", first.Key, first, w, inventory.Counted(g.Pods, "Pod"))
}

// allowEvictions is the change after which the Pods are evicted one by one.
func allowEvictions(w *inventory.Workload, g inventory.Guard) string {
	budget := g.Budgets[len(g.Budgets)-1]
	if len(g.Budgets) > 1 {
		return "keep one of them: " + changed("delete", "poddisruptionbudget", budget.Key) + changedBy(budget.Owner)
	}
	scale := ""
	if g.Pods == 1 {
		scale = fmt.Sprintf("run two replicas of %s, then ", quoted(w.String()))
	}
	patch := `--type=merge -p '{"spec":{"minAvailable":null,"maxUnavailable":1}}'`
	return scale + "let one Pod go at a time: " + changed("patch", "poddisruptionbudget", budget.Key, patch) + changedBy(budget.Owner)
}
