package arguments

import (
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

// maxSuggested bounds the names that an error suggests.
const maxSuggested = 5

// Like are the names that look like what was typed, or contain it; all of
// them where they are few and none does.
func Like(typed string, known []string) []string {
	near := text.Similar(typed, known, maxSuggested)
	if len(near) == 0 && len(known) <= maxSuggested {
		return known
	}
	return near
}

// similar returns the names of resources that look like the typed one, the
// nearest first.
func (n resourceNames) similar(typed string) []string {
	name, group, _ := strings.Cut(typed, ".")
	byName, names := map[string][]string{}, []string(nil)
	for _, r := range n.parents {
		if group != "" && len(text.Similar(group, []string{r.Group}, 1)) == 0 && !slices.Contains(n.byName[strings.ToLower(name)], r) {
			continue // another resource altogether
		}
		if byName[r.Name] == nil {
			names = append(names, r.Name)
		}
		byName[r.Name] = append(byName[r.Name], r.String())
	}
	var out []string
	for _, near := range text.Similar(name, names, maxSuggested) {
		out = append(out, byName[near]...)
	}
	return out[:min(len(out), maxSuggested)]
}

// Suggested completes an error by what the user may have meant.
func Suggested(candidates []string) string {
	if len(candidates) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(candidates, ", ") + "?"
}
