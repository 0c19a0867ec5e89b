// Package text has what messages, pages and errors do with words: each once.
package text

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Seconds writes a duration as "3 s".
func Seconds(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }

// Clean replaces control characters, which a terminal would interpret: names and
// messages may hold any.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return utf8.RuneError
		}
		return r
	}, s)
}

// more ends a text that goes on.
const more = "…"

// Shorten returns a text of at most so many bytes, whole characters, with a sign that it
// goes on.
func Shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len(more)], "") + more
}

// Similar returns the names that look like what was typed or contain it, the
// nearest first, at most so many.
func Similar(typed string, names []string, most int) []string {
	typed = strings.ToLower(typed)
	distance := func(name string) int {
		name = strings.ToLower(name)
		if len(typed) > 2 && strings.Contains(name, typed) {
			return min(1, Edits(typed, name))
		}
		return Edits(typed, name)
	}
	near := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return distance(name) > 1+len(typed)/5 })
	slices.SortStableFunc(near, func(a, b string) int { return distance(a) - distance(b) })
	return near[:min(len(near), most)]
}

// Edits is how many bytes to change, add, take away or exchange with the next: Levenshtein's
// distance, where two letters in the wrong order are one mistake.
func Edits(a, b string) int {
	var short [3][64]int // of most names, off the heap
	before, row, next := short[0][:0], short[1][:0], short[2][:0]
	for j := range len(b) + 1 {
		before, row, next = append(before, 0), append(row, j), append(next, 0)
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			substitute := row[j]
			if a[i] != b[j] {
				substitute++
			}
			next[j+1] = min(substitute, next[j]+1, row[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}

// Capital is the text with a capital letter first, unless that begins a path, an address or
// a name, which are copied.
func Capital(s string) string {
	word, _, _ := strings.Cut(s, " ")
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 || first == utf8.RuneError || strings.ContainsAny(strings.TrimRight(word, ".,:;"), "/.:_@0123456789") {
		return s
	}
	return string(unicode.ToUpper(first)) + s[size:]
}

// JSON is the value as people read JSON: without the escapes of HTML, and indented if an indent is given.
func JSON(value any, indent string) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(value)
	return b.Bytes(), err
}
