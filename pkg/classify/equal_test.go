package classify

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// TestCostsAreTheDearest: what requests cost at worst is what asking in each namespace finds.
func TestCostsAreTheDearest(t *testing.T) {
	dearer := 0
	for seed := range uint64(200) {
		s := MixedSnapshot(seed)
		report := evaluate(t, DefaultPolicy(), s)
		for _, c := range report.Costs {
			if c.Namespace != "" && c.Total() > 0 {
				dearer++
			}
			if want := dearest(s, report.Profiles, c); c.Total() != want {
				t.Fatalf("seed %d: %s of %s costs %s in %q, want %s", seed, c.Operation, c.Resource, c.Total(), c.Namespace, want)
			}
		}
	}
	if dearer < 100 {
		t.Errorf("only %d costs were compared", dearer)
	}
}

// dearest is what the requests cost in the namespace where they cost most.
func dearest(s *inventory.Snapshot, profiles []*Profile, c Cost) time.Duration {
	names := []string{"default", "kube-system"}
	for name := range s.Namespaces {
		names = append(names, name)
	}
	var most time.Duration
	for _, name := range names {
		var b admission.Budget
		for i := range profiles {
			at, matched := find(profiles[i].Matched, c.Resource)
			if !matched || !profiles[i].Matched[at].Operations.Has(c.Operation) {
				continue
			}
			if namespaceLabels, _ := s.NamespaceLabels(name); !s.NamespacesKnown || profiles[i].NamespaceSelector.Parsed.Matches(labels.Set(namespaceLabels)) {
				b = b.Add(profiles[i].Webhook, c.Operation)
			}
		}
		most = max(most, b.Total())
	}
	return most
}
