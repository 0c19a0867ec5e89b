package cluster

import (
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// namespaceReads is what webhooks and policies, and the reader of the Snapshots, read of
// namespaces. Clusters relabel and annotate namespaces all the time, and most of that
// decides nothing about a request.
type namespaceReads struct {
	mu sync.Mutex
	// from is the Snapshot that it was derived from, and byReader are the labels that
	// the reader of the Snapshots reads.
	from     *inventory.Snapshot
	byReader []string
	// labels are the keys that selectors or the reader read, nil before the first
	// Snapshot, for which everything is read; everything says that a matchCondition reads
	// the namespace of the object, or the labels of an object that is one.
	labels     map[string]bool
	everything bool
}

// matters reports whether a change of a namespace is one that a Snapshot shows.
func (n *namespaceReads) matters(before, after any) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	was, isObject := before.(metav1.Object)
	now, isObjectNow := after.(metav1.Object)
	if !isObject || !isObjectNow || n.labels == nil || n.everything || (was.GetDeletionTimestamp() == nil) != (now.GetDeletionTimestamp() == nil) {
		return true
	}
	for key := range n.labels {
		old, had := was.GetLabels()[key]
		if value, has := now.GetLabels()[key]; value != old || has != had {
			return true
		}
	}
	return false
}

// follow derives what the webhooks and policies of the Snapshot read beside its reader,
// and reports whether that is more than before: then namespaces may have changed in what
// was not read.
func (n *namespaceReads) follow(s *inventory.Snapshot, byReader []string) (more bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.from != nil && s.SameRegistrations(n.from) && slices.Equal(byReader, n.byReader) {
		return false
	}
	before, everything := n.labels, n.everything
	n.from, n.byReader, n.labels, n.everything = s, byReader, map[string]bool{}, false
	for _, key := range byReader {
		n.labels[key] = true
	}
	for _, w := range s.Webhooks {
		n.addRegistration(&w.Registration)
	}
	for _, p := range s.Policies {
		n.addRegistration(&p.Registration)
		for _, b := range p.Bindings {
			n.addSelectors(&b.MatchResources)
		}
	}
	for key := range n.labels {
		more = more || !before[key]
	}
	return before != nil && !everything && (more || n.everything)
}

func (n *namespaceReads) addRegistration(r *inventory.Registration) {
	n.addSelectors(&r.MatchResources)
	ofNamespaces := admission.RulesCover(r, inventory.Resource{Name: "namespaces"})
	for _, c := range r.MatchConditions {
		n.everything = n.everything || strings.Contains(c.Expression, "namespaceObject") || ofNamespaces && strings.Contains(c.Expression, "labels")
	}
}

func (n *namespaceReads) addSelectors(m *inventory.MatchResources) {
	n.add(m.NamespaceSelector)
	n.add(m.ObjectSelector) // of requests for namespaces
}

func (n *namespaceReads) add(s inventory.Selector) {
	if s.Raw == nil {
		return
	}
	for key := range s.Raw.MatchLabels {
		n.labels[key] = true
	}
	for _, e := range s.Raw.MatchExpressions {
		n.labels[e.Key] = true
	}
}
