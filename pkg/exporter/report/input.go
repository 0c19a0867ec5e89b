package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// InputNotes say what each path was taken for and what it lacks, in whole
// sentences; none for a cluster.
func InputNotes(s *inventory.Snapshot) []string {
	return readLines(newInputs(s), s.Taken)
}

// readLines say what each input was taken for, and as of when it is judged
// where that is not now.
func readLines(inputs []Input, taken time.Time) []string {
	var out []string
	for _, i := range inputs {
		// What could not be opened is told by the errors.
		if i.Kind != "" {
			out = append(out, i.String())
		}
	}
	if slices.ContainsFunc(inputs, func(i Input) bool { return !i.Taken.IsZero() }) {
		out = append(out, fmt.Sprintf("Judged as of %s, not of now: what expired since is not reported.", moment(taken)))
	}
	return out
}

// String says what the input was taken for, and what it lacks.
func (i Input) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "Read %s as %s: %s", i.name(), i.Kind, counted(i.Objects, "object"))
	if i.Skipped > 0 {
		fmt.Fprintf(&s, ", %d of other kinds", i.Skipped)
	}
	if !i.Taken.IsZero() {
		s.WriteString(", collected at " + moment(i.Taken))
	}
	s.WriteString(".")
	for _, lack := range i.Lacks {
		s.WriteString(" " + capital(strings.TrimSuffix(lack, ".")) + ".")
	}
	return clean(s.String())
}

func (i Input) name() string {
	if i.Path == "-" {
		return "the standard input"
	}
	return i.Path
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func capital(s string) string { return strings.ToUpper(cmp.Or(s, " ")[:1]) + s[min(1, len(s)):] }
