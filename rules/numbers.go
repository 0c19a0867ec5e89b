package rules

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

// A Number decides when alerts fire. Expressions have it as "$Name"; one that is named as an alert
// is its threshold.
type Number struct {
	Name  string  `json:"-"`
	Value float64 `json:"value"`
	// Enhancement is the value by OpenShift's enhancement, where it differs.
	Enhancement float64 `json:"enhancement,omitempty"`
	// Lowest and Highest are the least and the most that work: beyond, something else in the rules
	// decides. AtLeast and AtMost are Numbers that bound it as well.
	Lowest  float64 `json:"lowest"`
	Highest float64 `json:"highest"`
	AtLeast string  `json:"atLeast"`
	AtMost  string  `json:"atMost"`
	// Means is the sentence of the table.
	Means string `json:"-"`
}

// leastShare is what the records of slow and failed calls keep.
const leastShare = 0.01

// Numbers is the table of all that options, chart and mixin can change. An alert of the name is
// what the first ones are about.
var Numbers = []Number{
	{"WebhookFailingClosed", 0.06, 0, leastShare, 0.99, "", "", "An outage of a webhook that is called now and then: this share of the calls of six hours fails. No page is for less."},
	{"WebhookCallsFailing", 0.05, 0.01, leastShare, 0.99, "", "pageShare", "A ticket: over this share of the calls of 5 minutes fails, in 10 of 30 minutes, or in 7 slots of 2 minutes within six hours."},
	{"WebhookFailingOpen", 0.05, 0.01, leastShare, 0.99, "", "pageShare", "The same, where requests pass."},
	{"WebhookConversionFailing", 0.05, 0.01, leastShare, 0.99, "", "pageShare", "The same, of conversions."},
	{"ticketShareOfHours", 0.02, 0, 0.002, 0.99, "", "pageShare", "Each of them is also for more than this share of the calls of six hours, half of it in half of the slots."},
	{"WebhookCriticalResourceSlow", 0.01, 0, leastShare, 0.99, "", "", "Over this share of the calls takes longer than the webhook's threshold, and the cluster depends on it, or its reach is not known."},
	{"WebhookSlow", 0.01, 0, leastShare, 0.99, "", "", "The same, where the cluster does not."},
	{"WebhookRejectionsHigh", 0.1, 0, 0.001, 0.99, "", "", "Over this share of the requests is refused on purpose."},
	{"pageShare", 0.2, 0, leastShare, 0.99, "WebhookFailingClosed", "", "An outage of a webhook that is called all the time: over this share of the calls of 5 minutes fails."},
	{"pageHalfMinutes", 11, 0, 1, 60, "", "", "So many of the 60 half minutes of 30 minutes must count, after 3 minutes of which over 3/4 of that failed. An outage of two minutes counts for 10."},
	{"pageFailures", 5, 0, 1, 1000, "", "", "Fewer failures than these in 30 minutes, or in six hours of a webhook that is called now and then, never page."},
	{"pageSlots", 3, 0, 1, 90, "", "", "So many of the 90 slots within six hours must count, of a webhook that is called now and then."},
	{"partShare", 0.5, 0, 0.02, 0.99, "", "", "An operation, also on one API server, is looked at by itself where over this share of its calls fails."},
	{"expiresSoonDays", 7, 0, 0.1, 30, "", "", "A CA bundle expires soon where fewer days are left: a ticket each day, and no longer each week."},
	{"explainedShare", 0.5, 0, 0.01, 0.99, "", "", "The errors of API servers are explained where over this share of them in 30 minutes is of webhooks."},
	{"hangingShare", 0.5, 0, 0.02, 0.99, "", "", "Calls hang where over this share of them takes over 2.5 s: it pages when they have in 5 minutes, instead of 13 of 15."},
}

// findNumber returns the number of the name, if there is one.
func findNumber(name string) (Number, bool) {
	i := slices.IndexFunc(Numbers, func(n Number) bool { return n.Name == name })
	if i < 0 {
		return Number{}, false
	}
	return Numbers[i], true
}

// value is that of a number as given, or as decided by who decides over severities.
func (o Options) value(n Number) float64 {
	value, isGiven := o.Thresholds[n.Name]
	switch {
	case isGiven:
		return value
	case o.Severities == EnhancementSeverities && n.Enhancement != 0:
		return n.Enhancement
	}
	return n.Value
}

