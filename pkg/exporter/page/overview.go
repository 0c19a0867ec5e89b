package page

import (
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// overview is the first page: what is wrong now, its causes, then the rest.
type overview struct {
	Headline   *headline
	Tiles      []tile
	Conditions []conditionRow
	// Expected counts the conditions that are as they should be.
	Expected   int
	Errors     []string
	MoreErrors int
	Groups     []severityGroup
	// Nothing is what there is to say without a finding; Known is false where there
	// is no webhook either.
	Nothing  string
	Known    bool
	Inputs   []string
	Observed string
	AuditLog report.Blocks
}

// tile is a number of the overview.
type tile struct {
	link
	Value int
	Style string
	Note  string
}

type conditionRow struct {
	Type, Status, Message, Since, Style string
	// Reasons are the parts of the reason, which is long.
	Reasons []string
}

// severityGroup are the findings of a severity by their causes.
type severityGroup struct {
	Severity string
	Count    int
	Causes   []cause
	More     int
	All      link
}

// maxPerCause bounds the findings of a cause on the overview, maxCauses the causes
// of a severity.
const (
	maxPerCause = 3
	maxCauses   = 10
)

func (v *view) overview() *overview {
	o := &overview{Headline: v.headline(), Tiles: v.tiles(), Groups: v.groups(), Nothing: "Nothing is found to be wrong.", Known: len(v.profiles) > 0}
	for _, c := range v.Conditions {
		if row := v.conditionRow(c); row.Style != "ok" {
			o.Conditions = append(o.Conditions, row)
		} else {
			o.Expected++
		}
	}
	for _, e := range v.Report.Errors[:min(len(v.Report.Errors), report.MaxErrors)] {
		o.Errors = append(o.Errors, e.Error())
	}
	o.MoreErrors = len(v.Report.Errors) - len(o.Errors)
	for _, i := range v.Snapshot.Inputs {
		path := i.Path
		if path == "-" {
			path = "standard input"
		}
		o.Inputs = append(o.Inputs, path+" ("+i.Kind+")")
	}
	if !o.Known {
		o.Nothing = "There is no webhook to say anything about."
	}
	o.Observed, o.AuditLog = report.SourceLine(v.Snapshot.Observed), report.AuditBlocks(v.Snapshot)
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
			Value: counts[s], Style: styleOfCount(s, counts[s]),
		})
	}
	if acknowledged > 0 {
		out[len(out)-1].Note = inventory.Counted(acknowledged, "finding") + " acknowledged"
	}
	types := map[inventory.Type]int{}
	for _, p := range v.profiles {
		types[p.Type]++
	}
	for _, t := range []inventory.Type{inventory.Mutating, inventory.Validating, inventory.Conversion} {
		out = append(out, tile{link: v.search(t.Title(), url.Values{"type": {string(t)}}), Value: types[t], Note: "webhooks"})
	}
	return out
}

// styleOfCount marks a number of findings; none is nothing to mark.
func styleOfCount(s classify.Severity, n int) string {
	if n == 0 {
		return "label"
	}
	return severityClass(s.String())
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

// conditionRow shows a condition. Degraded follows the errors a while later: until
// then it is no good news.
func (v *view) conditionRow(c metav1.Condition) conditionRow {
	row := conditionRow{Type: c.Type, Status: string(c.Status), Since: timeText(c.LastTransitionTime.Time), Reasons: strings.Split(c.Reason, "::"), Message: c.Message, Style: "ok"}
	errors := slices.ContainsFunc(v.Conditions, func(o metav1.Condition) bool {
		return strings.HasSuffix(o.Type, "Error") && o.Status == metav1.ConditionTrue
	})
	switch {
	case c.Status == metav1.ConditionUnknown:
		row.Style = "unknown"
	case c.Type == "Degraded" && c.Status == metav1.ConditionFalse && errors:
		row.Style, row.Message = "unknown", "Turns True when an error has lasted for its time."
	case c.Status == badStatus(c) && c.Type == "Progressing":
		row.Style = "unknown"
	case c.Status == badStatus(c):
		row.Style = "bad"
	}
	return row
}

// groups are the findings that are not acknowledged by severity and cause.
func (v *view) groups() []severityGroup {
	var out []severityGroup
	for _, s := range classify.Severities {
		causes := v.causes(s)
		if len(causes) == 0 {
			continue
		}
		group := severityGroup{Severity: s.String(), More: max(len(causes)-maxCauses, 0), All: v.search("all of them", url.Values{"severity": {s.String()}})}
		for _, c := range causes {
			group.Count += len(c.findings)
		}
		for _, c := range causes[:min(len(causes), maxCauses)] {
			group.Causes = append(group.Causes, v.cause(c, s))
		}
		out = append(out, group)
	}
	return out
}
