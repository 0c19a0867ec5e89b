package inventory

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	operators "k8s.io/apimachinery/pkg/selection"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
)

// placement is what is in each namespace, for questions that thousands of
// webhooks lead to. It is made when the first of them is asked.
type placement struct {
	once sync.Once
	// services are the names of those of each namespace, and unplaced those of files that
	// state no namespace; called are those that webhooks call.
	services map[string][]string
	unplaced []string
	called   map[Key]bool
	// byName are the namespaces of the Services of each name, sorted.
	byName map[string][]string
	// workloads are those of each namespace, and carrying those that carry a label.
	workloads map[string][]*Workload
	carrying  map[placedLabel][]*Workload
	// ofServices are those behind the Services that were asked for, a []*Workload by Key.
	ofServices sync.Map

	guards    func() map[workloadID]Guard
	isolating func() map[workloadID][]*NetworkPolicy
}

type placedLabel struct{ namespace, key, value string }

// place makes the index. It costs the labels of the workloads.
func (s *Snapshot) place() *placement {
	p := s.placement
	if p == nil { // a Snapshot that was not made of Objects
		p = &placement{}
	}
	p.once.Do(func() {
		p.guards, p.isolating = sync.OnceValue(s.findGuards), sync.OnceValue(s.findIsolating)
		p.services, p.byName, p.called = map[string][]string{}, map[string][]string{}, map[Key]bool{}
		p.workloads, p.carrying = map[string][]*Workload{}, map[placedLabel][]*Workload{}
		for key := range s.Services {
			p.services[key.Namespace] = append(p.services[key.Namespace], key.Name)
			p.byName[key.Name] = append(p.byName[key.Name], key.Namespace)
		}
		for _, namespaces := range p.byName {
			slices.Sort(namespaces)
		}
		for _, m := range s.Manifests {
			if m.Kind == "Service" && m.Group == "" && m.Namespace == "" {
				p.unplaced = append(p.unplaced, m.Name)
			}
		}
		for i := range s.Webhooks {
			p.called[s.Webhooks[i].Backend.Service.Key] = true
		}
		for i := range s.Workloads {
			w := &s.Workloads[i]
			p.workloads[w.Namespace] = append(p.workloads[w.Namespace], w)
			for key, value := range w.PodLabels {
				l := placedLabel{w.Namespace, key, value}
				p.carrying[l] = append(p.carrying[l], w)
			}
		}
	})
	return p
}

func (s *Snapshot) HasServiceIn(namespace string) bool { return len(s.place().services[namespace]) > 0 }

func (s *Snapshot) NamespacesOfService(name string) []string { return s.place().byName[name] }

// Unplaced reports whether a file has a Service of the name without a namespace, to which the
// installer adds its own.
func (s *Snapshot) Unplaced(name string) bool { return slices.Contains(s.place().unplaced, name) }

// Behind returns the workloads whose Pods a Service of the Snapshot sends calls
// to. A Service without a selector has none that could be known. It is found once, so
// that no caller may write to the list.
func (s *Snapshot) Behind(service Service) []*Workload {
	if len(service.Selector) == 0 {
		return nil
	}
	p := s.place()
	if found, isKnown := p.ofServices.Load(service.Key); isKnown {
		return found.([]*Workload)
	}
	selector := labels.SelectorFromSet(service.Selector)
	out := lists.Filter(p.candidates(service.Namespace, selector),
		func(w *Workload) bool { return selector.Matches(labels.Set(w.PodLabels)) })
	p.ofServices.Store(service.Key, out)
	return out
}

// candidates are the workloads with the rarest of the labels that the selector wants.
func (p *placement) candidates(namespace string, selector labels.Selector) []*Workload {
	requirements, selectable := selector.Requirements()
	if !selectable {
		return nil
	}
	out := p.workloads[namespace]
	for _, r := range requirements {
		if values := r.ValuesUnsorted(); len(values) == 1 &&
			(r.Operator() == operators.In || r.Operator() == operators.Equals) {
			if carrying := p.carrying[placedLabel{namespace, r.Key(), values[0]}]; len(carrying) < len(out) {
				out = carrying
			}
		}
	}
	return out
}

type selection struct {
	*placement
	// left is how many more workloads are compared with selectors in each namespace.
	left map[string]int
}

// comparisons is how many selectors, on average, are compared with each workload of
// a namespace. Where more overlap, what is left of them counts as selecting none:
// the cost must not grow with the square of what a namespace holds.
const comparisons = 100

func (p *placement) newSelection() selection {
	left := make(map[string]int, len(p.workloads))
	for namespace, workloads := range p.workloads {
		left[namespace] = comparisons * len(workloads)
	}
	return selection{p, left}
}

func (s selection) workloadsIn(namespace string, selector labels.Selector) []*Workload {
	candidates := s.candidates(namespace, selector)
	if s.left[namespace] -= len(candidates); s.left[namespace] < 0 {
		return nil
	}
	return lists.Filter(candidates, func(w *Workload) bool { return selector.Matches(labels.Set(w.PodLabels)) })
}
