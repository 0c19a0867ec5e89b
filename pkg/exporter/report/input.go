package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// readLines are the detected type of each input, and the time as of which it is
// evaluated where that is not now.
func readLines(inputs []inventory.Input, snapshotTime time.Time) []string {
	var out []string
	for _, i := range inputs {
		// A path that cannot be opened is among the errors.
		if i.Kind != "" {
			out = append(out, inputText(i))
		}
	}
	if note := evaluatedAsOf(inputs, snapshotTime); note != "" {
		out = append(out, note)
	}
	return out
}

// evaluatedAsOf is the time as of which inputs are evaluated, "" where that is now.
func evaluatedAsOf(inputs []inventory.Input, snapshotTime time.Time) string {
	if !slices.ContainsFunc(inputs, func(i inventory.Input) bool { return !i.Taken.IsZero() }) {
		return ""
	}
	return fmt.Sprintf("Evaluated as of %s, not now: certificates that expired since are not reported.", formatTime(snapshotTime))
}

// inputLines are one line of what the inputs lack; with -v, all that was read of each.
func inputLines(inputs []inventory.Input, snapshotTime time.Time, o TextOptions) []Line {
	var texts []string
	if lacks := commonLacks(inputs); len(lacks) > 0 {
		texts = append(texts, "Not in the input, so not checked: "+strings.Join(lacks, ", ")+o.hint(" (-v)"))
	}
	texts = append(texts, unreadInputs(inputs)...)
	if note := evaluatedAsOf(inputs, snapshotTime); note != "" {
		texts = append(texts, note)
	}
	if o.Verbose {
		texts = readLines(inputs, snapshotTime)
	}
	return dimmed(texts)
}

func dimmed(texts []string) []Line {
	return each(Sentences(texts...), func(l *Line) { l.Tone = Dim })
}

// unreadInputs are sentences on what of the inputs is not read: what cannot be built, and
// other forms of the same objects.
func unreadInputs(inputs []inventory.Input) []string {
	var out []string
	for _, i := range inputs {
		for _, lack := range i.Lacks {
			if _, is := whatLacks(lack); !is {
				out = append(out, sentence(lack))
			}
		}
	}
	return lists.Distinct(out)
}

// commonLacks names what none of the inputs holds.
func commonLacks(inputs []inventory.Input) []string {
	if holding := slices.DeleteFunc(slices.Clone(inputs),
		func(i inventory.Input) bool { return i.Objects == 0 }); len(holding) > 0 {
		inputs = holding
	}
	count := map[string]int{}
	for _, i := range inputs {
		for _, lack := range i.Lacks {
			if what, is := whatLacks(lack); is {
				count[what]++
			}
		}
	}
	maps.DeleteFunc(count, func(_ string, n int) bool { return n < len(inputs) })
	return slices.Sorted(maps.Keys(count))
}

// withLacks leaves out what the inputs lack and an answer does not need.
func withLacks(inputs []inventory.Input, isNeeded func(lack string) bool) []inventory.Input {
	return each(inputs, func(i *inventory.Input) {
		i.Lacks = slices.DeleteFunc(slices.Clone(i.Lacks), func(lack string) bool {
			what, is := whatLacks(lack)
			return is && !isNeeded(what)
		})
	})
}

// whatLacks is what an input lacks by that; false where it says something else of it.
func whatLacks(lack string) (what string, is bool) {
	what, is = strings.CutPrefix(strings.ToLower(lack[:min(3, len(lack))])+lack[min(3, len(lack)):], "no ")
	what, _, _ = strings.Cut(what, ":")
	return strings.TrimSuffix(strings.TrimSuffix(what, "."), " found"), is
}

func sentence(s string) string { return text.Capital(strings.TrimSuffix(s, ".")) + "." }

func inputText(i inventory.Input) string {
	var s strings.Builder
	fmt.Fprintf(&s, "Read %s as %s: %s", i.Name(), i.Kind, inventory.Counted(i.Objects, "object"))
	if i.Skipped > 0 {
		fmt.Fprintf(&s, ", %d of other kinds", i.Skipped)
	}
	if !i.Taken.IsZero() {
		s.WriteString(", collected at " + formatTime(i.Taken))
	}
	s.WriteString(".")
	for _, lack := range i.Lacks {
		s.WriteString(" " + sentence(lack))
	}
	return text.Clean(s.String())
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
