package report

import (
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// diff is what changed between two Documents.
type diff struct {
	// Added are the findings that are new, or worse than before.
	Added []Finding
	// Resolved are the findings that are gone.
	Resolved []Finding
}

// findingID identifies a finding across Documents. Its position in a file, its
// severity and its message may change; it is the same finding.
type findingID struct {
	check string
	inventory.Ref
	resource string
}

func (f Finding) id() findingID {
	return findingID{f.Check, f.Ref, f.Resource}
}

// compare returns the findings that after adds to before and those that it
// resolves. Acknowledged findings are accepted, not resolved: one whose
// acknowledgement ends is added, one that becomes acknowledged is neither.
func compare(before, after Document) diff {
	var d diff
	old, current := byID(before.Findings), byID(after.Findings)
	for _, f := range after.Findings {
		if old[f.id()].weight() < f.weight() {
			d.Added = append(d.Added, f)
		}
	}
	for _, f := range before.Findings {
		if _, still := current[f.id()]; !still && !f.Acknowledged {
			d.Resolved = append(d.Resolved, f)
		}
	}
	return d
}

// byID keeps the worst of those that are the same: an object may stand in
// several files.
func byID(findings []Finding) map[findingID]Finding {
	out := make(map[findingID]Finding, len(findings))
	for _, f := range findings {
		if known, ok := out[f.id()]; !ok || known.weight() < f.weight() {
			out[f.id()] = f
		}
	}
	return out
}

// weight orders findings by how much they matter; accepted ones do not.
func (f Finding) weight() classify.Severity {
	if f.Acknowledged {
		return 0
	}
	return f.Severity
}
