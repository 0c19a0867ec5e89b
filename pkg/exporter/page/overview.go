package page

import (
	"net/url"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// overview is the first page.
type overview struct {
	Tiles      []tile
	Conditions []conditionRow
	Errors     []string
	MoreErrors int
	Groups     []severityGroup
	Inputs     []string
	Observed   string
}

// tile is a number of the overview.
type tile struct {
	link
	Value int
	Style string
	Note  string
}

type conditionRow struct {
	Type, Status, Reason, Message, Since string
	Style                                string
}

// severityGroup are the findings of a severity by their checks.
type severityGroup struct {
	Severity string
	Count    int
	Checks   []checkGroup
}

type checkGroup struct {
	Check    link
	Summary  string
	Count    int
	Findings []findingRow
	More     int
	All      link
}

// maxPerCheck bounds the findings of a check on the overview.
const maxPerCheck = 5

func (v *view) overview() *overview {
	o := &overview{Tiles: v.tiles(), Groups: v.groups()}
	for _, c := range v.Conditions {
		o.Conditions = append(o.Conditions, newConditionRow(c))
	}
	for _, e := range v.Report.Errors[:min(len(v.Report.Errors), report.MaxErrors)] {
		o.Errors = append(o.Errors, e.Error())
	}
	o.MoreErrors = len(v.Report.Errors) - len(o.Errors)
	for _, i := range v.Snapshot.Inputs {
		o.Inputs = append(o.Inputs, i.Path+" ("+i.Kind+")")
	}
	o.Observed = report.SourceLine(v.Snapshot.Observed)
	return o
}

func (v *view) tiles() []tile {
	counts, acknowledged := map[classify.Severity]int{}, 0
	for _, f := range v.findings {
		if f.Acknowledged {
			acknowledged++
		} else {
			counts[f.Severity]++
		}
	}
	var out []tile
	for _, s := range classify.Severities {
		out = append(out, tile{
			link:  v.search(s.String(), url.Values{"severity": {s.String()}}),
			Value: counts[s], Style: severityClass(s.String()),
		})
	}
	if acknowledged > 0 {
		out[len(out)-1].Note = inventory.Counted(acknowledged, "finding") + " acknowledged"
	}
	types := map[inventory.Type]int{}
	for _, p := range v.profiles {
		types[p.Type]++
	}
	for _, t := range []struct {
		kind  inventory.Type
		title string
	}{{inventory.Mutating, "mutating"}, {inventory.Validating, "validating"}, {inventory.Conversion, "conversion"}} {
		out = append(out, tile{link: v.search(t.title, url.Values{"type": {string(t.kind)}}), Value: types[t.kind], Note: "webhooks"})
	}
	return out
}

// badStatus is the status of a condition that is bad: only Available is to be
// True.
func badStatus(c metav1.Condition) metav1.ConditionStatus {
	switch c.Type {
	case "Available", "Upgradeable":
		return metav1.ConditionFalse
	}
	return metav1.ConditionTrue
}

func newConditionRow(c metav1.Condition) conditionRow {
	row := conditionRow{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Style: "ok"}
	switch {
	case c.Status == metav1.ConditionUnknown:
		row.Style = "unknown"
	case c.Status == badStatus(c) && c.Type == "Progressing":
		row.Style = "unknown"
	case c.Status == badStatus(c):
		row.Style = "bad"
	}
	if !c.LastTransitionTime.IsZero() {
		row.Since = c.LastTransitionTime.UTC().Format(time.RFC3339)
	}
	return row
}

// groups are the findings that are not acknowledged by severity and check.
func (v *view) groups() []severityGroup {
	var out []severityGroup
	for _, s := range classify.Severities {
		byCheck := map[*classify.Check][]*classify.Finding{}
		var order []*classify.Check
		group := severityGroup{Severity: s.String()}
		for _, f := range v.findings {
			if f.Acknowledged || f.Severity != s {
				continue
			}
			if byCheck[f.Check] == nil {
				order = append(order, f.Check)
			}
			byCheck[f.Check] = append(byCheck[f.Check], f)
			group.Count++
		}
		// The checks are listed as documents list them.
		slices.SortStableFunc(order, func(a, b *classify.Check) int {
			return slices.Index(classify.Checks, a) - slices.Index(classify.Checks, b)
		})
		for _, c := range order {
			g := checkGroup{Check: v.check(c), Summary: c.Summary, Count: len(byCheck[c])}
			g.Findings, g.More = v.rows(byCheck[c], maxPerCheck)
			g.All = v.search("all of them", url.Values{"finding": {c.Name}, "severity": {s.String()}})
			group.Checks = append(group.Checks, g)
		}
		if group.Count > 0 {
			out = append(out, group)
		}
	}
	return out
}
