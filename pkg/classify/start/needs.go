package start

import (
	"cmp"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Need says that the Pods of some workloads are not created unless those of others run.
// No webhook distinguishes workloads that stand together.
type Need struct {
	// From and To are the names of the workloads or Services, sorted.
	From, To []string
	// Webhooks are those that refuse the Pods of From, sorted; none where every Pod
	// needs what To does, and Use says for what.
	Webhooks []inventory.Ref
	Use      string
	// What completes "refuses … FROM".
	What string
	// Certain is false where labels that are not known may exempt From.
	Certain bool
	// Cycle says that they need each other.
	Cycle bool
}

// Needs are all between webhooks and what serves them, those of cycles first.
func (g *Graph) Needs() []Need {
	if g.ended {
		return nil
	}
	cycle := g.components(func(refusal) bool { return true })
	needs, related := map[[2]int]*Need{}, map[int]bool{}
	add := func(r refusal, m member) {
		key := [2]int{r.class, m.own.class}
		n := needs[key]
		if n == nil {
			n = &Need{From: g.names(r.class), To: g.names(m.own.class)}
			needs[key] = n
		}
		n.add(m, r)
		n.Cycle = n.Cycle || cycle[r.class] == cycle[len(g.classes)+r.webhooks] && cycle[r.class] == cycle[m.own.class]
		related[r.class], related[m.own.class] = true, true
	}
	for i, class := range g.blocking {
		for _, r := range class.refuses {
			for _, m := range class.members {
				// What every Pod needs is of interest among what webhooks are needed for.
				if i < g.everyPod() || related[r.class] && r.class != m.own.class && len(g.classes[m.own.class].refused) > 0 {
					add(r, m)
				}
			}
		}
	}
	var out []Need
	for _, n := range needs {
		slices.SortFunc(n.Webhooks, inventory.Ref.Compare)
		out = append(out, *n)
	}
	first := map[bool]int{true: -1}
	slices.SortFunc(out, func(a, b Need) int {
		return cmp.Or(cmp.Compare(first[a.Cycle], first[b.Cycle]), slices.Compare(a.From, b.From), slices.Compare(a.To, b.To))
	})
	return out
}

func (g *Graph) names(class int) []string {
	var out []string
	for _, c := range g.classes[class].components {
		out = append(out, c.name)
	}
	return text.Distinct(out)
}

// add adds the webhook, or what every Pod needs.
func (n *Need) add(m member, r refusal) {
	if m.webhook == nil {
		n.Use, n.Certain = m.own.use, true
		return
	}
	n.Webhooks = append(n.Webhooks, m.webhook.Ref)
	if r.certain || n.What == "" {
		n.What = what[r.resource]
	}
	n.Certain = n.Certain || r.certain
}
