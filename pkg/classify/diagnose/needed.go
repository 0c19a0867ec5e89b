package diagnose

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// needed are texts, in lower case, of which one is in whatever an expression matches, none where
// there is a match without any. They are looked for first: logs have megabytes in which nothing
// matches.
type needed []string

func neededFor(r *regexp.Regexp) needed {
	parsed, err := syntax.Parse(r.String(), syntax.Perl)
	if err != nil {
		return nil // the same parser has read it
	}
	return neededOf(parsed)
}

// areIn reports whether the expression has to be tried on a text that is in lower case.
func (n needed) areIn(lower string) bool {
	return n == nil || slices.ContainsFunc(n, func(s string) bool { return strings.Contains(lower, s) })
}

func neededOf(r *syntax.Regexp) needed {
	var out needed
	switch r.Op {
	case syntax.OpLiteral:
		return needed{strings.ToLower(string(r.Rune))}
	case syntax.OpCapture, syntax.OpPlus:
		return neededOf(r.Sub[0])
	case syntax.OpAlternate:
		for _, sub := range r.Sub {
			texts := neededOf(sub)
			if texts == nil {
				return nil
			}
			out = append(out, texts...)
		}
	case syntax.OpConcat:
		for _, sub := range r.Sub {
			if texts := neededOf(sub); shortest(texts) > shortest(out) {
				out = texts
			}
		}
	}
	return out
}

// shortest is the length of the shortest of the texts, 0 of none.
func shortest(texts []string) int {
	if len(texts) == 0 {
		return 0
	}
	return len(slices.MinFunc(texts, func(a, b string) int { return len(a) - len(b) }))
}
