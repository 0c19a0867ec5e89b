package classify

import (
	"strings"
	"unicode"

	"al.essio.dev/pkg/shellescape"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

// quoted returns the text as one word of a shell command. Every name in a Fix
// goes through it, also where it stands in prose: names come out of manifests,
// and users copy whole lines. What cannot be printed, line ends above all, is
// replaced: no name that the API server accepts holds any.
func quoted(word string) string {
	return shellescape.Quote(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, word))
}

// quotedAll quotes each.
func quotedAll(words []string) []string {
	return text.Map(words, quoted)
}

// ShellFlag returns the flag with its value. Where the value would be taken for a
// flag itself, both are one word.
func ShellFlag(flag, value string) string {
	if strings.HasPrefix(value, "-") {
		return flag + "=" + quoted(value)
	}
	return flag + " " + quoted(value)
}

// TypeAndName returns TYPE and NAME as kubectl takes them, where a name that starts
// with a dash is not taken for a flag.
func TypeAndName(kind, name string) string {
	if strings.HasPrefix(name, "-") {
		return quoted(kind + "/" + name)
	}
	return kind + " " + quoted(name)
}
