package report

import (
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

func TestCompare(t *testing.T) {
	base := Finding{Check: "no-ready-endpoints", Severity: classify.Warning, Ref: inventory.Ref{Type: "validating", Configuration: "policy", Name: "pods"}}
	with := func(change func(*Finding)) Finding {
		f := base
		change(&f)
		return f
	}
	worse := with(func(f *Finding) { f.Severity = classify.Critical })
	accepted := with(func(f *Finding) { f.Acknowledged = true })
	moved := with(func(f *Finding) {
		f.Source, f.Message, f.Fix = inventory.Source{File: "new.yaml", Line: 99}, "in other words", "another way"
	})
	other := with(func(f *Finding) { f.Resource = "pods" })
	sibling := with(func(f *Finding) { f.Type = "admit" })
	for name, tc := range map[string]struct {
		before, after, added, resolved []Finding
	}{
		"nothing":                    {},
		"the same":                   {before: []Finding{base}, after: []Finding{base}},
		"moved and reworded":         {before: []Finding{base}, after: []Finding{moved}},
		"new":                        {after: []Finding{base}, added: []Finding{base}},
		"gone":                       {before: []Finding{base}, resolved: []Finding{base}},
		"worse":                      {before: []Finding{base}, after: []Finding{worse}, added: []Finding{worse}},
		"milder":                     {before: []Finding{worse}, after: []Finding{base}},
		"another resource":           {before: []Finding{base}, after: []Finding{other}, added: []Finding{other}, resolved: []Finding{base}},
		"another type":               {before: []Finding{base}, after: []Finding{base, sibling}, added: []Finding{sibling}},
		"new, but acknowledged":      {after: []Finding{accepted}},
		"acknowledged now":           {before: []Finding{base}, after: []Finding{accepted}},
		"acknowledgement ended":      {before: []Finding{accepted}, after: []Finding{base}, added: []Finding{base}},
		"acknowledged, and gone":     {before: []Finding{accepted}},
		"twice before, once after":   {before: []Finding{base, moved}, after: []Finding{base}},
		"worst of two counts":        {before: []Finding{base, worse}, after: []Finding{worse}},
		"worst of two counts, after": {before: []Finding{base, accepted}, after: []Finding{accepted, base}},
	} {
		t.Run(name, func(t *testing.T) {
			got := NewComparison(Document{Findings: tc.before}, Document{Findings: tc.after})
			expect.Equal(t, append([]Finding{}, tc.added...), got.Added)
			expect.Equal(t, append([]Finding{}, tc.resolved...), got.Resolved)
		})
	}
}
