package classify

import (
	"slices"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Others are other configurations: what messages name of them, for each of
// thousands of webhooks may have thousands.
type Others struct {
	// First are the first by name.
	First []string
	// Total counts them all.
	Total int
}

// String names the first and counts the rest.
func (o Others) String() string {
	return sentence(slices.Clone(o.First), o.Total-len(o.First))
}

// without returns the configurations of a sorted list but the one, each once.
func without(sorted []string, self string) Others {
	o := Others{Total: len(sorted)}
	if _, listed := slices.BinarySearch(sorted, self); listed {
		o.Total--
	}
	for _, name := range sorted[:min(len(sorted), maxListed+1)] {
		if name != self && len(o.First) < maxListed {
			o.First = append(o.First, name)
		}
	}
	return o
}

// findSameNames finds the webhooks that share a name: the API server's own series
// do not distinguish them. It costs a step for each webhook, and sorting.
func findSameNames(w *work, profiles []Profile) {
	count := make(map[inventory.Series]int, len(profiles))
	for i := range profiles {
		count[profiles[i].Series()]++
	}
	registered := map[inventory.Series][]string{}
	for i := range profiles {
		if key := profiles[i].Series(); count[key] > 1 {
			registered[key] = append(registered[key], profiles[i].Configuration)
		}
	}
	again := map[inventory.Series]map[string]bool{} // configurations that register it twice
	for key, all := range registered {
		slices.Sort(all)
		again[key] = repeated(all)
		registered[key] = slices.Compact(all)
	}
	for i := range profiles {
		p := &profiles[i]
		key := p.Series()
		if count[key] < 2 || !w.step() {
			continue
		}
		self := p.Configuration
		if again[key][self] {
			self = "" // it has the name of another webhook in its own configuration
		}
		p.SameName = without(registered[key], self)
	}
}

// repeated returns what occurs twice in a sorted list.
func repeated(sorted []string) map[string]bool {
	out := map[string]bool{}
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			out[sorted[i]] = true
		}
	}
	return out
}
