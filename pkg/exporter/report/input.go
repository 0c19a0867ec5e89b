package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// InputNotes are the detected type of each path and what it lacks, as sentences;
// none for a cluster.
func InputNotes(s *inventory.Snapshot) []string {
	return readLines(newInputs(s), s.Taken)
}

// readLines are the detected type of each input, and the time as of which it is
// evaluated where that is not now.
func readLines(inputs []Input, taken time.Time) []string {
	var out []string
	for _, i := range inputs {
		// A path that cannot be opened is among the errors.
		if i.Kind != "" {
			out = append(out, i.String())
		}
	}
	if slices.ContainsFunc(inputs, func(i Input) bool { return !i.Taken.IsZero() }) {
		out = append(out, fmt.Sprintf("Evaluated as of %s, not of now: what expired since is not reported.", formatTime(taken)))
	}
	return out
}

// String returns the detected type of the input, and what it lacks.
func (i Input) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "Read %s as %s: %s", i.name(), i.Kind, inventory.Counted(i.Objects, "object"))
	if i.Skipped > 0 {
		fmt.Fprintf(&s, ", %d of other kinds", i.Skipped)
	}
	if !i.Taken.IsZero() {
		s.WriteString(", collected at " + formatTime(i.Taken))
	}
	s.WriteString(".")
	for _, lack := range i.Lacks {
		s.WriteString(" " + capital(strings.TrimSuffix(lack, ".")) + ".")
	}
	return text.Clean(s.String())
}

func (i Input) name() string {
	if i.Path == "-" {
		return "standard input"
	}
	return i.Path
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func capital(s string) string { return strings.ToUpper(cmp.Or(s, " ")[:1]) + s[min(1, len(s)):] }
