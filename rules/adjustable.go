package rules

import (
	"encoding/json"
	"slices"
)

// Adjustable is what the mixin and the chart need of the alerts to change in a
// rendered file what Options change.
type Adjustable struct {
	Alerts map[string]Adjustments `json:"alerts"`
	// Series are the names of all series that the rules read of others.
	Series []string `json:"series"`
}

// Adjustments are the threshold of an alert, as it is written in its expression
// after "> ", and how the enhancement differs; what it lacks is "".
type Adjustments struct {
	Threshold            string `json:"threshold,omitempty"`
	EnhancementThreshold string `json:"enhancementThreshold,omitempty"`
	EnhancementSeverity  string `json:"enhancementSeverity,omitempty"`
}

// WriteAdjustable returns what can be adjusted, as JSON.
func WriteAdjustable() ([]byte, error) {
	out := Adjustable{Alerts: map[string]Adjustments{}, Series: []string{"webhook_auditor_policy_info"}} // which a description alone reads
	for _, g := range Groups() {
		for _, a := range g.Alerts {
			of := Adjustments{Threshold: optional(a.Threshold), EnhancementThreshold: optional(a.Enhancement.Threshold)}
			if a.Enhancement.Severity != 0 {
				of.EnhancementSeverity = a.Enhancement.Severity.String()
			}
			out.Alerts[a.Name] = of
		}
	}
	for _, g := range Groups() {
		for _, r := range g.RecordingRules {
			out.Series = append(out.Series, selected(r.Expr)...)
		}
		for _, a := range g.Alerts {
			out.Series = append(out.Series, selected(a.Expr)...)
		}
	}
	out.Series = slices.DeleteFunc(out.Series, isOurs)
	slices.Sort(out.Series)
	out.Series = slices.Compact(out.Series)
	text, err := json.MarshalIndent(out, "", "  ")
	return append(text, '\n'), err
}
