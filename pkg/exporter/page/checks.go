package page

import (
	"bytes"
	"html/template"
	"slices"
	"sync"

	"github.com/yuin/goldmark"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// checkPage is the page of one check: its runbook and what it finds.
type checkPage struct {
	Summary, Severity string
	Runbook           template.HTML
	Findings          []findingRow
	More              int
	All               link
}

func (v *view) ofCheck(c *classify.Check) []*classify.Finding {
	return slices.DeleteFunc(slices.Clone(v.Findings), func(f *classify.Finding) bool { return f.Check != c })
}

func (v *view) checkPage(c *classify.Check) *checkPage {
	p := &checkPage{Summary: c.Summary, Severity: c.Severity.String(), Runbook: rendered()[c.Name], All: v.search("all of them", c.Name)}
	p.Findings, p.More = v.rows(v.ofCheck(c), maxFindings)
	return p
}

// rendered are the runbooks, which are part of the program, once they are first looked at.
// It has no tables: goldmark's extensions cost each start of the program 0.3 ms.
var rendered = sync.OnceValue(func() map[string]template.HTML {
	markdown := goldmark.New()
	out := map[string]template.HTML{}
	for _, c := range classify.Checks {
		var b bytes.Buffer
		if err := markdown.Convert([]byte(c.Runbook()), &b); err != nil {
			panic(err) // unreachable: writing to memory does not fail
		}
		out[c.Name] = template.HTML(b.String())
	}
	return out
})
