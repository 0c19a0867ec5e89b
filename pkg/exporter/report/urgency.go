package report

import (
	"cmp"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// When is whether requests fail now.
type When int

// What fails now, what can fail, and what to look at once.
const (
	BrokenNow When = iota
	AtRisk
	ToReview
)

// Urgency orders findings: each view has the most urgent first.
type Urgency struct {
	When     When
	Severity classify.Severity
	// Stops is how many functions of the cluster stop, where calls fail now.
	Stops int
}

// NewUrgency is that of a finding of a check, nil where this program does not have it.
func NewUrgency(c *classify.Check, s classify.Severity, stops int) Urgency {
	switch {
	case s <= classify.Info:
		return Urgency{When: ToReview, Severity: s}
	case c == nil || !c.Fails():
		return Urgency{When: AtRisk, Severity: s}
	}
	return Urgency{When: BrokenNow, Severity: s, Stops: stops}
}

// Compare is negative where u is more urgent.
func (u Urgency) Compare(o Urgency) int {
	return cmp.Or(cmp.Compare(u.When, o.When), cmp.Compare(o.Severity, u.Severity), cmp.Compare(o.Stops, u.Stops))
}

func (f Finding) urgency() Urgency {
	return NewUrgency(classify.FindCheck(f.Check), f.Severity, f.Stops)
}
