package impact

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// BudgetChange is requests for critical resources whose webhooks can hold them up
// longer, or less long, than before, in the namespace where that is worst.
type BudgetChange struct {
	Requests      []ResourceOperations `json:"requests"`
	BeforeSeconds float64              `json:"beforeSeconds"`
	AfterSeconds  float64              `json:"afterSeconds"`
}

// budgetChanges compares the costs of two Reports: what takes most time more first.
func budgetChanges(before, after *classify.Report) []BudgetChange {
	type request struct {
		inventory.Resource
		admission.Operation
	}
	was := map[request]time.Duration{}
	for _, c := range before.Costs {
		was[request{c.Resource, c.Operation}] = c.Total()
	}
	var out []BudgetChange
	for _, c := range after.Costs {
		b := BudgetChange{
			BeforeSeconds: was[request{c.Resource, c.Operation}].Seconds(), AfterSeconds: c.Total().Seconds(),
		}
		if b.BeforeSeconds == b.AfterSeconds {
			continue
		}
		i := slices.IndexFunc(out, func(o BudgetChange) bool {
			return o.BeforeSeconds == b.BeforeSeconds && o.AfterSeconds == b.AfterSeconds
		})
		if i < 0 {
			i, out = len(out), append(out, b)
		}
		out[i].add(c.Resource, c.Operation)
	}
	slices.SortStableFunc(out, func(a, b BudgetChange) int {
		return cmp.Or(cmp.Compare(b.AfterSeconds-b.BeforeSeconds, a.AfterSeconds-a.BeforeSeconds),
			cmp.Compare(b.AfterSeconds, a.AfterSeconds))
	})
	return out
}

// add adds a request; those for a resource come one after the other.
func (b *BudgetChange) add(r inventory.Resource, o admission.Operation) {
	if last := len(b.Requests) - 1; last >= 0 && b.Requests[last].Resource == r {
		b.Requests[last].Operations = append(b.Requests[last].Operations, o)
		return
	}
	b.Requests = append(b.Requests, ResourceOperations{r, []admission.Operation{o}})
}

// String says by how much the worst case changes.
func (b BudgetChange) String() string {
	verb := "grows"
	if b.AfterSeconds < b.BeforeSeconds {
		verb = "falls"
	}
	return fmt.Sprintf("the worst case of %s %s from %s to %s", resourcesText(b.Requests), verb, seconds(b.BeforeSeconds), seconds(b.AfterSeconds))
}

func seconds(s float64) string { return text.Seconds(time.Duration(s * float64(time.Second))) }
