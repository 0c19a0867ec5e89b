package rules

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
)

// Adjustable is what the mixin and the chart need to change in a rendered file what Options
// change.
type Adjustable struct {
	// Alerts are the severities by the enhancement, "" where it does not differ.
	Alerts  map[string]string           `json:"alerts"`
	Numbers map[string]AdjustableNumber `json:"numbers"`
	// Rules are, by the name of an alert or a record, the numbers in its expression, by how
	// they are written there.
	Rules map[string]map[string]string `json:"rules"`
	// Series are the names of all series that the rules read of others.
	Series []string `json:"series"`
}

// AdjustableNumber is a Number, without what it means.
type AdjustableNumber struct {
	Enhancement float64 `json:"enhancement,omitempty"`
	Lowest      float64 `json:"lowest"`
	Below       float64 `json:"below"`
}

// WriteAdjustable returns what can be adjusted, as JSON.
func WriteAdjustable() ([]byte, error) {
	out := Adjustable{
		Alerts: map[string]string{}, Numbers: map[string]AdjustableNumber{}, Rules: map[string]map[string]string{},
		Series: []string{"webhook_auditor_policy_info", promql.WebhookSeconds + "_sum"}, // which descriptions alone read
	}
	for _, n := range Numbers {
		out.Numbers[n.Name] = AdjustableNumber{n.Enhancement, n.Lowest, n.Below}
	}
	for _, g := range Groups() {
		for _, r := range g.RecordingRules {
			out.add(r.Name, r.Expr)
		}
		for _, a := range g.Alerts {
			out.Alerts[a.Name] = a.Enhancement.String()
			out.add(a.Name, strings.ReplaceAll(a.Expr, "$threshold", "$"+a.Name))
		}
	}
	out.Series = slices.DeleteFunc(out.Series, isOurs)
	slices.Sort(out.Series)
	out.Series = slices.Compact(out.Series)
	text, err := json.MarshalIndent(out, "", "  ")
	return append(text, '\n'), err
}

// add adds what the expression of a rule reads.
func (a *Adjustable) add(rule, expr string) {
	a.Series = append(a.Series, selected(expr)...)
	for _, name := range placedNumber.FindAllString(expr, -1) {
		if n, exists := findNumber(name[1:]); exists {
			if a.Rules[rule] == nil {
				a.Rules[rule] = map[string]string{}
			}
			a.Rules[rule][decimal(n.Value)] = n.Name
		}
	}
}
