package operator

import (
	"slices"
	"strings"
)

// contains reports whether the text contains any of the words.
func contains(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}
