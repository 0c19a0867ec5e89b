package inventory

import (
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

// maxCompared bounds the names that a missing one is compared with.
const maxCompared = 50

// LikelyService is the Service that a reference to a missing one most likely means: one of
// the namespace with almost its name, else the one of its name in another namespace. It is
// false where there is none, or where several are as likely.
func (s *Snapshot) LikelyService(missing Key) (Key, bool) {
	p := s.place()
	placed := p.services[missing.Namespace]
	if slices.Contains(p.unplaced, missing.Name) || len(placed)+len(p.unplaced) > maxCompared {
		return Key{}, false // the installer adds its own namespace where a file states none
	}
	names := slices.Concat(placed, p.unplaced)
	isNear := func(name string) bool {
		part := isPartOf(missing.Name, name) && !p.called[Key{missing.Namespace, name}]
		return part || isMisspelt(missing.Name, name)
	}
	if name := nearest(missing.Name, slices.DeleteFunc(names, func(name string) bool { return !isNear(name) })); name != "" {
		return Key{missing.Namespace, name}, true
	}
	namespaces := p.byName[missing.Name]
	if len(namespaces) > 1 {
		namespaces = slices.DeleteFunc(slices.Clone(namespaces), func(name string) bool { return !isMisspelt(missing.Namespace, name) })
	}
	if len(namespaces) != 1 {
		return Key{}, false
	}
	return Key{namespaces[0], missing.Name}, true
}

// nearest is the name with the fewest other letters, "" where none or several have.
func nearest(name string, candidates []string) string {
	edits := func(a, b string) int { return text.Edits(name, a) - text.Edits(name, b) }
	slices.SortFunc(candidates, edits)
	candidates = slices.Compact(candidates)
	if len(candidates) == 0 || len(candidates) > 1 && edits(candidates[0], candidates[1]) == 0 {
		return ""
	}
	return candidates[0]
}

// isMisspelt reports whether few letters differ. What differs by a number or a single letter
// between hyphens is the name of another one: hook-a, hook-b, hook-2.
func isMisspelt(name, other string) bool {
	most := 1 + len(name)/8
	if name == other || max(len(name), len(other))-min(len(name), len(other)) > most || text.Edits(name, other) > most {
		return false
	}
	a, b := strings.Split(name, "-"), strings.Split(other, "-")
	for i := range min(len(a), len(b)) {
		if len(a) == len(b) && a[i] != b[i] && (len(a[i]) == 1 && len(b[i]) == 1 || strings.Trim(a[i], digits) == strings.Trim(b[i], digits)) {
			return false
		}
	}
	return len(a) == len(b) || strings.ReplaceAll(name, "-", "") == strings.ReplaceAll(other, "-", "")
}

const digits = "0123456789"

// isPartOf reports whether one name has all the words of the other, in their order: policy and
// policy-webhook. Services for metrics are no webhooks.
func isPartOf(name, other string) bool {
	a, b := strings.Split(name, "-"), strings.Split(other, "-")
	if len(a) > len(b) {
		a, b = b, a
	}
	for _, word := range b {
		switch {
		case len(a) > 0 && word == a[0]:
			a = a[1:]
		case word == "metrics" || word == "monitoring" || strings.Trim(word, digits) == "":
			return false
		}
	}
	return len(a) == 0
}

// maxUnchecked bounds the Services that are named as not checked.
const maxUnchecked = 5

// withUnchecked adds to what files lack the Services that webhooks call, where the files have
// others: of one that nearly is there a finding says so.
func (s *Snapshot) withUnchecked(inputs []Input) []Input {
	if len(inputs) == 0 || len(s.Services) == 0 {
		return inputs
	}
	var lacks []string
	for _, w := range s.Webhooks {
		b := w.Backend
		called := s.State(b).Service.Key
		lack := fmt.Sprintf("no Service %s: whether it answers is unknown", called)
		if _, has := s.Services[called]; has || b.Kind == BackendURL || called.Name == "" || s.ServicesKnown.Has(called) || slices.Contains(lacks, lack) {
			continue
		}
		if _, likely := s.LikelyService(called); !likely && len(lacks) < maxUnchecked {
			lacks = append(lacks, lack)
		}
	}
	out := slices.Clone(inputs)
	for i := range out {
		if out[i].Objects > 0 {
			out[i].Lacks = append(slices.Clip(out[i].Lacks), lacks...)
		}
	}
	return out
}