// limits are the least and the most that work of a number, beside the others.
func (o Options) limits(n Number) (lowest, highest float64) {
	least, _ := findNumber(n.AtLeast)
	lowest, highest = max(n.Lowest, o.value(least)), n.Highest
	if most, ok := findNumber(n.AtMost); ok {
		highest = min(highest, o.value(most))
	}
	return lowest, highest
}

// numbered is an expression with the values of its numbers.
func (o Options) numbered(expr string) string {
	return placedNumber.ReplaceAllStringFunc(expr, func(name string) string {
		if n, exists := findNumber(name[1:]); exists {
			return decimal(o.value(n))
		}
		return name
	})
}

var placedNumber = regexp.MustCompile(`\$[A-Za-z]+`)

func decimal(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }

// checkNumbers refuses values that nothing depends on which is printed, and names that are none.
func (o Options) checkNumbers(printed []Group) error {
	numbers := lists.Map(Numbers, func(n Number) string { return n.Name })
	for _, name := range slices.Sorted(maps.Keys(o.Thresholds)) {
		n, exists := findNumber(name)
		value := o.Thresholds[name]
		lowest, highest := o.limits(n)
		switch {
		case !exists && slices.Contains(alertNames(Groups()), name):
			return fmt.Errorf("--threshold: %s has none: must be one of %s", name, strings.Join(numbers, ", "))
		case !exists:
			return fmt.Errorf("--threshold: %q: must be one of %s%s", name, strings.Join(numbers, ", "), nearest(name, numbers))
		case !n.decides(printed):
			return fmt.Errorf("--threshold: %s: nothing that is printed depends on it", name)
		case !(value >= lowest && value <= highest): // NaN is neither
			return fmt.Errorf("--threshold: %s=%v: must be at least %s, the lowest that works, and at most %s", name, value, decimal(lowest), decimal(highest))
		}
	}
	return nil
}

// decides reports whether an alert of the groups depends on the number or, where they have none, a record.
func (n Number) decides(groups []Group) bool {
	names, reads := alertNames(groups), func(r RecordingRule) bool { return strings.Contains(r.Expr, "$"+n.Name) }
	if len(names) == 0 {
		return slices.ContainsFunc(groups, func(g Group) bool { return slices.ContainsFunc(g.RecordingRules, reads) })
	}
	return slices.ContainsFunc(dependents()[n.Name], func(name string) bool { return slices.Contains(names, name) })
}

// tickets are the alerts that the threshold of one is about, of those that read what all are recorded in.
var tickets = map[string][]string{
	"WebhookCallsFailing": {"WebhookCallsFailing", "WebhookFailingOpen"}, "WebhookFailingOpen": {"WebhookFailingOpen"}, "WebhookConversionFailing": {"WebhookConversionFailing"},
}

// dependents are the alerts that depend on each number: those that read it, or records that do.
var dependents = sync.OnceValue(func() map[string][]string {
	reads, alerts, out := map[string][]string{}, alertNames(Groups()), map[string][]string{}
	for _, g := range Groups() {
		for _, r := range g.RecordingRules {
			reads[r.Name] = slices.Concat(reads[r.Name], selected(r.Expr), placedNumber.FindAllString(r.Expr, -1))
		}
		for _, a := range g.Alerts {
			reads[a.Name] = append(selected(a.Expr), placedNumber.FindAllString(a.Expr, -1)...)
		}
	}
	for _, n := range Numbers {
		depend := []string{"$" + n.Name}
		for i := 0; i < len(depend); i++ {
			for name, inputs := range reads {
				if slices.Contains(inputs, depend[i]) && !slices.Contains(depend, name) {
					depend = append(depend, name)
				}
			}
		}
		isOther := func(name string) bool {
			return !slices.Contains(depend, name) || len(tickets[n.Name]) > 0 && !slices.Contains(tickets[n.Name], name)
		}
		out[n.Name] = slices.DeleteFunc(slices.Clone(alerts), isOther)
	}
	return out
})

// nearest suggests a name that looks like the one given, or contains it.
func nearest(name string, names []string) string {
	for _, k := range text.Similar(name, slices.Sorted(slices.Values(names)), 1) {
		return ", did you mean " + k + "?"
	}
	return ""
}
