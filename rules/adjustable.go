package rules

import (
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

// Adjustable is what the mixin and the chart need to change in a rendered file what Options
// change.
type Adjustable struct {
	// Alerts are the severities by the enhancement, "" where it does not differ.
	Alerts  map[string]string           `json:"alerts"`
	Numbers map[string]adjustableNumber `json:"numbers"`
	// Rules are, by the name of an alert or a record, its expression with "$NAME;" in the place
	// of each number.
	Rules map[string]string `json:"rules"`
	// Series are the names of all series that the rules read of others.
	Series []string `json:"series"`
}

type adjustableNumber struct {
	Number

	Alerts []string `json:"alerts"` // that depend on it
}

// WriteAdjustable returns what can be adjusted, as JSON.
func WriteAdjustable() ([]byte, error) {
	out := Adjustable{
		Alerts: map[string]string{}, Numbers: map[string]adjustableNumber{}, Rules: map[string]string{},
		Series: []string{"webhook_auditor_policy_info"}, // which a description alone reads
	}
	for _, n := range Numbers {
		out.Numbers[n.Name] = adjustableNumber{n, dependents()[n.Name]}
	}
	for _, g := range Groups() {
		for _, r := range g.RecordingRules {
			if err := out.add(r.Name, r.Expr); err != nil {
				return nil, err
			}
		}
		for _, a := range g.Alerts {
			out.Alerts[a.Name] = a.Enhancement.String()
			if err := out.add(a.Name, a.Expr); err != nil {
				return nil, err
			}
		}
	}
	out.Series = lists.Distinct(slices.DeleteFunc(out.Series, isOurs))
	return text.JSON(out, "  ")
}

// add adds what the expression of a rule reads, and where its numbers are.
func (a *Adjustable) add(rule, expr string) error {
	a.Series = append(a.Series, selected(expr)...)
	marks, names := Options{Thresholds: map[string]float64{}}, []string{}
	for i, n := range Numbers {
		mark := firstMark + float64(i)
		marks.Thresholds[n.Name] = mark
		names = append(names, decimal(mark), "$"+n.Name+";")
	}
	marked, err := marks.expr(expr)
	if err != nil {
		return err
	}
	if placed := strings.NewReplacer(names...).Replace(marked); placed != marked {
		a.Rules[rule] = placed
	}
	return nil
}

// firstMark is what the first number is while it is looked for. No expression has as large ones.
const firstMark = 987600
