package classify

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

var evictionBlocked = &Check{
	Name:     "eviction-blocked",
	Summary:  "A PodDisruptionBudget never allows to evict the Pods behind a webhook that refuses requests without them.",
	Severity: Info,
	Find: func(p *Profile) []Problem {
		if p.Platform || !p.FailsClosed() {
			return nil
		}
		for _, w := range BehindWebhook(p) {
			if guard := p.Snapshot.Guard(&w); guard.Blocks() {
				return []Problem{{
					Message: fmt.Sprintf("calls %s, whose Pods are never evicted: %s; a drain of their node, as for an upgrade, waits until it is given up", BackendName(p), BlockedBy(&w, guard)),
					Brief:   fmt.Sprintf("drains of its node wait: PodDisruptionBudget %s lets no Pod of %s go", guard.Budgets[0].Key, &w),
					Fix:     allowEvictions(&w, guard),
				}}
			}
		}
		return nil
	},
}

// BehindWebhook returns the workloads behind the Service that the webhook calls, as
// far as the input has them.
func BehindWebhook(p *Profile) []inventory.Workload {
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
