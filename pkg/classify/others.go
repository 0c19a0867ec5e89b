package classify

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Others are other configurations: what messages name of them, for each of
// thousands of webhooks may have thousands.
type Others struct {
	// First are the first by name.
	First []string
	// Total counts them all, or at least so many where AtLeast says so.
	Total   int
	AtLeast bool
}

// String names the first and counts the rest.
func (o Others) String() string {
	names, more := slices.Clip(o.First), o.Total-len(o.First)
	if o.AtLeast && more > 0 {
		return sentence(append(names, fmt.Sprintf("at least %d more", more)), 0)
	}
	return sentence(names, more)
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

// findReinvoked finds the mutating webhooks of different configurations that
// are called a second time for the same resource. Those of one configuration
// have one author, who knows. Webhooks that match the same resources are one
// class; it costs a step for each resource that a class matches, and for each
// configuration in each set of them that differs.
func findReinvoked(w *work, profiles []Profile) {
	classes, places := reinvokedClasses(w, profiles)
	byResource := map[inventory.Resource][]int{}
	for i, c := range classes {
		for _, r := range c.reached {
			if !w.step() {
				return
			}
			byResource[r.Resource] = append(byResource[r.Resource], i)
		}
	}
	sets := configurationSets{work: w, classes: classes, known: map[string]int{}}
	together := map[inventory.Resource]int{}
	for r, members := range byResource {
		together[r] = sets.of(members)
	}
	for i := range profiles {
		if c := places[i]; c != nil && w.step() {
			profiles[i].Reinvoked = c.others(together, sets.all, profiles[i].Configuration)
		}
	}
}

// reinvokedClass are the reinvocable webhooks that match the same resources.
type reinvokedClass struct {
	reached        []admission.MatchedResource
	configurations []string
	// union is filled in with the first of them that asks.
	union *Others
	first []string
}

// isReinvoked reports whether the webhook is called again for some resource.
func isReinvoked(f *Facts) bool { return reinvocable(f.Webhook) && len(f.Matched) > 0 }

func reinvokedClasses(w *work, profiles []Profile) ([]*reinvokedClass, map[int]*reinvokedClass) {
	known := map[*admission.MatchedResource]*reinvokedClass{}
	places := map[int]*reinvokedClass{}
	var out []*reinvokedClass
	for i := range profiles {
		p := &profiles[i]
		if !isReinvoked(p.Facts) || !w.step() {
			continue
		}
		c := known[&p.Matched[0]]
		if c == nil {
			c = &reinvokedClass{reached: p.Matched}
			known[&p.Matched[0]] = c
			out = append(out, c)
		}
		c.configurations = append(c.configurations, p.Configuration)
		places[i] = c
	}
	return out, places
}

// configurationSets are the sets of configurations that are called again for a
// resource, each that differs once.
type configurationSets struct {
	work    *work
	classes []*reinvokedClass
	known   map[string]int
	all     [][]string
}

// of returns the place of the set that the classes make.
func (s *configurationSets) of(classes []int) int {
	var key []byte
	for _, c := range classes {
		key = binary.AppendUvarint(key, uint64(c))
	}
	place, known := s.known[string(key)]
	if known {
		return place
	}
	var set []string
	for _, c := range classes {
		for _, name := range s.classes[c].configurations {
			if !s.work.step() {
				break
			}
			set = append(set, name)
		}
	}
	slices.Sort(set)
	place = len(s.all)
	s.known[string(key)] = place
	s.all = append(s.all, slices.Compact(set))
	return place
}

// others are the configurations beside one that are called again for a resource
// that the class matches. Where several sets of them are long, they are counted
// by the longest.
func (c *reinvokedClass) others(together map[inventory.Resource]int, sets [][]string, self string) Others {
	if c.union == nil {
		c.union = &Others{}
		c.join(together, sets)
	}
	o := Others{Total: c.union.Total - 1, AtLeast: c.union.AtLeast} // but itself
	for _, name := range c.first {
		if name != self && len(o.First) < maxListed {
			o.First = append(o.First, name)
		}
	}
	return o
}

// join unites the sets of the class's resources, which all hold the class.
func (c *reinvokedClass) join(together map[inventory.Resource]int, sets [][]string) {
	seen := map[int]bool{}
	complete := true
	for _, r := range c.reached {
		place := together[r.Resource]
		if seen[place] {
			continue
		}
		seen[place] = true
		set := sets[place]
		c.first = append(c.first, set[:min(len(set), maxListed+1)]...)
		c.union.Total = max(c.union.Total, len(set))
		complete = complete && len(set) <= maxListed+1
	}
	c.first = text.Distinct(c.first)
	if complete {
		c.union.Total = len(c.first)
	}
	c.first = c.first[:min(len(c.first), maxListed+1)]
	c.union.AtLeast = !complete && len(seen) > 1
}
