package inventory

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
)

// placement is what is in each namespace, for questions that thousands of
// webhooks lead to. It is made when the first of them is asked.
type placement struct {
	once sync.Once
	// services says which namespaces have a Service.
	services map[string]bool
	// byName are the namespaces of the Services of each name, sorted.
	byName map[string][]string
	// carrying are the workloads that carry a label which a Service selects.
	carrying map[placedLabel][]int

	guard  sync.Once
	guards map[workloadID]Guard

	isolation sync.Once
	isolating map[workloadID][]*NetworkPolicy
}

// placedLabel is a label of a Pod.
type placedLabel struct{ namespace, key, value string }

// place makes the index. It costs the labels of the Services and the workloads.
func (s *Snapshot) place() *placement {
	p := s.placement
	if p == nil { // a Snapshot that was not made of Objects
		p = &placement{}
	}
	p.once.Do(func() {
		p.services, p.byName, p.carrying = map[string]bool{}, map[string][]string{}, map[placedLabel][]int{}
		for key, service := range s.Services {
			p.services[key.Namespace] = true
			p.byName[key.Name] = append(p.byName[key.Name], key.Namespace)
			for name, value := range service.Selector {
				p.carrying[placedLabel{key.Namespace, name, value}] = nil
			}
		}
		for _, namespaces := range p.byName {
			slices.Sort(namespaces)
		}
		for i := range s.Workloads {
			w := &s.Workloads[i]
			for name, value := range w.PodLabels {
				l := placedLabel{w.Namespace, name, value}
				if all, selected := p.carrying[l]; selected {
					p.carrying[l] = append(all, i)
				}
			}
		}
	})
	return p
}

// HasServiceIn reports whether a Service of the namespace is known.
func (s *Snapshot) HasServiceIn(namespace string) bool { return s.place().services[namespace] }

// NamespacesOfService returns the namespaces with a Service of the name, sorted.
func (s *Snapshot) NamespacesOfService(name string) []string {
	return s.place().byName[name]
}

// Behind returns the workloads whose Pods a Service of the Snapshot sends calls
// to. A Service without a selector has none that could be known. It costs the
// workloads that carry the rarest of the labels that the Service selects.
func (s *Snapshot) Behind(service Service) []Workload {
	carrying := s.place().carrying
	var rarest []int
	first := true
	for key, value := range service.Selector {
		if all := carrying[placedLabel{service.Namespace, key, value}]; first || len(all) < len(rarest) {
			rarest, first = all, false
		}
	}
	if len(rarest) == 0 {
		return nil
	}
	selector := labels.SelectorFromSet(service.Selector)
	var out []Workload
	for _, i := range rarest {
		if selector.Matches(labels.Set(s.Workloads[i].PodLabels)) {
			out = append(out, s.Workloads[i])
		}
	}
	return slices.Clip(out)
}
