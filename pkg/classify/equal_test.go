package classify

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// TestSameAsPairByPair: what is derived of several webhooks together is what asking about
// each pair of them finds.
func TestSameAsPairByPair(t *testing.T) {
	dearer := 0
	for seed := range uint64(200) {
		s := MixedSnapshot(seed)
		report := evaluate(t, DefaultPolicy(), s)
		for i := range report.Profiles {
			if diff := cmp.Diff(othersOf(report.Profiles, i), report.Profiles[i].Reinvoked.First, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("seed %d: %s: -pair by pair +classes:\n%s", seed, report.Profiles[i].Configuration, diff)
			}
		}
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

// othersOf are the first configurations that are called again for what this one
// is called again for.
func othersOf(profiles []Profile, self int) []string {
	var out []string
	for i := range profiles {
		if !reinvocable(profiles[self].Webhook) || !reinvocable(profiles[i].Webhook) || profiles[i].Configuration == profiles[self].Configuration {
			continue
		}
		for _, r := range profiles[self].Matched {
			if _, both := find(profiles[i].Matched, r.Resource); both {
				out = append(out, profiles[i].Configuration)
			}
		}
	}
	out = text.Distinct(out)
	return out[:min(len(out), maxListed)]
}

// dearest is what the requests cost in the namespace where they cost most.
func dearest(s *inventory.Snapshot, profiles []Profile, c Cost) time.Duration {
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
			if known, _ := s.NamespaceLabels(name); !s.NamespacesKnown || profiles[i].NamespaceSelector.Parsed.Matches(labels.Set(known)) {
				b = b.Add(profiles[i].Webhook, c.Operation)
			}
		}
		most = max(most, b.Total())
	}
	return most
}
